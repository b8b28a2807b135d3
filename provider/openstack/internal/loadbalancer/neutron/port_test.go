package neutron

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func portSeen(id string, revision int, groups ...string) NodePort {
	return NodePort{ID: id, SecurityGroups: groups, PortSecurity: true, Revision: revision}
}

func TestNodePorts_OfServersAndOfTheGroup(t *testing.T) {
	s := newSite(t)
	group := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "g"})
	member := s.addPort("server-a", group)
	added := s.addPort("server-b")
	open := s.AddPort(openstacktest.Port{
		NetworkID: s.internal, DeviceID: "server-b",
		DeviceOwner: "compute:zone-2", NoPortSecurity: true,
	})
	left := s.addPort("", group) // of a deleted server
	s.addPort("server-c")
	s.ForgetCalls()
	found, err := s.NodePorts(t.Context(), []string{"server-a", "server-b", "", "server-a", "gone"},
		group)
	s.must(err)
	s.wantCalls(map[string]int{"port_list": 2})
	var got []string
	for _, p := range found {
		got = append(got, p.ID)
		is := s.portNow(p.ID)
		if p.ServerID != is.DeviceID || !slices.Equal(p.SecurityGroups, is.SecurityGroups) ||
			p.Revision != is.RevisionNumber ||
			p.PortSecurity == is.NoPortSecurity || len(p.Addresses) != 1 ||
			p.Addresses[0] != (Address{SubnetID: s.subnet, IP: is.FixedIPs[0].Address}) {
			t.Errorf("the result is %+v, and the port is %+v", p, is)
		}
	}
	if want := slices.Sorted(slices.Values([]string{member, added, open, left})); !slices.Equal(got,
		want) {
		t.Errorf("found %v, want %v", got, want)
	}
}

func TestNodePorts_NoGroupOrNoServers_AsksForTheOtherOnly(t *testing.T) {
	s := newSite(t)
	group := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "g"})
	port := s.addPort("server", group)
	for name, ask := range map[string]func() ([]NodePort, error){
		"servers": func() ([]NodePort, error) {
			return s.NodePorts(t.Context(), []string{"server"}, "")
		},
		"group": func() ([]NodePort, error) {
			return s.NodePorts(t.Context(), nil, group)
		},
	} {
		s.ForgetCalls()
		found, err := ask()
		if err != nil || len(found) != 1 || found[0].ID != port {
			t.Errorf("%s: found %+v, error %v", name, found, err)
		}
		s.wantCalls(map[string]int{"port_list": 1})
	}
}

func TestNodePorts_100ServicesOf500Servers_ShareTheirLists(t *testing.T) {
	s := newSite(t)
	servers := numbered("00000000-0000-4000-8000-%012d", 500)
	for _, server := range servers {
		s.addPort(server)
	}
	s.ForgetCalls()
	s.Inject(openstacktest.Fault{Operation: "port_list", Times: 1, Delay: 300 * time.Millisecond})
	failed := atOnce(100, func(int) error {
		found, err := s.NodePorts(t.Context(), servers, "")
		if err == nil && len(found) != 500 {
			err = fmt.Errorf("found %d ports", len(found))
		}
		return err
	})
	if len(failed) > 0 {
		t.Fatal(failed[0])
	}
	if n := s.Counts()["port_list"]; n > 60 {
		t.Errorf("100 Services of 500 servers cost %d lists", n)
	}
	for _, c := range s.Calls() {
		if len(c.Query) > 2000 {
			t.Errorf("a query of %d bytes", len(c.Query))
		}
	}
}

// A Neutron without the extension filter-validation ignores unknown filters.
func TestNodePorts_FilterIgnored_OnlyThoseWithTheGroupAreReturned(t *testing.T) {
	s := newSite(t)
	group := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "g"})
	bears := s.addPort("server-a", group)
	s.Inject(openstacktest.Fault{
		Operation: "port_list",
		Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
			var list map[string][]map[string]any
			if err := json.Unmarshal(body, &list); err != nil {
				return 500, nil
			}
			list["ports"] = append(list["ports"],
				map[string]any{"id": "other", "security_groups": []string{"another"}})
			body, _ = json.Marshal(list)
			return status, body
		},
	})
	found, err := s.NodePorts(t.Context(), nil, group)
	if err != nil || len(found) != 1 || found[0].ID != bears {
		t.Errorf("found %+v, error %v", found, err)
	}
}

func TestNodePorts_CloudWithoutRevisionsAndPortSecurity(t *testing.T) {
	s := newSite(t, openstacktest.WithoutExtensions("standard-attr-revisions", "port-security"))
	s.addPort("server")
	found, err := s.NodePorts(t.Context(), []string{"server"}, "")
	s.must(err)
	if len(found) != 1 || found[0].Revision != -1 || !found[0].PortSecurity {
		t.Errorf("found %+v", found)
	}
}

func TestServerAddresses_Empty_AreReadAgain(t *testing.T) {
	s := newSite(t)
	s.addPort("server-a")
	for range 3 {
		found, err := s.ServerAddresses(t.Context(), []string{"server-a"})
		s.must(err)
		if len(found["server-a"]) != 1 || found["server-a"][0].SubnetID != s.subnet {
			t.Errorf("found %+v", found)
		}
	}
	s.wantCalls(map[string]int{"port_list": 1})
	found, err := s.ServerAddresses(t.Context(), []string{"server-b"})
	if err != nil || len(found) != 0 {
		t.Errorf("found %v, error %v", found, err)
	}
	s.addPort("server-b")
	found, err = s.ServerAddresses(t.Context(), []string{"server-a", "server-b"})
	if err != nil || len(found["server-a"]) != 1 || len(found["server-b"]) != 1 {
		t.Errorf("found %v, error %v", found, err)
	}
	s.clock.SetTime(s.clock.Now().Add(subnetAge))
	_, err = s.ServerAddresses(t.Context(), []string{"server-a"})
	s.must(err)
	s.wantCalls(map[string]int{"port_list": 4})
}

func TestAddGroup_KeepsTheOthers_ByOneRequest(t *testing.T) {
	s := newSite(t)
	mine, others := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "mine"}),
		s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "others"})
	port := s.addPort("server", others)
	seen := portSeen(port, s.portNow(port).RevisionNumber, others)
	s.ForgetCalls()
	s.must(s.AddGroup(t.Context(), seen, mine))
	s.wantCalls(map[string]int{"port_update": 1})
	if got := s.portNow(port).SecurityGroups; !slices.Equal(got, []string{others, mine}) {
		t.Errorf("the groups are %v", got)
	}
	seen = portSeen(port, s.portNow(port).RevisionNumber, others, mine)
	s.must(s.RemoveGroup(t.Context(), seen, mine))
	if got := s.portNow(port).SecurityGroups; !slices.Equal(got, []string{others}) {
		t.Errorf("the groups are %v", got)
	}
	seen = portSeen(port, s.portNow(port).RevisionNumber, others)
	s.must(s.RemoveGroup(t.Context(), seen, others))
	if got := s.portNow(port).SecurityGroups; len(got) != 0 {
		t.Errorf("the groups are %v, want none", got)
	}
}

func TestAddGroup_PortChangedMeanwhile_NothingOfTheChangeIsLost(t *testing.T) {
	s := newSite(t)
	mine, others := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "mine"}),
		s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "others"})
	port := s.addPort("server")
	seen := portSeen(port, s.portNow(port).RevisionNumber)
	s.must(s.UpdatePort(port, func(p *openstacktest.Port) { p.SecurityGroups = []string{others} }))
	s.ForgetCalls()
	s.must(s.AddGroup(t.Context(), seen, mine))
	s.wantCalls(map[string]int{"port_update": 2, "port_get": 1})
	if got := s.portNow(port).SecurityGroups; !slices.Equal(got, []string{others, mine}) {
		t.Errorf("the groups are %v", got)
	}
}

func TestAddGroup_AlwaysChangedByOthers_EndsWithAnError(t *testing.T) {
	s := newSite(t)
	mine := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "mine"})
	port := s.addPort("server")
	s.Inject(openstacktest.Fault{Operation: "port_update", Status: http.StatusPreconditionFailed})
	if err := s.AddGroup(t.Context(), portSeen(port, 1), mine); err == nil ||
		!strings.Contains(err.Error(), "5 conflicts") {
		t.Errorf("error %v", err)
	}
	if n := s.Counts()["port_update"]; n != maxStale {
		t.Errorf("%d attempts, want %d", n, maxStale)
	}
}

func TestAddGroup_CloudWithoutRevisions_ReadsRightBefore(t *testing.T) {
	s := newSite(t, openstacktest.WithoutExtensions("standard-attr-revisions"))
	mine, others := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "mine"}),
		s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "others"})
	port := s.addPort("server", others)
	s.ForgetCalls()
	s.must(s.AddGroup(t.Context(), portSeen(port, -1), mine))
	s.wantCalls(map[string]int{"port_get": 1, "port_update": 1})
	if got := s.portNow(port).SecurityGroups; !slices.Equal(got, []string{others, mine}) {
		t.Errorf("the groups are %v", got)
	}
}

func TestAddGroup_PortOfManyServices_IsWrittenOnceForThoseThatComeTogether(t *testing.T) {
	s := newSite(t)
	var groups []string
	for _, name := range numbered("g%d", 40) {
		groups = append(groups, s.AddSecurityGroup(openstacktest.SecurityGroup{Name: name}))
	}
	port, other := s.addPort("server"), s.addPort("server-2", groups...)
	seen, seenOther := portSeen(port, s.portNow(port).RevisionNumber),
		portSeen(other, s.portNow(other).RevisionNumber, groups...)
	s.ForgetCalls()
	// While the first is being written the others come, and another client changes the port.
	s.Inject(openstacktest.Fault{Operation: "port_update", Times: 1, Delay: 300 * time.Millisecond})
	failed := atOnce(80, func(i int) error {
		if i%2 == 0 {
			return s.AddGroup(t.Context(), seen, groups[i/2])
		}
		return s.RemoveGroup(t.Context(), seenOther, groups[i/2])
	})
	if len(failed) > 0 {
		t.Fatal(failed[0])
	}
	if got := slices.Sorted(slices.Values(s.portNow(port).SecurityGroups)); !slices.Equal(got,
		slices.Sorted(slices.Values(groups))) {
		t.Errorf("the groups are %v, want %v", got, groups)
	}
	if got := s.portNow(other).SecurityGroups; len(got) != 0 {
		t.Errorf("the groups of the other port are %v, want none", got)
	}
	if n := s.Counts()["port_update"]; n > 16 {
		t.Errorf("80 changes cost %d writes", n)
	}
}

func TestAddGroup_GroupOfAnotherServiceIsGone_ThisOnesIsAdded(t *testing.T) {
	s := newSite(t)
	good := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "good"})
	port := s.addPort("server")
	seen := portSeen(port, s.portNow(port).RevisionNumber)
	edits := []*groupEdit{
		{port: seen, group: "00000000-0000-4000-8000-00000000dead", add: true},
		{port: seen, group: good, add: true},
	}
	s.editGroups(t.Context(), edits)
	if !errors.Is(edits[0].err, ErrNotFound) || edits[1].err != nil {
		t.Errorf("errors %v, want one about the deleted group, and %v, want none", edits[0].err,
			edits[1].err)
	}
	if got := s.portNow(port).SecurityGroups; !slices.Equal(got, []string{good}) {
		t.Errorf("the groups are %v", got)
	}
}

func TestRemoveGroup_PortIsGone_IsDone(t *testing.T) {
	s := newSite(t)
	s.must(s.RemoveGroup(t.Context(), portSeen("gone", 3, "g"), "g"))
	if err := s.AddGroup(t.Context(), portSeen("gone", 3), "g"); !errors.Is(err, ErrNotFound) {
		t.Errorf("error %v, want ErrNotFound", err)
	}
}

func TestAddGroup_OthersWriteThePortAllTheTime_BothAreThereInTheEnd(t *testing.T) {
	var s *site
	var port, others string
	var changes atomic.Int32
	s = newSite(t, openstacktest.WithObserver(func(c openstacktest.Call) {
		// Right after the second read another client adds a group.
		if c.Operation == "port_get" && changes.Add(1) == 1 {
			if err := s.UpdatePort(port, func(p *openstacktest.Port) {
				p.SecurityGroups = append(p.SecurityGroups, others)
			}); err != nil {
				t.Error(err)
			}
		}
	}))
	mine := s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "mine"})
	others = s.AddSecurityGroup(openstacktest.SecurityGroup{Name: "others"})
	port = s.addPort("server")
	s.must(s.AddGroup(t.Context(), portSeen(port, 999), mine))
	if got := s.portNow(port).SecurityGroups; !slices.Equal(got, []string{others, mine}) {
		t.Errorf("the groups are %v", got)
	}
}
