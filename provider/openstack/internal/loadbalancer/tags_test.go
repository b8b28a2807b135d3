package loadbalancer

import (
	"net/http"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// addUsers creates a load balancer as a user would, and a Service that is to use it.
func (c *cluster) addUsers() (id string, guest *v1.Service) {
	s := c.site
	s.t.Helper()
	id = s.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: "users", Tags: []string{"users"}},
		VIPSubnetID:     s.subnet,
	})
	return id, s.addGuest(id, "guest", 443)
}

// tagLate replaces a load balancer's tags right after all load balancers were listed.
func (c *cluster) tagLate(id string, tags ...string) {
	c.site.t.Helper()
	if err := c.forgetList(); err != nil {
		c.site.t.Fatal(err)
	}
	if err := c.site.ChangeLoadBalancer(id,
		func(lb *openstacktest.LoadBalancer) { lb.Tags = tags }); err != nil {
		c.site.t.Fatal(err)
	}
}

func (s *site) tags(id string) []string {
	s.t.Helper()
	lb, err := s.LoadBalancer(id)
	if err != nil {
		s.t.Fatal(err)
	}
	return lb.Tags
}

func TestEnsure_TagsOfOthersSinceTheLastList_Stay(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	id, guest := c.addUsers()
	c.tagLate(id, "users", "late")
	c.ensure(guest, node)
	for _, tag := range []string{"users", "late", "fxccm-cluster=cluster-1"} {
		if now := s.tags(id); !slices.Contains(now, tag) {
			t.Errorf("the tags are %q, without %s", now, tag)
		}
	}
	c.tagLate(id, append(s.tags(id), "later")...)
	c.remove(guest)
	if now := s.tags(id); !slices.Equal(now, []string{"users", "late", "later"}) {
		t.Errorf("after the Service's deletion the tags are %q", now)
	}
}

func TestDelete_AnotherClustersSinceTheLastList_IsLeftAlone(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	id := s.LoadBalancers()[0].ID
	for _, given := range []func(*v1.Service){
		annotations("recreate", "true", "flavor-id",
			s.AddLoadBalancerFlavor(openstacktest.LoadBalancerFlavor{Name: "large"})),
		func(service *v1.Service) { service.DeletionTimestamp = &metav1.Time{Time: s.clock.Now()} },
	} {
		now := s.now(service)
		given(now)
		c.tagLate(id, "fxccm-cluster=another")
		mark := s.mark()
		var err error
		if now.DeletionTimestamp == nil {
			_, err = c.EnsureLoadBalancer(t.Context(), "kubernetes", now, []*v1.Node{node})
		} else {
			err = c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", now)
		}
		if !isWait(err) {
			t.Errorf("the error is %v", err)
		}
		if writes := s.writes(mark); len(writes) > 0 {
			t.Errorf("the requests are %q", writes)
		}
		// The tags are restored for the next test.
		if err := s.ChangeLoadBalancer(id, func(lb *openstacktest.LoadBalancer) {
			lb.Tags = []string{
				"fxccm-cluster=cluster-1", "fxccm-service=" + string(service.UID),
				lb.Name,
			}
		}); err != nil {
			t.Fatal(err)
		}
		if err := c.forgetList(); err != nil {
			t.Fatal(err)
		}
	}
}

// The description and the names are the marks then.
func TestEnsure_NeutronKeepsNoTags_IsServedAndConvergesAndIsDeleted(t *testing.T) {
	t.Parallel()
	forget := func(openstacktest.Call, int, []byte) (int, []byte) { return 200, []byte("null") }
	for name, prepare := range map[string]func(*site){
		"no extension": func(*site) {},
		"null": func(s *site) {
			s.Inject(openstacktest.Fault{Operation: "*_tag_replace", Rewrite: forget})
		},
		"an error": func(s *site) {
			s.Inject(openstacktest.Fault{Operation: "*_tag_replace", Status: 500})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var options []openstacktest.Option
			if name != "an error" {
				options = append(options, openstacktest.WithoutExtensions("standard-attr-tag"))
			}
			s := newSite(t, options...)
			s.defaults.LoadBalancer.ManageSecurityGroups = true
			prepare(s)
			c, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			if status := c.ensure(service, node); len(status.Ingress) != 1 {
				t.Fatalf("the status is %+v", status)
			}
			mark := s.mark()
			for range 3 {
				c.ensure(service, node)
				if err := c.forgetList(service.UID); err != nil {
					t.Fatal(err)
				}
			}
			if name != "an error" {
				// A new term knows only what Neutron shows.
				c = s.begin("cluster-1", s.kube)
				c.ensure(service, node)
			}
			if writes := s.writes(mark); len(writes) > 0 {
				t.Errorf("without a change the requests are %q", writes)
			}
			c.remove(service)
			if left := len(s.LoadBalancers()) + len(s.FloatingIPs()); left > 0 {
				t.Errorf("%d load balancers and floating IPs are left", left)
			}
		})
	}
}

// Without tags to remove, the deletion of the last part is awaited, too.
func TestDelete_GuestWhoseTagsAreGone_WaitsForItsEnd(t *testing.T) {
	t.Parallel()
	s, _ := newTickingSite(t, openstacktest.WithProvisioning(200*time.Millisecond))
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	id, guest := c.addUsers()
	c.ensure(guest, node)
	c.tagLate(id, "users")
	c.remove(guest)
	if lb, err := s.LoadBalancer(id); err != nil || len(lb.Listeners)+len(lb.Pools) > 0 {
		t.Errorf("the load balancer is %+v, %v", lb, err)
	}
}

// The description marks a floating IP then. It is cleared together with the detachment, after which
// nothing else would lead to the floating IP.
func TestDelete_NeutronTakesNoTags_KeptFloatingIPIsReleased(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.Inject(openstacktest.Fault{Operation: "*_tag_*", Status: http.StatusForbidden})
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("keep-floatingip", "true")(service)
	s.update(service)
	address := c.ensure(service, node).Ingress[0].IP
	now.Step(time.Hour) // tags are tried again
	c.remove(service)
	for _, ip := range s.FloatingIPs() {
		if ip.Address != address || ip.PortID != "" || ip.Description != "" {
			t.Errorf("after the deletion the floating IP is %+v", ip)
		}
	}
	other := s.addService("other", 80)
	other.Spec.LoadBalancerIP = address
	s.update(other)
	if got := c.ensure(other, node).Ingress[0].IP; got != address {
		t.Errorf("another Service that requests %s has %s", address, got)
	}
}

// The Service that is created again under its name only requests the address, so it does not own
// the floating IP.
func TestFloatingIP_KeptAndRequestedByTheNextOfItsName_StaysAfterThatIsDeleted(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	annotations("keep-floatingip", "true")(service)
	s.update(service)
	address := c.ensure(service, node).Ingress[0].IP
	c.remove(service)
	if err := s.kube.CoreV1().Services(service.Namespace).Delete(t.Context(), service.Name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	next := s.addService("web", 80)
	if next.UID == service.UID {
		t.Fatal("the next Service has the UID of the first one")
	}
	next.Spec.LoadBalancerIP = address
	s.update(next)
	if got := c.ensure(next, node).Ingress[0].IP; got != address {
		t.Errorf("the next Service has the address %s, want %s", got, address)
	}
	c.remove(next)
	ips := s.FloatingIPs()
	if len(ips) != 1 || ips[0].Address != address || ips[0].PortID != "" ||
		ips[0].Description != "" || len(ips[0].Tags) > 0 {
		t.Errorf("after the deletion the floating IPs are %+v, want %s without marks", ips, address)
	}
	if lbs := s.LoadBalancers(); len(lbs) > 0 {
		t.Errorf("the load balancers %+v remain", lbs)
	}
}

// A Service that was never served has no address in its status.
func TestRecreation_CreationFailsAndNeutronKeepsNoTags_FloatingIPIsUsedAgain(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t, openstacktest.WithoutExtensions("standard-attr-tag"),
		openstacktest.WithProvisioning(5*time.Second))
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("member-subnet-id", unknownID)(service) // Octavia sets load balancers to ERROR
	s.update(service)
	mark := s.mark()
	_ = c.attend(now, 10*time.Minute, service, node)
	created := s.counts(mark)
	if n := len(s.FloatingIPs()); n != 1 || created["loadbalancer_create"] < 2 {
		t.Errorf("of %d load balancers, one after the other, there are %d floating IPs, want one",
			created["loadbalancer_create"], n)
	}
}

// Nothing but the description and the address in the Service leads to the detached floating IP.
func TestRecreation_NeutronKeepsNoTags_FloatingIPStaysTheServices(t *testing.T) {
	t.Parallel()
	s, _ := newTickingSite(t, openstacktest.WithoutExtensions("standard-attr-tag"),
		openstacktest.WithProvisioning(5*time.Second))
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	before := c.ensure(service, node)
	lb := s.LoadBalancers()[0].ID
	service = s.now(service)
	annotations("recreate", "true", "flavor-id",
		s.AddLoadBalancerFlavor(openstacktest.LoadBalancerFlavor{Name: "large"}))(service)
	s.update(service)
	after := c.ensure(service, node)
	if !slices.EqualFunc(before.Ingress, after.Ingress,
		func(a, b v1.LoadBalancerIngress) bool { return a.IP == b.IP }) {
		t.Errorf("the address was %v, and is %v", before.Ingress, after.Ingress)
	}
	if n := len(s.FloatingIPs()); n != 1 || s.LoadBalancers()[0].ID == lb {
		t.Errorf("%d floating IPs and load balancers %+v exist", n, s.LoadBalancers())
	}
}
