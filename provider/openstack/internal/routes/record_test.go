package routes

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// recorded returns the lines that the ConfigMap has for the router.
func (c *cluster) recorded() []string {
	c.t.Helper()
	found, err := c.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(c.t.Context(), recordName,
		metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	c.must(err)
	return strings.FieldsFunc(found.Data[c.site.router], func(r rune) bool { return r == '\n' })
}

// forge replaces the record.
func (c *cluster) forge(lines ...string) {
	c.t.Helper()
	configMaps := c.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	if err := configMaps.Delete(c.t.Context(), recordName, metav1.DeleteOptions{}); err != nil &&
		!apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
	_, err := configMaps.Create(c.t.Context(), &v1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: recordName, Namespace: metav1.NamespaceSystem},
		Data:       map[string]string{c.site.router: strings.Join(lines, "\n")},
	}, metav1.CreateOptions{})
	c.must(err)
}

// leave removes a node and its server.
func (c *cluster) leave(name string) {
	c.t.Helper()
	c.removeNode(name)
	c.deletePort("server-of-" + name)
}

func (c *cluster) mustReconcile() {
	c.t.Helper()
	if errs := c.reconcile(); len(errs) > 0 {
		c.t.Errorf("the reconciliation returns %v", errs)
	}
}

// kubeWrites counts the requests that change the record.
func (c *cluster) kubeWrites() (n int) {
	for _, action := range c.kube.Actions() {
		if action.GetVerb() != "get" {
			n++
		}
	}
	return n
}

func TestRecord_IsWrittenBeforeTheRoute_AndFollowsTheRouter(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		clock := fakeClock()
		c := newCluster(t, s, clock)
		var before []string
		c.kube.PrependReactor("create", "configmaps",
			func(kubetesting.Action) (bool, runtime.Object, error) {
				for _, r := range s.Routes(s.router) {
					before = append(before, r.Destination)
				}
				return false, nil, nil
			})
		wanted := c.addNodes(40)
		if failed := failures(c.createAll(wanted)); len(failed) > 0 {
			t.Errorf("%d creations failed", len(failed))
		}
		c.mustReconcile()
		if len(before) > 0 {
			t.Errorf("before the record, the router had %v", before)
		}
		if got := c.recorded(); len(got) != 40 || got[0] != "10.244.0.0/24 via 10.0.10.1 node-000" {
			t.Errorf("%d routes are recorded: %v", len(got), got)
		}
		if n := c.kubeWrites(); n > 5 {
			t.Errorf("40 routes cost %d writes of the record", n)
		}
		for i := range 39 {
			c.leave(fmt.Sprintf("node-%03d", i+1))
		}
		c.mustReconcile()
		c.mustReconcile()
		want := []string{"10.244.0.0/24 via 10.0.10.1 node-000"}
		if got := c.recorded(); !slices.Equal(got, want) {
			t.Errorf("after the nodes left, recorded are %v", got)
		}
		// A cluster at rest neither reads nor writes the record.
		c.kube.ClearActions()
		for range 100 {
			clock.Step(10 * time.Second)
			c.mustReconcile()
		}
		if got := c.kube.Actions(); len(got) > 0 {
			t.Errorf("a cluster at rest sends %v", got)
		}
		// Another client may delete it.
		c.must(c.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Delete(t.Context(), recordName,
			metav1.DeleteOptions{}))
		clock.Step(recordAge)
		c.mustReconcile()
		if got := c.recorded(); !slices.Equal(got, want) {
			t.Errorf("an hour after the record was deleted, recorded are %v", got)
		}
		c.leave("node-000")
		c.mustReconcile()
		c.mustReconcile()
		if got := c.recorded(); len(got) > 0 {
			t.Errorf("without routes, recorded are %v", got)
		}
	})
}

// Between the terms a node leaves with its server, as in a scale-down during a restart or a
// hand-over.
func TestRecord_NodeLeavesBetweenTerms_ItsRouteGoes(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, fakeClock())
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		c.addNode("b", []string{"10.0.0.12", "fd00::12"}, "10.244.2.0/24", "fd00:244:2::/64")
		c.addNode("c", []string{"fd00::13"}, "fd00:244:3::/64")
		c.mustReconcile()
		c.leave("b")
		c.start()
		c.mustReconcile()
		s.wantRoutes("10.244.1.0/24 via 10.0.0.11", "fd00:244:3::/64 via fd00::13")
		c.mustReconcile()
		if got := c.recorded(); len(got) != 2 {
			t.Errorf("recorded are %v", got)
		}
	})
}

// A label takes the node out of the selection, and a selected node gets its pod CIDR.
func TestRecord_NodeIsNoLongerSelected_ItsRouteIsForeign(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, fakeClock())
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		c.mustReconcile()
		edge := node("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		edge.Labels = map[string]string{"edge": ""}
		c.setNode(edge)
		c.addNode("b", []string{"10.0.0.12"}, "10.244.1.0/24")
		for range 2 { // the second one is the next term
			if err := c.create("b", "10.244.1.0/24"); err == nil {
				t.Error("the route of the other node is replaced")
			}
			s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
			before := s.Counts()["port_list"]
			listed, err := c.ListRoutes(t.Context(), "cluster")
			if err != nil || len(listed) > 0 {
				t.Errorf("listed are %v, %v", listed, err)
			}
			if lists := s.Counts()["port_list"] - before; lists > 0 {
				t.Errorf("the next hop of the route is looked up by %d requests", lists)
			}
			c.start()
		}
	})
}

// The deletion of the route fails, and the process ends.
func TestRecord_RestartBeforeTheDeletionOfTheRoute_DeletesIt(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		c := newCluster(t, s, fakeClock())
		c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
		c.mustReconcile()
		c.removeNode("b")
		heal := s.Inject(openstacktest.Fault{Operation: "router_*", Match: isWrite, Status: 500})
		if errs := c.reconcile(); len(errs) != 1 {
			t.Errorf("the router fails, but the errors are %v", errs)
		}
		heal()
		s.deletePort("server-of-b")
		c.start()
		c.mustReconcile()
		s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
	})
}

// All nodes leave, and come back with the same pod CIDRs. Their new addresses are others, or those
// of other nodes.
func TestRecord_HibernatedCluster_GetsItsRoutesBack(t *testing.T) {
	for name, last := range map[string][]int{
		"other addresses":        {21, 22, 23},
		"addresses of others":    {12, 13, 11},
		"some of each":           {12, 22, 11},
		"the same addresses":     {11, 12, 13},
		"one node does not come": {12, 22},
	} {
		t.Run(name, func(t *testing.T) {
			onBoth(t, func(t *testing.T, s *site) {
				c := newCluster(t, s, fakeClock())
				cidr := func(n int) string { return fmt.Sprintf("10.244.%d.0/24", n) }
				for n := range 3 {
					c.addNode(fmt.Sprint("old-", n), []string{fmt.Sprint("10.0.0.", 11+n)}, cidr(n))
				}
				c.mustReconcile()
				c.Close()
				for n := range 3 {
					c.leave(fmt.Sprint("old-", n))
				}
				c.start()
				c.mustReconcile() // the nodes are not there yet
				var want []string
				for n, byte := range last {
					address := fmt.Sprint("10.0.0.", byte)
					c.addNode(fmt.Sprint("new-", n), []string{address}, cidr(n))
					want = append(want, cidr(n)+via+address)
				}
				c.mustReconcile()
				c.mustReconcile()
				s.wantRoutes(want...)
				for n, byte := range last {
					if got := s.pairs(fmt.Sprint("10.0.0.", byte)); !slices.Equal(got,
						[]string{cidr(n)}) {
						t.Errorf("node new-%d may send from %v", n, got)
					}
				}
				if got := c.recorded(); len(got) != len(want) {
					t.Errorf("recorded are %v", got)
				}
			})
		})
	}
}

// A server outlives its node: the address may be anyone's until the server is deleted.
func TestRecord_ServerOutlivesItsNode_RouteGoesWithTheServer(t *testing.T) {
	s, clock := newSite(t), fakeClock()
	c := newCluster(t, s, clock)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
	c.mustReconcile()
	c.removeNode("b")
	c.start()
	c.mustReconcile()
	s.wantRoutes("10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12")
	s.ForgetCalls()
	for range 6 {
		clock.Step(10 * time.Second)
		c.mustReconcile()
	}
	if n := len(s.Counts()); n > 0 {
		t.Errorf("in a minute, a route that is kept costs %v", s.Counts())
	}
	s.deletePort("server-of-b")
	clock.Step(occupancyAge)
	c.mustReconcile()
	s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
}

// OCCM keeps no record. The routes of its nodes are recorded while the nodes exist.
func TestRecord_TakeoverFromOCCM_AdoptsRoutesOfNodes(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, fakeClock())
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
	const leftover = "10.244.9.0/24 via 10.0.0.19"
	s.setRoutes("10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12", leftover)
	c.list()
	if got := c.recorded(); !slices.Equal(got, []string{
		"10.244.1.0/24 via 10.0.0.11 a", "10.244.2.0/24 via 10.0.0.12 b",
	}) {
		t.Errorf("recorded are %v", got)
	}
	c.leave("b")
	c.start()
	c.mustReconcile()
	s.wantRoutes("10.244.1.0/24 via 10.0.0.11", leftover)
}

// Two clusters use the same pod CIDRs in turn. The users of the second one write the routes of the
// first one into their record.
func TestRecord_NamesRoutesOfAnotherCluster_TheyStay(t *testing.T) {
	onBoth(t, func(t *testing.T, s *site) {
		clock := fakeClock()
		one, two := newCluster(t, s, clock), newCluster(t, s, clock)
		one.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
		one.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
		two.addNode("x", []string{"10.0.0.21"}, "10.244.11.0/24")
		two.addNode("y", []string{"10.0.0.22"}, "10.244.1.0/24") // overlaps
		one.mustReconcile()
		two.reconcile()
		all := []string{
			"10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12",
			"10.244.11.0/24 via 10.0.0.21",
		}
		two.forge("10.244.1.0/24 via 10.0.0.11 gone", "10.244.2.0/24 via 10.0.0.12 x",
			"10.244.2.0/24 via 10.0.0.12 y z", "via via via", "")
		two.start()
		before := s.pairs("10.0.0.11")
		for range 3 {
			if errs := two.reconcile(); len(errs) != 1 || !says(errs[0], conflicts) {
				t.Errorf("the errors of the second cluster are %v", errs)
			}
			one.mustReconcile()
			clock.Step(occupancyAge)
		}
		s.wantRoutes(all...)
		if now := s.pairs("10.0.0.11"); !slices.Equal(now, before) {
			t.Errorf("the first cluster's node may send from %v, before from %v", now, before)
		}
		// Each cluster deletes its own.
		one.leave("a")
		two.leave("x")
		one.start()
		two.start()
		two.reconcile()
		one.mustReconcile()
		two.mustReconcile()
		s.wantRoutes("10.244.2.0/24 via 10.0.0.12", "10.244.1.0/24 via 10.0.0.22")
	})
}

// The users of the cluster write a stranger's route into its record.
func TestRecord_NamesAStrangersRoute_ItStays(t *testing.T) {
	const theirs = "10.244.200.0/24 via "
	unbound := func(c *cluster) {
		c.AddPort(openstacktest.Port{
			NetworkID: c.network,
			FixedIPs:  []openstacktest.FixedIP{{SubnetID: c.v4, Address: "10.0.9.50"}},
		})
	}
	pair := func(cidr string) func(*cluster) {
		return func(c *cluster) {
			for i, firewall := range []string{"firewall-1", "firewall-2"} {
				c.addPort(firewall, fmt.Sprintf("10.0.9.%d", 51+i))
				c.changePort(firewall, func(p *openstacktest.Port) {
					p.AllowedPairs = []openstacktest.AddressPair{{Address: cidr}}
				})
			}
		}
	}
	for name, test := range map[string]struct {
		nextHop string
		prepare func(*cluster)
		reason  string
	}{
		"a server": {
			"10.0.9.50", func(c *cluster) { c.addPort("other", "10.0.9.50") },
			"has the address",
		},
		"a port without a device":          {"10.0.9.50", unbound, "has the address"},
		"the virtual address of firewalls": {"10.0.9.50", pair("10.0.9.50"), "address pair"},
		"a range of virtual addresses":     {"10.0.9.50", pair("10.0.9.48/28"), "address pair"},
		"outside of the allocation pools": {"172.16.0.50", func(c *cluster) {
			c.connect(c.AddSubnet(openstacktest.Subnet{
				NetworkID: c.network, CIDR: "172.16.0.0/24",
				Pools: []openstacktest.AddressRange{{First: "172.16.0.100", Last: "172.16.0.200"}},
			}))
			c.setNode(node("b", []string{"172.16.0.101"}))
		}, "outside of the allocation pools"},
		"in a subnet without nodes": {"172.16.0.50", func(c *cluster) {
			c.connect(c.AddSubnet(openstacktest.Subnet{
				NetworkID: c.network, CIDR: "172.16.0.0/24",
			}))
		}, "no node is in the subnet"},
		"in a shared network of another project": {"172.16.0.50", func(c *cluster) {
			network := c.AddNetwork(openstacktest.Network{
				Shared: true, ProjectID: "another",
			})
			c.connect(c.AddSubnet(openstacktest.Subnet{
				NetworkID: network, CIDR: "172.16.0.0/24",
			}))
			c.setNode(node("b", []string{"172.16.0.51"}))
		}, "no subnet of the project"},
	} {
		t.Run(name, func(t *testing.T) {
			s, clock := newSite(t), fakeClock()
			c := newCluster(t, s, clock)
			lines := &journal{}
			c.logger = lines.logger()
			c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
			test.prepare(c)
			s.setRoutes(theirs + test.nextHop)
			c.forge(theirs + test.nextHop + " gone")
			c.start()
			before := s.strangersPorts()
			for range 3 {
				c.mustReconcile()
				clock.Step(occupancyAge)
			}
			s.wantRoutes(theirs+test.nextHop, "10.244.1.0/24 via 10.0.0.11")
			if now := s.strangersPorts(); fmt.Sprint(now) != fmt.Sprint(before) {
				t.Errorf("the strangers' ports are %+v, were %+v", now, before)
			}
			kept := lines.with("Keeping recorded routes")
			if len(kept) != 1 || !strings.Contains(kept[0], test.reason) {
				t.Errorf("the log says %v, want once a reason with %q", kept, test.reason)
			}
		})
	}
}

// Without the right to keep the record, routes are served. The log has one line, and the status a
// problem.
func TestRecord_IsForbidden_RoutesAreServed(t *testing.T) {
	for _, verb := range []string{"get", "create", "patch"} {
		t.Run(verb, func(t *testing.T) {
			s, clock := newSite(t), fakeClock()
			c := newCluster(t, s, clock)
			lines := &journal{}
			c.logger = lines.logger()
			var troubles sync.Map
			c.trouble = trouble.New(func(subject string, cause error) {
				troubles.Store(subject, cause != nil)
			})
			subject := "permission to " + verb + " configmaps for OpenStack"
			refused := 0
			c.kube.PrependReactor(verb, "configmaps",
				func(action kubetesting.Action) (bool, runtime.Object, error) {
					refused++
					return true, nil, apierrors.NewForbidden(v1.Resource("configmaps"), recordName,
						fmt.Errorf("no right to %s", verb))
				})
			c.start()
			c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
			for range 31 {
				c.mustReconcile()
				clock.Step(10 * time.Second)
			}
			s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
			if got := lines.with("Routes are not recorded"); len(got) != 1 {
				t.Errorf("the log says %d times that routes are not recorded: %v", len(got), got)
			}
			if is, _ := troubles.Load(subject); is != true {
				t.Errorf("%q is not reported", subject)
			}
			if refused != 2 {
				t.Errorf("in five minutes, %d requests were refused, want 2", refused)
			}
			if verb != "get" {
				c.kube.ReactionChain = c.kube.ReactionChain[1:]
				clock.Step(recordPause)
				c.mustReconcile()
				if got := c.recorded(); len(got) != 1 {
					t.Errorf("with the right, recorded are %v", got)
				}
				if is, _ := troubles.Load(subject); is == true {
					t.Errorf("with the right, %q is reported", subject)
				}
			}
		})
	}
}

// An outage of the API server must not make the record forget the routes of former nodes.
func TestRecord_CannotBeReadAtFirst_LosesNothing(t *testing.T) {
	s, clock := newSite(t), fakeClock()
	c := newCluster(t, s, clock)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
	c.mustReconcile()
	c.leave("b")
	chain := c.kube.ReactionChain
	c.kube.PrependReactor("get", "configmaps",
		func(kubetesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewServiceUnavailable("starting")
		})
	c.start()
	c.addNode("c", []string{"10.0.0.13"}, "10.244.3.0/24")
	c.mustReconcile()
	c.kube.ReactionChain = chain
	clock.Step(recordPause)
	c.mustReconcile()
	c.mustReconcile()
	s.wantRoutes("10.244.1.0/24 via 10.0.0.11", "10.244.3.0/24 via 10.0.0.13")
	if got := c.recorded(); len(got) != 2 {
		t.Errorf("recorded are %v", got)
	}
}

// If Neutron does not answer the check, nothing is confirmed and routes are served.
func TestRecord_CheckFails_RouteStaysUntilItSucceeds(t *testing.T) {
	for _, operation := range []string{"network_list", "subnet_list"} {
		t.Run(operation, func(t *testing.T) {
			s, clock := newSite(t), fakeClock()
			c := newCluster(t, s, clock)
			lines := &journal{}
			c.logger = lines.logger()
			c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
			c.addNode("b", []string{"10.0.0.12"}, "10.244.2.0/24")
			c.mustReconcile()
			c.leave("b")
			c.start()
			heal := s.Inject(openstacktest.Fault{Operation: operation, Status: 500})
			c.mustReconcile()
			clock.Step(10 * time.Second)
			c.mustReconcile()
			s.wantRoutes("10.244.1.0/24 via 10.0.0.11", "10.244.2.0/24 via 10.0.0.12")
			s.wantCounts(map[string]int{operation: 1})
			clock.Step(occupancyAge)
			c.mustReconcile()
			if got := lines.with("are not confirmed"); len(got) != 1 {
				t.Errorf("two failures of one cause are in the log as %q, want one line", got)
			}
			heal()
			clock.Step(occupancyAge)
			c.mustReconcile()
			s.wantRoutes("10.244.1.0/24 via 10.0.0.11")
		})
	}
}

// Another term or region has created the ConfigMap meanwhile.
func TestRecord_ConfigMapOfAnotherRouter_IsKept(t *testing.T) {
	s := newSite(t)
	c := newCluster(t, s, nil)
	c.addNode("a", []string{"10.0.0.11"}, "10.244.1.0/24")
	var once sync.Once
	c.kube.PrependReactor("create", "configmaps",
		func(kubetesting.Action) (_ bool, _ runtime.Object, err error) {
			once.Do(func() {
				err = c.kube.Tracker().Create(v1.SchemeGroupVersion.WithResource("configmaps"),
					&v1.ConfigMap{
						ObjectMeta: metav1.ObjectMeta{
							Name: recordName, Namespace: metav1.NamespaceSystem,
						},
						Data: map[string]string{"other": "10.244.2.0/24 via 10.0.0.12 b\n"},
					}, metav1.NamespaceSystem)
			})
			return err != nil, nil, err
		})
	c.mustReconcile()
	if got := c.recorded(); len(got) != 1 {
		t.Errorf("recorded are %v", got)
	}
	found, err := c.kube.CoreV1().ConfigMaps(metav1.NamespaceSystem).Get(t.Context(), recordName,
		metav1.GetOptions{})
	c.must(err)
	if found.Data["other"] != "10.244.2.0/24 via 10.0.0.12 b\n" {
		t.Errorf("the record of the other router is %q", found.Data["other"])
	}
}

// connect connects the router to a subnet.
func (s *site) connect(subnet string) {
	s.t.Helper()
	if err := s.ConnectSubnet(s.router, subnet); err != nil {
		s.t.Fatal(err)
	}
}

// journal collects the lines of a log.
type journal struct {
	mu    sync.Mutex
	lines []string
}

func (j *journal) logger() logr.Logger {
	return funcr.New(func(_, args string) {
		j.mu.Lock()
		defer j.mu.Unlock()
		j.lines = append(j.lines, args)
	}, funcr.Options{})
}

func (j *journal) with(text string) (found []string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, line := range j.lines {
		if strings.Contains(line, text) {
			found = append(found, line)
		}
	}
	return found
}
