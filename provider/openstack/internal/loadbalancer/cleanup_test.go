package loadbalancer

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// cleanUp calls CleanUp until nothing is left, as a fleet does.
func (c *cluster) cleanUp(uid string) {
	c.site.t.Helper()
	var left []string
	var err error
	for range 50 {
		if left, err = c.CleanUp(c.site.t.Context(), uid); err == nil && len(left) == 0 {
			return
		}
	}
	c.site.t.Fatalf("after 50 passes %q is left (%v)", left, err)
}

// ownerOne and ownerTwo are the names of clusters in a fleet.
const ownerOne, ownerTwo = "tenant-1/cluster", "tenant-2/cluster"

// successor starts another replica, which has no API server and no cached state.
func (s *site) successor() *cluster { return s.begin("a UID that is not used", nil) }

func TestCleanUp_SeveralClusters_DeletesOnlyTheTaggedObjects(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.ManageSecurityGroups, s.owner = true, ownerOne
	gone, node := s.begin("cluster-1", s.kube), s.addNode("a")
	gone.ensure(s.addService("web", 80, 443), node)
	gone.ensure(s.addService("api", 80), node)
	addresses := s.FloatingIPs()
	other := s.another()
	other.owner = ownerTwo
	other.begin("cluster-2", other.kube).ensure(other.addService("web", 80), other.addNode("b"))
	byOCCM := s.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{
			Name: "kube_service_kubernetes_default_web",
			Tags: []string{"kube_service_kubernetes_default_web"},
		},
		VIPSubnetID: s.subnet,
	})
	stays := s.LoadBalancers()[2].ID
	groups := len(s.SecurityGroups())

	s.successor().cleanUp("cluster-1")

	var left []string
	for _, lb := range s.LoadBalancers() {
		left = append(left, lb.ID)
	}
	if want := []string{stays, byOCCM}; !slices.Equal(left, want) {
		t.Errorf("the load balancers %q are left, want %q", left, want)
	}
	for _, before := range addresses {
		i := slices.IndexFunc(s.FloatingIPs(), func(ip openstacktest.FloatingIP) bool {
			return ip.ID == before.ID
		})
		if i < 0 {
			t.Errorf("the floating IP %s is deleted", before.Address)
		} else if ip := s.FloatingIPs()[i]; ip.PortID != "" || len(ip.Tags) > 0 {
			t.Errorf("the floating IP is %+v, want it detached and without tags", ip)
		}
	}
	if got := groups - len(s.SecurityGroups()); got != 2 {
		t.Errorf("%d security groups are deleted, want those of 2 Services", got)
	}
	mark := s.mark()
	s.successor().cleanUp("cluster-1")
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("after everything is deleted, CleanUp sends %q", writes)
	}
}

func TestCleanUp_UnknownCluster_OnlyReads(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.owner = ownerOne
	s.begin("cluster-1", s.kube).ensure(s.addService("web", 80), s.addNode("a"))
	mark := s.mark()
	s.successor().cleanUp("cluster-3")
	if left, err := s.successor().CleanUp(t.Context(), ""); err == nil || left != nil {
		t.Errorf("without a UID: %q, %v", left, err)
	}
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("CleanUp sends %q", writes)
	}
}

func TestCleanUp_OctaviaWithoutTags_IsAnError(t *testing.T) {
	t.Parallel()
	s := newSite(t, openstacktest.WithLoadBalancerVersion(4))
	s.owner = ownerOne
	if left, err := s.successor().CleanUp(t.Context(), "cluster-1"); err == nil || left != nil {
		t.Errorf("%q, %v", left, err)
	}
}

// A load balancer without a tag of a cluster is not deleted, whatever its name is: the tagged one
// may be gone already.
func TestCleanUp_LoadBalancerOfOCCM_IsNotTakenForTheServices(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.owner = ownerOne
	c := s.begin("cluster-1", s.kube)
	service := s.addService("web", 80)
	c.ensure(service, s.addNode("a"))
	successor := s.successor()
	services, _, err := successor.remainsOf(t.Context(), "cluster-1")
	if err != nil || len(services) != 1 {
		t.Fatalf("%v, %v", services, err)
	}
	if err := s.DeleteLoadBalancer(s.LoadBalancers()[0].ID); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{services[0].LoadBalancerName(), services[0].LegacyName()} {
		s.AddLoadBalancer(openstacktest.LoadBalancer{
			OctaviaResource: openstacktest.OctaviaResource{Name: name, Tags: []string{name}},
			VIPSubnetID:     s.subnet,
		})
	}
	if err := successor.deleteWithoutCluster(t.Context(), services[0]); err != nil {
		t.Error(err)
	}
	if n := len(s.LoadBalancers()); n != 2 {
		t.Errorf("%d load balancers of OCCM are left, want 2", n)
	}
}

func TestCleanUp_SharedLoadBalancer_KeepsTheOtherClusters(t *testing.T) {
	t.Parallel()
	t.Run("guest", func(t *testing.T) {
		t.Parallel()
		c := newOwnedClusters(t, ownerOne, ownerTwo)
		c.second.ensure(c.guest, c.nodes[1])
		c.second.site.successor().cleanUp("cluster-2")
		c.want(t, "without the guest", ownersPort, c.ownerTags()...)
	})
	t.Run("owner", func(t *testing.T) {
		t.Parallel()
		c := newOwnedClusters(t, ownerOne, ownerTwo)
		c.second.ensure(c.guest, c.nodes[1])
		c.first.site.successor().cleanUp("cluster-1")
		c.want(t, "without the owner", guestsPort, c.guestTags()...)
	})
}

// A replica is killed after each of its requests. Another one completes its work, and does nothing
// else.
func TestCleanUp_IsInterruptedAtEachChange_AnotherReplicaFinishes(t *testing.T) {
	t.Parallel()
	for _, uid := range []string{"cluster-1", "cluster-2"} {
		for skip := 0; ; skip++ {
			var used bool
			t.Run(fmt.Sprintf("%s after %d", uid, skip), func(t *testing.T) {
				c := newOwnedClusters(t, ownerOne, ownerTwo)
				c.second.ensure(c.guest, c.nodes[1])
				s := c.first.site
				cleaning := s
				if uid == "cluster-2" {
					cleaning = c.second.site
				}
				own := s.addService("own", 80)
				c.first.ensure(own, c.nodes[0])
				remove := s.Inject(openstacktest.Fault{
					Match: func(call openstacktest.Call) bool {
						return call.Method != http.MethodGet && call.Service != "identity"
					},
					Skip: skip, Status: http.StatusForbidden,
				})
				mark := s.mark()
				_, err := cleaning.successor().CleanUp(t.Context(), uid)
				remove()
				used = err != nil && strings.Contains(err.Error(), "403")
				if len(s.writes(mark)) > skip && !used {
					t.Errorf("the request %d was refused, but the error is %v", skip+1, err)
				}
				cleaning.successor().cleanUp(uid)
				left := len(s.LoadBalancers())
				if uid == "cluster-1" {
					c.want(t, "at the end", guestsPort, c.guestTags()...)
				} else {
					c.want(t, "at the end", ownersPort, c.ownerTags()...)
					left--
				}
				if left != 1 {
					t.Errorf("%d load balancers are left", len(s.LoadBalancers()))
				}
			})
			if !used {
				if skip < 2 {
					t.Errorf("only %d requests change anything", skip)
				}
				break
			}
		}
	}
}
