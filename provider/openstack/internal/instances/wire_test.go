package instances

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestName_OfSeveralServers_IsAnError(t *testing.T) {
	for _, others := range []int{0, 20} {
		w := newWorld(t)
		nodes := w.addNodes(others)
		first, second := w.addServer("twin"), w.addServer("twin")
		twin := newNode("twin")
		w.cluster(append(nodes, twin)...)
		_, err := w.InstanceMetadata(t.Context(), twin)
		if !errors.Is(err, ErrSeveral) || !strings.Contains(err.Error(), first) ||
			!strings.Contains(err.Error(), second) {
			t.Errorf("with %d others: %v; want an error that names both servers", others, err)
		}
		w.doubts(twin, ErrSeveral)
		// One of them is deleted, and shown with that status for a while.
		if err := w.cloud.SetServerStatus(first, "DELETED"); err != nil {
			t.Fatal(err)
		}
		w.pass(time.Minute)
		if got := w.metadata(twin).ProviderID; got != "openstack:///"+second {
			t.Errorf("provider ID %q, want that of %s", got, second)
		}
	}
}

func TestNewNode_EachServer_IsFoundByNameAndSystemUUID(t *testing.T) {
	const first, second = "11111111-1111-4111-8111-111111111111",
		"22222222-2222-4222-8222-222222222222"
	longName := strings.Repeat("worker", 10) + "-blue-1"
	for name, c := range map[string]struct {
		node, uuid string
		servers    [2]string // the names of first and second; "" for none
		want       string
		err        error
	}{
		"exact":                      {"cp-0", "", [2]string{"cp-0", "CP-0"}, first, nil},
		"only the case differs":      {"cp-0", "", [2]string{"Cp-0", "cp-1"}, first, nil},
		"several differ in case":     {"cp-0", "", [2]string{"Cp-0", "CP-0"}, "", ErrSeveral},
		"the UUID decides on case":   {"cp-0", second, [2]string{"Cp-0", "CP-0"}, second, nil},
		"the UUID decides":           {"cp-0", second, [2]string{"cp-0", "cp-0"}, second, nil},
		"a UUID of neither":          {"cp-0", "3" + first[1:], [2]string{"cp-0", "cp-0"}, "", ErrSeveral},
		"exact against UUID":         {"cp-0", second, [2]string{"cp-0", "cp-0.local"}, first, nil},
		"with a domain":              {"cp-0.novalocal", first, [2]string{"cp-0", ""}, first, nil},
		"the server has the domain":  {"cp-0", first, [2]string{"cp-0.example.com", ""}, first, nil},
		"dots against dashes":        {"cp-0-a", first, [2]string{"CP.0_a", ""}, first, nil},
		"with a domain, no UUID":     {"cp-0.novalocal", "", [2]string{"cp-0", ""}, "", ErrUnmatched},
		"with a domain, another's":   {"cp-0.novalocal", second, [2]string{"cp-0", "cp-1"}, "", ErrUnmatched},
		"UUID of a foreign server":   {"cp-0", second, [2]string{"", "database"}, "", ErrUnmatched},
		"a name that only begins so": {"cp-01", first, [2]string{"cp-0", ""}, "", ErrUnmatched},
		"longer than a host name":    {longName[:63], first, [2]string{longName, ""}, first, nil},
		"longer, with a domain":      {longName[:63] + ".novalocal", first, [2]string{longName, ""}, first, nil},
		"longer, another's UUID":     {longName[:63], second, [2]string{longName, "database"}, "", ErrUnmatched},
		"with other characters":      {"worker-1-blue", first, [2]string{"Worker_1 (blue)", ""}, first, nil},
		"with a dash at its end":     {"worker-1", first, [2]string{"worker-1-", ""}, first, nil},
		"no character of a host":     {"server-" + first, first, [2]string{"(+)", ""}, first, nil},
		"none, with a domain":        {"server-" + first + ".novalocal", first, [2]string{"(+)", ""}, first, nil},
		"none, another's UUID":       {"server-" + first, second, [2]string{"(+)", "database"}, "", ErrUnmatched},
		"only other characters":      {"cp-0", first, [2]string{"(+)", ""}, "", ErrUnmatched},
	} {
		for _, others := range []int{0, 20} {
			t.Run(fmt.Sprintf("%s, others=%d", name, others), func(t *testing.T) {
				w := newWorld(t)
				nodes := w.addNodes(others)
				for i, id := range []string{first, second} {
					if c.servers[i] != "" {
						w.cloud.AddServer(openstacktest.Server{ID: id, Name: c.servers[i]})
					}
				}
				node := newNode(c.node)
				node.Status.NodeInfo.SystemUUID = strings.ToUpper(c.uuid)
				w.cluster(append(nodes, node)...)
				got, err := w.InstanceMetadata(t.Context(), node)
				switch {
				case c.err != nil:
					if !errors.Is(err, c.err) {
						t.Errorf("found %+v, %v; want %v", got, err, c.err)
					}
				case err != nil || got.ProviderID != "openstack:///"+c.want:
					t.Errorf("found %+v, %v; want server %s", got, err, c.want)
				}
			})
		}
	}
}

func TestServer_EachStatus_ExistsOrNotAndIsShutDownOrNot(t *testing.T) {
	for _, many := range []bool{false, true} {
		for _, state := range States() {
			t.Run(fmt.Sprintf("%s, many=%t", state.Status, many), func(t *testing.T) {
				w := newWorld(t)
				nodes := w.addNodes(10)
				if many {
					w.cluster(nodes...)
				}
				node := nodes[5]
				if err := w.cloud.SetServerStatus(idOf(node), state.Status); err != nil {
					t.Fatal(err)
				}
				if !state.Exists {
					w.isGone(node)
					return
				}
				shutdown, err := w.InstanceShutdown(t.Context(), node)
				if !w.exists(node) || shutdown != state.Shutdown || err != nil {
					t.Errorf("shutdown = %t, %v; want %t", shutdown, err, state.Shutdown)
				}
			})
		}
	}
}

// OCCM neither initializes a node whose flavor is deleted, nor refreshes its addresses.
func TestDeletedFlavor_BlocksNothing(t *testing.T) {
	for _, c := range []struct {
		name   string
		minor  int
		flavor openstacktest.Flavor
		gone   func(*openstacktest.Cloud) error
		want   string
	}{
		{"known by its name", 90, openstacktest.Flavor{ID: "f1", Name: "big"}, nil, "big"},
		{
			"deleted", 90,
			openstacktest.Flavor{ID: "f1", Name: "big"},
			func(s *openstacktest.Cloud) error { return s.DeleteFlavor("f1") }, "big",
		},
		{"private", 90, openstacktest.Flavor{ID: "f1", Name: "big", Private: true}, nil, "big"},
		{"no label", 90, openstacktest.Flavor{ID: "f1", Name: "big one"}, nil, "f1"},
		{
			"no label and deleted", 90,
			openstacktest.Flavor{ID: "f1", Name: "big one"},
			func(s *openstacktest.Cloud) error { return s.DeleteFlavor("f1") }, "f1",
		},
		{"old Nova", 46, openstacktest.Flavor{ID: "f1", Name: "big"}, nil, "big"},
		{
			"old Nova, deleted", 46,
			openstacktest.Flavor{ID: "f1", Name: "big"},
			func(s *openstacktest.Cloud) error { return s.DeleteFlavor("f1") }, "f1",
		},
		{
			"old Nova, private", 1,
			openstacktest.Flavor{ID: "f1", Name: "big", Private: true},
			nil,
			"f1",
		},
		{"old Nova, no label", 1, openstacktest.Flavor{ID: "f1", Name: "big one"}, nil, "f1"},
		{
			"old Nova, id no label either", 1,
			openstacktest.Flavor{ID: "f 1", Name: "big one"},
			nil,
			"f-1",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorldOn(t,
				[]openstacktest.Option{openstacktest.WithComputeMicroversion(c.minor)})
			w.cloud.AddFlavor(c.flavor)
			id := w.addServer("node-1")
			if err := w.cloud.UpdateServer(id, func(i *openstacktest.Server) {
				i.Flavor = c.flavor.ID
			}); err != nil {
				t.Fatal(err)
			}
			if c.gone != nil {
				if err := c.gone(w.cloud); err != nil {
					t.Fatal(err)
				}
			}
			metadata := w.metadata(newNode("node-1"))
			if metadata.InstanceType != c.want || len(metadata.NodeAddresses) != 1 {
				t.Errorf("instance type %q, addresses %v; want %q and one", metadata.InstanceType,
					metadata.NodeAddresses, c.want)
			}
		})
	}
}

func TestOldNova_MicroversionIsTriedOnce(t *testing.T) {
	w := newWorldOn(t, []openstacktest.Option{openstacktest.WithComputeMicroversion(46)})
	nodes := w.addNodes(100)
	w.cluster(nodes...)
	forEach(nodes, 8, func(node *v1.Node) {
		if metadata, err := w.InstanceMetadata(t.Context(), node); err != nil ||
			metadata.InstanceType != "m1.small" {
			t.Errorf("metadata %+v, %v", metadata, err)
		}
	})
	w.exactly(map[string]int{"server_list": 2, "port_list": 1, "flavor_get": 1})
}

func TestOldNova_NameOfAFlavor_IsReadAgainAfterAnHour(t *testing.T) {
	w := newWorldOn(t, []openstacktest.Option{openstacktest.WithComputeMicroversion(46)})
	w.addServer("node-1")
	for _, c := range []struct {
		later time.Duration
		reads int
	}{{0, 1}, {flavorLife - time.Second, 0}, {time.Second, 1}} {
		w.pass(c.later)
		w.cloud.ForgetCalls()
		if kind := w.metadata(newNode("node-1")).InstanceType; kind != "m1.small" {
			t.Errorf("the instance type is %q, want m1.small", kind)
		}
		// A newer microversion is also tried again, and refused.
		reads := 0
		for _, call := range w.cloud.Calls() {
			if call.Operation == "flavor_get" && call.Status == http.StatusOK {
				reads++
			}
		}
		if reads != c.reads {
			t.Errorf("after another %s the flavor is read %d times, want %d", c.later, reads,
				c.reads)
		}
	}
}

func TestFlavors_AreOlderThanAnHour_TakeNoMemory(t *testing.T) {
	w := newWorldOn(t, []openstacktest.Option{openstacktest.WithComputeMicroversion(46)})
	for i := range 3 {
		flavor := openstacktest.Flavor{ID: fmt.Sprintf("f%d", i), Name: "big"}
		w.cloud.AddFlavor(flavor)
		name := fmt.Sprintf("node-%d", i)
		id := w.addServer(name)
		if err := w.cloud.UpdateServer(id, func(s *openstacktest.Server) {
			s.Flavor = flavor.ID
		}); err != nil {
			t.Fatal(err)
		}
		w.metadata(newNode(name))
		if n := len(w.types.known); n != 1 {
			t.Errorf("%d flavors are cached, want one", n)
		}
		w.pass(flavorLife)
	}
}

func TestUnreadableFlavor_OnlyNewNodesFail(t *testing.T) {
	w := newWorldOn(t, []openstacktest.Option{openstacktest.WithComputeMicroversion(46)})
	id := w.addServer("node-1")
	w.cloud.Inject(openstacktest.Fault{
		Operation: "flavor_get",
		Status:    http.StatusInternalServerError,
	})
	if metadata, err := w.InstanceMetadata(t.Context(), newNode("node-1")); err == nil {
		t.Errorf("a new node would permanently get no type or a wrong one: %+v", metadata)
	}
	if metadata := w.metadata(nodeOf("node-1", id)); len(metadata.NodeAddresses) != 1 {
		t.Errorf("metadata %+v", metadata)
	}
}

func TestNewNode_CachedListIsOlder_IsRequestedAgain(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(10)
	w.cluster(nodes...)
	building := w.cloud.AddServer(openstacktest.Server{Name: "building", Status: "BUILD"})
	w.metadata(nodes[0])
	w.pass(10 * time.Second)

	// After the list was read, one server was created, and another got its addresses.
	w.addServer("later")
	w.cloud.AddPort(openstacktest.Port{NetworkID: w.network, DeviceID: building})
	if err := w.cloud.SetServerStatus(building, "ACTIVE"); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"later", "building"} {
		node := newNode(name)
		node.CreationTimestamp.Time = w.clock.Now()
		if metadata := w.metadata(node); len(metadata.NodeAddresses) != 1 {
			t.Errorf("addresses of %s: %v, want one", name, metadata.NodeAddresses)
		}
	}
}

func TestTrunk_SubportsAreAddresses(t *testing.T) {
	for _, many := range []bool{false, true} {
		for _, foreign := range []bool{false, true} {
			t.Run(fmt.Sprintf("many=%t foreign=%t", many, foreign), func(t *testing.T) {
				w, nodes := worldWithTrunks(t, foreign)
				if many {
					w.cluster(nodes...)
				} else {
					nodes = nodes[:1]
				}
				for n, node := range nodes {
					want := []v1.NodeAddress{
						internalIP(fmt.Sprintf("10.0.0.%d", 10+n)),
						internalIP(fmt.Sprintf("10.1.0.%d", 10+n)),
						internalIP(fmt.Sprintf("10.2.0.%d", 10+n)),
					}
					if got := w.metadata(node).NodeAddresses; !slices.Equal(got, want) {
						t.Errorf("addresses of %s: %v, want %v", node.Name, got, want)
					}
				}
				if counts := w.cloud.Counts(); counts["port_get"]+counts["network_get"] > 0 {
					t.Errorf("the calls are %v, one for each subport", counts)
				}
				w.atMost(5)
			})
		}
	}
}

// worldWithTrunks has ten nodes with two subports each, in the networks vlan-1 and vlan-2.
func worldWithTrunks(t *testing.T, foreign bool) (*world, []*v1.Node) {
	w := newWorldOn(t, nil)
	vlans := []string{w.addNetwork("vlan-1", "10.1.0.0/16"), w.addNetwork("vlan-2", "10.2.0.0/16")}
	subportsOf := ""
	if foreign {
		// Neutron shows another project's ports in our networks, but our project's list omits them.
		subportsOf = w.cloud.AddProject(openstacktest.Project{Name: "other"}).ProjectID
	}
	var nodes []*v1.Node
	for n := range 10 {
		name := fmt.Sprintf("node-%d", n)
		id := w.cloud.AddServer(openstacktest.Server{Name: name})
		port := func(network, address, device, project string) string {
			return w.cloud.AddPort(openstacktest.Port{
				NetworkID: network, DeviceID: device, ProjectID: project,
				FixedIPs: []openstacktest.FixedIP{{Address: fmt.Sprintf("%s.%d", address, 10+n)}},
			})
		}
		trunk := openstacktest.Trunk{PortID: port(w.network, "10.0.0", id, "")}
		for v, vlan := range vlans {
			trunk.Subports = append(trunk.Subports,
				openstacktest.Subport{PortID: port(vlan, fmt.Sprintf("10.%d.0", v+1), "",
					subportsOf), SegmentationID: 100 + v})
		}
		w.cloud.AddTrunk(trunk)
		nodes = append(nodes, nodeOf(name, id))
	}
	w.cloud.ForgetCalls()
	return w, nodes
}

// OCCM continues without the subport, so the node loses addresses when Neutron fails.
func TestTrunk_UnreadableSubport_IsAnError(t *testing.T) {
	for _, many := range []bool{false, true} {
		w, nodes := worldWithTrunks(t, true)
		plain := nodeOf("plain", w.addServer("plain"))
		if many {
			w.cluster(append(nodes, plain)...)
		}
		remove := w.cloud.Inject(openstacktest.Fault{
			Operation: "network_list",
			Status:    http.StatusInternalServerError,
		})
		if metadata, err := w.InstanceMetadata(t.Context(), nodes[0]); err == nil {
			t.Errorf("many=%t: metadata %+v, want an error", many, metadata)
		}
		if metadata := w.metadata(plain); len(metadata.NodeAddresses) != 1 {
			t.Errorf("many=%t: a server without a trunk has the addresses %v", many,
				metadata.NodeAddresses)
		}
		remove()
		if metadata := w.metadata(nodes[0]); len(metadata.NodeAddresses) != 3 {
			t.Errorf("many=%t: addresses %v", many, metadata.NodeAddresses)
		}
	}
}

// Neutron chooses the IDs of ports at random.
func TestPorts_SecondIsAdded_FirstAddressStays(t *testing.T) {
	for _, isPresent := range []bool{true, false} {
		w := newWorld(t)
		second := w.addNetwork("second", "10.7.0.0/16")
		id := w.cloud.AddServer(openstacktest.Server{Name: "node"})
		add := func(portID, network string) {
			w.cloud.AddPort(openstacktest.Port{
				ID: portID, NetworkID: network, DeviceID: id,
				DeviceOwner: openstacktest.OwnerCompute,
			})
		}
		add("ffffffff-0000-4000-8000-000000000001", w.network)
		node := nodeOf("node", id)
		first := w.metadata(node).NodeAddresses
		if isPresent {
			node.Status.Addresses = first
		}
		w.pass(time.Hour)
		add("00000000-0000-4000-8000-000000000001", second)
		if got := w.metadata(node).NodeAddresses; len(got) != 2 || got[0] != first[0] {
			t.Errorf("the addresses are %v, want %v first", got, first)
		}
	}
}

// Nova creates the ports of a server within a second. All nodes have their first address in the
// same network.
func TestPorts_OfOneSecond_HaveTheSameOrderForEachNode(t *testing.T) {
	w := newWorld(t)
	second := w.addNetwork("second", "10.7.0.0/16")
	firsts := map[string]bool{}
	for n, ids := range [][2]string{
		{"00000000-0000-4000-8000-000000000001", "ffffffff-0000-4000-8000-000000000001"},
		{"ffffffff-0000-4000-8000-000000000002", "00000000-0000-4000-8000-000000000002"},
	} {
		name := fmt.Sprintf("node-%d", n)
		id := w.cloud.AddServer(openstacktest.Server{Name: name})
		for i, network := range []string{w.network, second} {
			w.cloud.AddPort(openstacktest.Port{
				ID: ids[i], NetworkID: network, DeviceID: id,
				DeviceOwner: openstacktest.OwnerCompute,
			})
		}
		all := w.metadata(nodeOf(name, id)).NodeAddresses
		if len(all) != 2 {
			t.Fatalf("the addresses are %v, want two", all)
		}
		firsts[all[0].Address[:len("10.7")]] = true
	}
	if len(firsts) != 1 {
		t.Errorf("the first addresses of the nodes are in %v", firsts)
	}
}

// Neutron shows the ports in our networks and of our servers, whatever their project, but a list of
// our project's ports omits some of them.
func TestPortsOfAnotherProject_AreFound(t *testing.T) {
	w := newWorld(t)
	other := w.cloud.AddProject(openstacktest.Project{Name: "other"}).ProjectID
	var nodes []*v1.Node
	for n := range 100 {
		name := fmt.Sprintf("node-%d", n)
		id := w.cloud.AddServer(openstacktest.Server{Name: name})
		project := ""
		if n%2 == 0 {
			project = other
		}
		w.cloud.AddPort(openstacktest.Port{NetworkID: w.network, DeviceID: id, ProjectID: project})
		// Nova's addresses alone would suffice, but the ports determine their order.
		w.cloud.AddPort(openstacktest.Port{NetworkID: w.network, DeviceID: id, ProjectID: project})
		nodes = append(nodes, nodeOf(name, id))
	}
	w.cluster(nodes...)
	w.cloud.ForgetCalls()
	for range 2 {
		for _, node := range nodes {
			if metadata := w.metadata(node); len(metadata.NodeAddresses) != 2 {
				t.Errorf("addresses of %s: %v", node.Name, metadata.NodeAddresses)
			}
		}
		for _, call := range w.cloud.Calls() {
			if len(call.Query) > 2500 {
				t.Errorf("a query of %d bytes", len(call.Query))
			}
		}
		w.exactly(map[string]int{"server_list": 1, "port_list": 1 + 2})
		w.cloud.ForgetCalls()
		w.pass(time.Minute)
	}
}

func TestPorts_NeutronFails_IsAnErrorForAddressesOnly(t *testing.T) {
	w := newWorld(t)
	nodes := w.addNodes(10)
	w.cluster(nodes...)
	w.cloud.Inject(openstacktest.Fault{
		Operation: "port_list",
		Status:    http.StatusInternalServerError,
	})
	if metadata, err := w.InstanceMetadata(t.Context(), nodes[0]); err == nil {
		t.Errorf("metadata %+v without ports", metadata)
	}
	if !w.exists(nodes[0]) {
		t.Error("the instance does not exist")
	}
}

func TestClose_CancelsAndRefuses(t *testing.T) {
	w := newWorld(t)
	node := w.addNodes(1)[0]
	w.cloud.Inject(openstacktest.Fault{Service: openstacktest.ServiceCompute, Hang: true})
	done := make(chan error, 1)
	go func() { _, err := w.InstanceExists(t.Context(), node); done <- err }()
	if _, err := w.cloud.WaitForCall(within(t), func(c openstacktest.Call) bool {
		return c.Operation == "server_get"
	}); err != nil {
		t.Fatal(err)
	}
	w.Close()
	if err := <-done; err == nil {
		t.Error("a canceled call succeeded")
	}
	if _, err := w.InstanceExists(t.Context(), node); !errors.Is(err, ErrClosed) {
		t.Errorf("a call after Close: %v", err)
	}
	w.Close()
}

// With the caches disabled, concurrent requests still share one response.
func TestZeroMaxAge_EachResponseIsNew(t *testing.T) {
	w := newWorld(t, func(c *Config) {
		c.Options = cloudconf.Instances{
			AbsenceConfirmation: time.Second, VanishedNumber: 3,
			VanishedShare: 0.5,
		}
	})
	nodes := w.addNodes(10)
	for range 2 {
		for _, node := range nodes {
			w.pass(time.Nanosecond)
			w.exists(node)
			w.metadata(node)
		}
	}
	if w.calls() < 40 {
		t.Errorf("%d calls for 40 questions", w.calls())
	}
}
