package openstacktest

import (
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/loadbalancer/v2/loadbalancers"

	"github.com/fxccm/fxccm/internal/waittest"
)

// statuses requests the servers several times.
func statuses(t *testing.T, s *Cloud, times int) (all []int) {
	t.Helper()
	for range times {
		all = append(all, ask(t, s, "GET", computePath+"/servers", "").status)
	}
	return all
}

func wantStatuses(t *testing.T, got []int, want ...int) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("the answers are %v, want %v", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Fatalf("the answers are %v, want %v", got, want)
		}
	}
}

func TestFault_SkipAndTimes(t *testing.T) {
	s := start(t)
	s.Inject(Fault{Operation: "server_*", Status: 503, Skip: 1, Times: 2})
	wantStatuses(t, statuses(t, s, 5), 200, 503, 503, 200, 200)
}

func TestFault_WithoutTimes_LastsUntilItIsRemoved(t *testing.T) {
	s := start(t)
	remove := s.Inject(Fault{Status: 500})
	s.Inject(Fault{Status: 503})
	wantStatuses(t, statuses(t, s, 2), 500, 500)
	remove()
	remove()
	wantStatuses(t, statuses(t, s, 2), 503, 503)
	s.RemoveFaults()
	wantStatuses(t, statuses(t, s, 1), 200)
}

func TestFault_OnlyMatchingRequests_Fail(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{Name: "n"})
	for name, test := range map[string]struct {
		fault     Fault
		list, get int
	}{
		"all":                 {Fault{}, 503, 503},
		"a service":           {Fault{Service: ServiceCompute}, 503, 503},
		"another service":     {Fault{Service: ServiceNetwork}, 200, 200},
		"an operation":        {Fault{Operation: "server_get"}, 200, 503},
		"a pattern":           {Fault{Operation: "*_list"}, 503, 200},
		"a malformed pattern": {Fault{Operation: "[server_get"}, 200, 200},
		"a function":          {Fault{Match: func(c Call) bool { return strings.HasSuffix(c.Path, id) }}, 200, 503},
	} {
		test.fault.Status = 503
		remove := s.Inject(test.fault)
		list, get := ask(t, s, "GET", computePath+"/servers", "").status,
			ask(t, s, "GET", computePath+"/servers/"+id, "").status
		if list != test.list || get != test.get {
			t.Errorf("%s: the list has status %d and the server %d", name, list, get)
		}
		remove()
	}
}

func TestFault_Status_RequestIsNotExecuted(t *testing.T) {
	s := start(t)
	id := s.AddServer(Server{Name: "n"})
	s.Inject(Fault{Status: 500, Times: 1})
	if got := ask(t, s, "DELETE", computePath+"/servers/"+id, ""); got.status != 500 ||
		len(s.Servers()) != 1 {
		t.Errorf("%d, and the servers are %v", got.status, s.Servers())
	}
}

func TestFault_AfterEffect_RequestIsExecuted(t *testing.T) {
	for name, fault := range map[string]Fault{"status": {Status: 504}, "drop": {Drop: true}} {
		s := start(t)
		id := s.AddServer(Server{Name: "n"})
		fault.AfterEffect = true
		s.Inject(fault)
		got, err := trySend(t, s, "DELETE", computePath+"/servers/"+id, "", "X-Auth-Token",
			s.Credentials().Token)
		if err == nil && got.status != 504 {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if len(s.Servers()) != 0 {
			t.Errorf("%s: the request was not executed", name)
		}
	}
}

func TestFault_RetryAfter_IsInWholeSecondsRoundedUp(t *testing.T) {
	s := start(t)
	s.Inject(Fault{Status: 429, RetryAfter: 1500 * time.Millisecond})
	if got := ask(t, s, "GET", computePath+"/servers", ""); got.status != 429 ||
		got.header.Get("Retry-After") != "2" {
		t.Errorf("%d, Retry-After %q", got.status, got.header.Get("Retry-After"))
	}
}

func TestFault_Body_IsAProxysPage(t *testing.T) {
	s := start(t)
	s.Inject(Fault{Status: 404, Body: "<html>no such backend</html>"})
	got := ask(t, s, "GET", computePath+"/servers", "")
	if got.status != 404 || string(got.body) != "<html>no such backend</html>" ||
		got.header.Get("Content-Type") != "text/html" {
		t.Errorf("%d %s %v", got.status, got.body, got.header)
	}
}

func TestFault_Rewrite_ChangesTheAnswer(t *testing.T) {
	s := start(t)
	s.AddServer(Server{Name: "there"})
	s.Inject(Fault{Rewrite: func(_ Call, status int, body []byte) (int, []byte) {
		return status, []byte(strings.ReplaceAll(string(body), "there", "elsewhere"))
	}})
	if got := ask(t, s, "GET", computePath+"/servers", ""); got.status != 200 ||
		!strings.Contains(string(got.body), "elsewhere") {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestFault_Drop_ClosesTheConnection(t *testing.T) {
	s := start(t)
	s.Inject(Fault{Drop: true})
	if _, err := trySend(t, s, "GET", computePath+"/servers", ""); !errors.Is(err, io.EOF) {
		t.Errorf("the client sees %v", err)
	}
	if call := s.Calls()[0]; call.Status != 0 {
		t.Errorf("the call is %+v", call)
	}
}

func TestFault_Truncate_ShortensTheBody(t *testing.T) {
	s := start(t)
	s.Inject(Fault{Truncate: 5})
	got, err := trySend(t, s, "GET", "/compute", "")
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(got.body) != `{"ver` {
		t.Errorf("the client reads %q, %v", got.body, err)
	}
}

// ends runs a request and returns a channel with its error.
func ends(t *testing.T, s *Cloud) <-chan error {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		_, err := trySend(t, s, "GET", "/compute", "")
		done <- err
	}()
	return done
}

func receive(t *testing.T, done <-chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-patiently(t).Done():
		t.Fatal("the request does not end")
		return nil
	}
}

func TestClose_DelayedAnswers_End(t *testing.T) {
	for name, fault := range map[string]Fault{
		"hang": {Hang: true}, "delay": {Delay: time.Hour}, "hang after the effect": {Hang: true, AfterEffect: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t)
			s.Inject(fault)
			done := ends(t, s)
			if _, err := s.WaitForCall(patiently(t), func(Call) bool { return true }); err != nil {
				t.Fatal(err)
			}
			s.Close()
			if err := receive(t, done); err == nil {
				t.Error("the request was answered")
			}
			s.Close()
		})
	}
}

func TestClose_EndsTheCreationTime(t *testing.T) {
	s := start(t, WithCreationTime(time.Hour))
	client := octaviaOf(t, s)
	_, subnetID := vipSubnet(s, "10.0.0.0/24")
	ctx, done := patiently(t), make(chan error, 1)
	go func() {
		_, err := loadbalancers.Create(ctx, client,
			loadbalancers.CreateOpts{VipSubnetID: subnetID}).Extract()
		done <- err
	}()
	waittest.Until(t, "the request is executed", func() bool {
		if !s.creating.TryLock() {
			return true
		}
		s.creating.Unlock()
		return false
	})
	s.Close()
	if receive(t, done) == nil {
		t.Error("the request was answered")
	}
}

// A client that stops reading fills the connection's buffers, and the answer can no longer be
// written.
func TestClose_ClientThatDoesNotRead_DoesNotBlock(t *testing.T) {
	s := start(t)
	s.Inject(Fault{Rewrite: func(_ Call, status int, _ []byte) (int, []byte) {
		return status, make([]byte, 64<<20)
	}})
	connection, err := (&net.Dialer{}).DialContext(patiently(t), "tcp",
		strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection,
		"GET /compute HTTP/1.1\r\nHost: cloud\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.WaitForCall(patiently(t), func(Call) bool { return true }); err != nil {
		t.Fatal(err)
	}
	closed := make(chan error)
	go func() {
		s.Close()
		close(closed)
	}()
	receive(t, closed)
}

func TestHandler_Panics_IsA500(t *testing.T) {
	s := start(t)
	s.keystone = nil
	got := send(t, s, "GET", "/identity/v3/auth/catalog", "")
	if got.status != http.StatusInternalServerError ||
		!strings.Contains(string(got.body), "nil pointer") {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := send(t, s, "GET", "/compute", ""); got.status != http.StatusOK {
		t.Errorf("after it: %d %s", got.status, got.body)
	}
}
