package openstack_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// untouched is a load balancer without what changes by itself.
func untouched(lb openstacktest.LoadBalancer) string { return fmt.Sprintf("%+v", lb) }

// Two clusters of one name, with Services of one name, in one project. Whatever happens in one is
// nothing to the other.
func TestLoadBalancer_TwoClustersOfOneName_NeverTouchEachOthers(t *testing.T) {
	besideOthers(t)
	cp := controlplane.ForTest(t)
	other, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	s := newBalancedSite(t)
	near := s.addNodes(shared.Client(t), "near-1")
	far := s.addNodes(other, "far-1")
	drift := balancing(s, drifting,
		func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true })
	serving(t, s, as("near"), drift)
	one := served(t, "twin")
	first := s.balancerOf(one)
	before := untouched(first)
	far2 := func(l *launch) { l.RESTConfig, l.admin = s.secrets.watch(cp.RESTConfig()), other }
	serving(t, s, as("far"), drift, far2)
	createService(t, other, "twin")
	two := waitServed(t, other, "twin")
	second := s.balancerOf(two)

	if first.ID == second.ID || first.Name != second.Name || first.VIPAddress == second.VIPAddress {
		t.Fatalf("the two load balancers are %s (%s) and %s (%s), want two of one name", first.ID,
			first.Name, second.ID, second.Name)
	}
	if got := untouched(s.balancerOf(one)); got != before {
		t.Errorf("the first load balancer was\n%s\nand is\n%s", before, got)
	}
	wantMembers := func(service *corev1.Service, m machine) {
		t.Helper()
		s.waitBalancer(service.Annotations[annotationID], "the members are the cluster's own",
			func(lb openstacktest.LoadBalancer) error {
				if got, want := shape(lb), s.usual(service, m); got != want {
					return fmt.Errorf("it is %s, want %s", got, want)
				}
				return nil
			})
	}
	wantMembers(one, near[0])
	wantMembers(two, far[0])
	mark := s.mark()
	s.waitCalls(mark, 5, by("near", operations("loadbalancer_list")),
		"the first cluster looks for changes")
	s.waitCalls(mark, 5, by("far", operations("loadbalancer_list")),
		"the second cluster looks for changes")
	if made := s.since(mark, loadBalancerChanges); len(made) > 0 {
		t.Errorf("they change something for ever:\n%s", describe(made))
	}

	// The load balancer of one is gone: it does not take the other's.
	s.must(s.DeleteLoadBalancer(second.ID))
	ccmtest.Eventually(t, "the second cluster has another load balancer",
		func(context.Context) (bool, error) {
			id := getService(t, other, "twin").Annotations[annotationID]
			if id == second.ID || id == first.ID {
				return false, fmt.Errorf("it has %s", id)
			}
			return true, nil
		})
	// A Service that names the other's is refused, and has none.
	mine := createService(t, shared.Client(t), "thief",
		sharing(getService(t, other, "twin").Annotations[annotationID]))
	waitServiceEvent(t, mine, corev1.EventTypeWarning, "OtherCluster", annotationID)
	deleteService(t, shared.Client(t), "thief")

	deleteService(t, shared.Client(t), "twin")
	lbs := s.LoadBalancers()
	if len(lbs) != 1 || lbs[0].ID != getService(t, other, "twin").Annotations[annotationID] ||
		len(s.floatingIPs(lbs[0])) != 1 || len(s.groups()) != 1 {
		t.Errorf("after the deletion of the first there are %v, %v and %v", lbs, s.FloatingIPs(),
			s.groups())
	}
	deleteService(t, other, "twin")
	s.wantNothingLeft()
}

func TestLoadBalancer_Shared_HasThePortsOfBothServices(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "shared-1")
	serving(t, s)
	owner := served(t, "owner", ccmtest.ServicePorts(80))
	id := owner.Annotations[annotationID]
	guest := served(t, "guest", ccmtest.ServicePorts(443), sharing(id))
	both := func(services ...*corev1.Service) string {
		var lines []string
		for _, service := range services {
			lines = append(lines, strings.Split(s.usual(service, machines...), "\n")...)
		}
		slices.Sort(lines)
		return strings.Join(lines, "\n")
	}
	wait := func(what, want string, tags ...string) {
		t.Helper()
		s.waitBalancer(id, what, func(lb openstacktest.LoadBalancer) error {
			if got := shape(lb); got != want || !hasTags(lb.Tags, tags...) {
				return fmt.Errorf("it is\n%s with the tags %q, want\n%s with %q", got, lb.Tags,
					want, tags)
			}
			return nil
		})
	}
	wait("it serves both", both(owner, guest), balancerName("owner"), balancerName("guest"))
	if n := len(s.LoadBalancers()); n != 1 {
		t.Errorf("there are %d load balancers", n)
	}
	if a, b := owner.Status.LoadBalancer.Ingress[0].IP,
		guest.Status.LoadBalancer.Ingress[0].IP; a != b {
		t.Errorf("the addresses are %s and %s, want one", a, b)
	}

	// A third one is one too many, and a port that is taken cannot be had.
	third := createService(t, shared.Client(t), "third", ccmtest.ServicePorts(8080), sharing(id))
	waitServiceEvent(t, third, corev1.EventTypeWarning, "max-shared-lb")
	deleteService(t, shared.Client(t), "third")
	guest = editService(t, "guest", ccmtest.ServicePorts(443, 8443))
	wait("the guest has another port", both(owner, guest))
	deleteService(t, shared.Client(t), "guest")
	wait("the guest is gone", both(owner))
	if lb := s.balancerOf(owner); hasTags(lb.Tags, balancerName("guest")) {
		t.Errorf("the tags are still %q", lb.Tags)
	}
	rival := createService(t, shared.Client(t), "rival", ccmtest.ServicePorts(80), sharing(id))
	waitServiceEvent(t, rival, corev1.EventTypeWarning, "LoadBalancerPortInUse", "80")
	deleteService(t, shared.Client(t), "rival")
	wait("the owner is as before", both(owner), balancerName("owner"))

	// The owner goes first: its load balancer stays for the guest, and goes with it.
	guest = served(t, "heir", ccmtest.ServicePorts(443), sharing(id))
	deleteService(t, shared.Client(t), "owner")
	wait("the guest is alone", both(guest))
	deleteService(t, shared.Client(t), "heir")
	s.wantNothingLeft()
}

func TestLoadBalancer_OfAUser_IsUsedAndLeftAsItWas(t *testing.T) {
	besideOthers(t)
	for name, floats := range map[string]bool{"floating": true, "provider-network": false} {
		t.Run(name, func(t *testing.T) {
			s := newBalancedSite(t)
			machines := s.addNodes(shared.Client(t), "user-"+name)
			id := s.AddLoadBalancer(openstacktest.LoadBalancer{
				OctaviaResource: openstacktest.OctaviaResource{
					Name: "by hand",
					Tags: []string{"ours"},
				},
				VIPSubnetID: s.subnets[4],
				Pools:       []openstacktest.Pool{{OctaviaResource: openstacktest.OctaviaResource{ID: "11111111-1111-4111-8111-111111111111", Name: "p"}, Protocol: "HTTP", LBAlgorithm: "ROUND_ROBIN"}},
				Listeners:   []openstacktest.Listener{{OctaviaResource: openstacktest.OctaviaResource{Name: "l"}, Protocol: "HTTP", ProtocolPort: 8000, DefaultPoolID: "11111111-1111-4111-8111-111111111111"}},
			})
			lb, err := s.LoadBalancer(id)
			s.must(err)
			own := shape(lb)
			var options []serviceOption
			if floats {
				s.AddFloatingIP(openstacktest.FloatingIP{
					NetworkID: s.public, PortID: lb.VIPPortID,
					Description: "by hand",
				})
			} else {
				options = append(options, internal())
			}
			serving(t, s, balancing(s, drifting))
			service := served(t, "adopter",
				append(options, sharing(id), ccmtest.ServicePorts(80))...)
			s.waitBalancer(id, "it serves the Service, too",
				func(lb openstacktest.LoadBalancer) error {
					if want := own + "\n" + s.usual(service, machines...); shape(lb) != want {
						return fmt.Errorf("it is\n%s\nwant\n%s", shape(lb), want)
					}
					return nil
				})
			deleteService(t, shared.Client(t), "adopter")
			after := s.waitBalancer(id, "it is as it was",
				func(lb openstacktest.LoadBalancer) error {
					if shape(lb) != own || !slices.Equal(lb.Tags, []string{"ours"}) ||
						lb.Name != "by hand" {
						return fmt.Errorf("it is %q with the tags %q and\n%s", lb.Name, lb.Tags,
							shape(lb))
					}
					return nil
				})
			if floats && len(s.floatingIPs(after)) != 1 {
				t.Error("its floating IP is gone")
			}
		})
	}
}

// What has the name of the Service's load balancer, but nothing else of it, is somebody else's.
func TestLoadBalancer_OfTheSameNameAlone_IsNotTaken(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "name-1")
	for _, tags := range [][]string{
		nil,
		{"another"},
		{balancerName("same"), "fxccm-cluster=another"},
	} {
		s.AddLoadBalancer(openstacktest.LoadBalancer{
			OctaviaResource: openstacktest.OctaviaResource{Name: balancerName("same"), Tags: tags},
			VIPSubnetID:     s.subnets[4],
		})
	}
	var before []string
	for _, lb := range s.LoadBalancers() {
		before = append(before, untouched(lb))
	}
	serving(t, s)
	service := served(t, "same")
	deleteService(t, shared.Client(t), "same")
	var after []string
	for _, lb := range s.LoadBalancers() {
		if lb.ID == service.Annotations[annotationID] {
			t.Errorf("the Service's load balancer is left")
		}
		after = append(after, untouched(lb))
	}
	if !slices.Equal(before, after) {
		t.Errorf("the load balancers of others were\n%s\nand are\n%s", strings.Join(before, "\n"),
			strings.Join(after, "\n"))
	}
}
