package openstacktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/servers"
	clocktesting "k8s.io/utils/clock/testing"
)

func TestCalls_ShowTheRequests(t *testing.T) {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	s := start(t, WithClock(clocktesting.NewFakePassiveClock(at)))
	ask(t, s, "PUT", "/internal"+computePath+"/servers/x?a=b", `{"server": {}}`, "User-Agent",
		"tester/1", "OpenStack-API-Version", "compute 2.47")
	want := Call{
		Time: at, Service: ServiceCompute, Operation: "server_update", Method: "PUT",
		Path: computePath + "/servers/x", Query: "a=b",
		Interface: "internal", Body: `{"server": {}}`, Status: 404, UserAgent: "tester/1",
		Microversion: "2.47",
	}
	if got := s.Calls(); len(got) != 1 || got[0] != want {
		t.Errorf("the calls are\n%+v, want\n%+v", got, want)
	}
}

func TestCalls_AreLimited_CountsAreNot(t *testing.T) {
	s := start(t, WithCallLimit(3))
	for i := range 10 {
		send(t, s, "GET", fmt.Sprintf("/compute?i=%d", i), "")
	}
	var queries []string
	for _, call := range s.Calls() {
		queries = append(queries, call.Query)
	}
	if !slices.Equal(queries, []string{"i=7", "i=8", "i=9"}) || s.Counts()["version_list"] != 10 {
		t.Errorf("the calls are %v and the counts %v", queries, s.Counts())
	}
	s.ForgetCalls()
	if len(s.Calls()) != 0 || len(s.Counts()) != 0 {
		t.Errorf("after ForgetCalls: calls %v, counts %v", s.Calls(), s.Counts())
	}
}

func TestWaitForCall_ReturnsWithTheCallOrTheContext(t *testing.T) {
	s := start(t)
	found := make(chan error, 1)
	go func() {
		_, err := s.WaitForCall(patiently(t), func(c Call) bool { return c.Query == "second" })
		found <- err
	}()
	send(t, s, "GET", "/compute?first", "")
	send(t, s, "GET", "/compute?second", "")
	if err := receive(t, found); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.WaitForCall(ctx, func(Call) bool { return false }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestObserver_MayUseTheCloud(t *testing.T) {
	var s *Cloud
	var seen []int
	var mu sync.Mutex
	s = start(t, WithObserver(func(c Call) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, len(s.Calls()), c.Status)
	}))
	send(t, s, "GET", "/compute", "")
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(seen, []int{1, 200}) {
		t.Errorf("it saw %v", seen)
	}
}

// scenario is a history of a cloud. The same history must produce the same state.
func scenario(t *testing.T) (state string) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC))
	s := start(t, WithClock(clock), WithProvisioning(time.Minute))
	network := s.AddNetwork(Network{Name: "private"})
	s.AddSubnet(Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	s.AddProject(Project{Name: "other"})
	client := computeOf(t, s)
	for i := range 3 {
		options := servers.CreateOpts{
			Name: fmt.Sprintf("n%d", i), FlavorRef: "1",
			Networks: []servers.Network{{UUID: network}},
		}
		if _, err := servers.Create(patiently(t), client, options, nil).Extract(); err != nil {
			t.Fatal(err)
		}
		clock.SetTime(clock.Now().Add(30 * time.Second))
	}
	credentials := s.Credentials()
	credentials.AuthURL, credentials.Token = "", ""
	text, err := json.Marshal([]any{s.Servers(), s.Ports(), s.Calls(), credentials})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestSameHistory_SameCloud(t *testing.T) {
	if first, second := scenario(t), scenario(t); first != second {
		t.Errorf("one run gives\n%s\nand another\n%s", first, second)
	}
}

func TestParallelClients_SeeOneCloud(t *testing.T) {
	const clients, each = 8, 4
	s := start(t, WithPageSize(20), WithProvisioning(time.Nanosecond))
	client := computeOf(t, s)
	s.Inject(Fault{Operation: "server_list", Status: 500, Skip: 5, Times: 3})
	var group sync.WaitGroup
	for c := range clients {
		group.Go(func() {
			for i := range each {
				id := s.AddServer(Server{Name: fmt.Sprintf("n%d-%d", c, i)})
				// The fault above lets some of these fail, which is not tested here.
				_, _ = servers.List(client, nil).AllPages(patiently(t))
				if _, err := servers.Get(patiently(t), client, id).Extract(); err != nil {
					t.Errorf("get: %v", err)
				}
				if err := s.SetServerStatus(id, "SHUTOFF"); err != nil {
					t.Error(err)
				}
				s.Calls()
				s.setLatency(0)
			}
		})
	}
	group.Wait()
	if got := len(listNames(t, client, servers.ListOpts{Status: "SHUTOFF"})); got != clients*each {
		t.Errorf("%d servers, want %d", got, clients*each)
	}
	if got := s.Counts()["server_get"]; got != clients*each {
		t.Errorf("%d calls were counted, want %d", got, clients*each)
	}
}
