//go:build !race

// Upstream's service controller races with itself when it finds nodes and Services with load
// balancers at its start: its node worker reads what its service workers write. These tests run
// without the race detector.

package openstack_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// left is what openstack-cloud-controller-manager leaves of a Service that it serves, in the cloud
// and in the cluster.
func (s *site) left(
	name string, machines []machine, nodePorts ...int32,
) (service *corev1.Service, lb openstacktest.LoadBalancer) {
	s.t.Helper()
	of := func(kind string, i int) openstacktest.OctaviaResource {
		r := openstacktest.OctaviaResource{Name: fmt.Sprintf("%s_%d_%s", kind, i,
			balancerName(name))}
		if kind == "listener" {
			r.Tags = []string{balancerName(name)}
		}
		return r
	}
	made := openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{
			Name: balancerName(name),
			Tags: []string{balancerName(name)},
		},
		Description: balancerDescription(name), VIPSubnetID: s.subnets[4],
	}
	for i, nodePort := range nodePorts {
		pool := openstacktest.Pool{
			OctaviaResource: of("pool", i), Protocol: "TCP",
			LBAlgorithm: "ROUND_ROBIN",
		}
		pool.ID = fmt.Sprintf("22222222-2222-4222-8222-22222222222%d", i)
		for _, m := range machines {
			pool.Members = append(pool.Members, openstacktest.Member{
				OctaviaResource: openstacktest.OctaviaResource{Name: m.name},
				Address:         s.address(m, 4), ProtocolPort: int(nodePort),
				SubnetID: s.subnets[4],
			})
		}
		made.Pools = append(made.Pools, pool)
		made.Listeners = append(made.Listeners, openstacktest.Listener{
			OctaviaResource: of("listener", i), Protocol: "TCP", ProtocolPort: 80 + i,
			DefaultPoolID: pool.ID, AllowedCIDRs: []string{"0.0.0.0/0"},
		})
	}
	lb, err := s.LoadBalancer(s.AddLoadBalancer(made))
	s.must(err)
	s.AddFloatingIP(openstacktest.FloatingIP{
		NetworkID: s.public, PortID: lb.VIPPortID,
		Description: "Floating IP for " + balancerDescription(name),
	})
	address := s.floatingIPs(lb)[0].Address

	wanted := ccmtest.LoadBalancerService(name, annotated(annotationID, lb.ID),
		annotated(annotationAddress, address))
	wanted.Finalizers = []string{servicehelpers.LoadBalancerCleanupFinalizer}
	wanted.Spec.Ports = nil
	for i, nodePort := range nodePorts {
		wanted.Spec.Ports = append(wanted.Spec.Ports,
			corev1.ServicePort{
				Name: fmt.Sprintf("port-%d", i), Protocol: corev1.ProtocolTCP,
				Port: 80 + int32(i), NodePort: nodePort,
			})
	}
	service = ccmtest.CreateService(s.t, shared.Client(s.t), wanted)
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{
		IP:     address,
		IPMode: ptr.To(corev1.LoadBalancerIPModeVIP),
	}}
	service, err = shared.Client(s.t).CoreV1().Services(service.Namespace).UpdateStatus(
		s.t.Context(), service, metav1.UpdateOptions{})
	s.must(err)
	return service, lb
}

// A cluster that openstack-cloud-controller-manager has run is gone on with: tags are set, and
// nothing else is changed.
func TestRestart_LoadBalancerOfOCCM_IsTakenOverByTagsAlone(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "takeover-1", "takeover-2")
	service, before := s.left("takeover", machines, 30021, 30022)
	r := serving(t, s, balancing(s, drifting))
	tags := ownTags(t, shared.Client(t), service)
	after := s.waitBalancer(before.ID, "all is tagged", func(lb openstacktest.LoadBalancer) error {
		for _, l := range lb.Listeners {
			if !hasTags(l.Tags, append(tags, lb.Name)...) {
				return fmt.Errorf("listener %s has the tags %q", l.Name, l.Tags)
			}
		}
		if ip := s.floatingIPs(lb)[0]; !hasTags(ip.Tags, tags...) {
			return fmt.Errorf("the floating IP has the tags %q", ip.Tags)
		}
		if !hasTags(lb.Tags, append(tags, lb.Name)...) {
			return fmt.Errorf("the load balancer has the tags %q", lb.Tags)
		}
		return nil
	})
	s.waitQuiet(loadBalancerChanges)
	if shape(after) != shape(before) || after.Name != before.Name ||
		after.Description != before.Description || len(s.LoadBalancers()) != 1 {
		t.Errorf("it is\n%s and was\n%s", shape(after), shape(before))
	}
	for i, l := range after.Listeners {
		if was := before.Listeners[i]; l.ID != was.ID || l.Name != was.Name ||
			l.DefaultPoolID != was.DefaultPoolID {
			t.Errorf("listener %s is %+v", was.ID, l)
		}
	}
	for i, p := range after.Pools {
		for j, m := range p.Members {
			if was := before.Pools[i].Members[j]; m.ID != was.ID || m.Name != was.Name ||
				!m.CreatedAt.Equal(was.CreatedAt) {
				t.Errorf("member %s of pool %s is %+v", was.ID, p.Name, m)
			}
		}
	}
	made := s.since(0, loadBalancerChanges)
	for _, c := range made {
		body, isUpdate := strings.TrimSpace(c.Body),
			operations("loadbalancer_update", "loadbalancer_listener_update")(c)
		if !isUpdate && !operations("*tag*")(c) || isUpdate && !strings.Contains(body, "tags") {
			t.Errorf("it was changed by %s: %s", describe([]openstacktest.Call{c}), body)
		}
	}
	if most := 1 + len(after.Listeners) + 1; len(made) > most {
		t.Errorf(
			"there were %d changes, want %d: the load balancer, its listeners, the floating IP:\n%s", len(made), most, describe(made))
	}
	now := getService(t, shared.Client(t), "takeover")
	if !equality.Semantic.DeepEqual(now.Annotations, service.Annotations) ||
		!equality.Semantic.DeepEqual(now.Status, service.Status) {
		t.Errorf("the Service has %v and %+v, it had %v and %+v", now.Annotations, now.Status,
			service.Annotations, service.Status)
	}
	wantNoWarnings(t, service)
	wantToldOnce(t, service)

	r.stop()
	mark := s.mark()
	again := serving(t, s, balancing(s, drifting))
	s.waitCalls(mark, 5, operations("loadbalancer_list"), "another CCM has looked at it")
	s.waitQuiet(loadBalancerChanges)
	if made := s.since(mark, loadBalancerChanges); len(made) > 0 {
		t.Errorf("another CCM has changed it:\n%s", describe(made))
	}
	again.unbroken()
	deleteService(t, shared.Client(t), "takeover")
	s.wantNothingLeft()
}

// OCCM did not get round to the annotations before it was replaced.
func TestRestart_LoadBalancerOfOCCM_WithoutAnnotations_IsFoundByItsName(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "unfinished-1")
	service, lb := s.left("unfinished", machines, 30031)
	service.Annotations = nil
	_, err := shared.Client(t).CoreV1().Services(service.Namespace).Update(t.Context(), service,
		metav1.UpdateOptions{})
	s.must(err)
	serving(t, s)
	if got := waitServed(t, shared.Client(t),
		"unfinished").Annotations[annotationID]; got != lb.ID || len(s.LoadBalancers()) != 1 {
		t.Errorf("the Service has load balancer %s of %d, want %s", got, len(s.LoadBalancers()),
			lb.ID)
	}
}

// The CCM is stopped whenever it has changed something.
func TestRestart_CCMStoppedAfterEachChange_GoesOnWhereItWas(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "cut-1", "cut-2")
	manage := balancing(s, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true })
	service := createService(t, shared.Client(t), "cut", ccmtest.ServicePorts(80, 443))
	until := func(done func() bool) {
		t.Helper()
		for cuts := 0; !done(); cuts++ {
			if cuts > 40 {
				t.Fatalf("it does not come to an end; changed so far:\n%s",
					describe(s.since(0, loadBalancerChanges)))
			}
			r := ready(t, s, manage)
			before := s.mark()
			ccmtest.Eventually(t, "something is changed, or all is done",
				func(context.Context) (bool, error) {
					if len(s.since(before, loadBalancerChanges)) == 0 && !done() {
						return false, errors.New("nothing is")
					}
					return true, nil
				})
			r.stop()
		}
	}
	until(func() bool {
		lb, err := s.LoadBalancer(balancerName("cut"))
		now := getService(t, shared.Client(t), "cut")
		return err == nil && shape(lb) == s.usual(service, machines...) &&
			len(s.floatingIPs(lb)) == 1 && len(now.Status.LoadBalancer.Ingress) == 1
	})
	if a, b, c := len(s.LoadBalancers()), len(s.FloatingIPs()),
		len(s.groups()); a != 1 || b != 1 || c != 1 {
		t.Errorf(
			"there are %d load balancers, %d floating IPs and %d security groups, want one of each",
			a, b, c)
	}
	s.must(shared.Client(t).CoreV1().Services("default").Delete(t.Context(), "cut",
		metav1.DeleteOptions{}))
	until(func() bool {
		list, err := shared.Client(t).CoreV1().Services("default").List(t.Context(),
			metav1.ListOptions{FieldSelector: "metadata.name=cut"})
		s.must(err)
		return len(list.Items) == 0
	})
	s.wantNothingLeft()
}

// What Octavia can do is not known, which must not mean that it cannot: nothing is opened to
// everybody, and nothing is deleted with what is in it.
func TestRestart_WhileItIsNotKnownWhatOctaviaCanDo_NothingIsMadeOrDeleted(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "unknown-lb-1")
	unknown := openstacktest.Fault{
		Operation: "version_list", Status: http.StatusServiceUnavailable,
		Match: func(c openstacktest.Call) bool {
			return c.Service == openstacktest.ServiceLoadBalancer
		},
	}
	asked := func(c openstacktest.Call) bool {
		return unknown.Match(c) && c.Operation == "version_list"
	}
	impatient := configured(func(c *cloudconf.Config) { c.Client.MaxRetries = 0 })
	remove := s.Inject(unknown)
	r := serving(t, s, impatient)
	createService(t, shared.Client(t), "unknown-lb", func(s *corev1.Service) {
		s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"}
	})
	s.waitCalls(0, 3, asked, "Octavia is asked what it can do")
	if made := s.since(0, loadBalancerChanges); len(made) > 0 {
		t.Errorf("something was changed meanwhile:\n%s", describe(made))
	}
	remove()
	service := waitServed(t, shared.Client(t), "unknown-lb")
	if got := s.balancerOf(service).Listeners[0].AllowedCIDRs; !slices.Equal(got,
		[]string{"198.51.100.0/24"}) {
		t.Errorf("the load balancer lets %v in", got)
	}
	guest := served(t, "unknown-guest", ccmtest.ServicePorts(443),
		sharing(service.Annotations[annotationID]))
	r.stop()

	remove = s.Inject(unknown)
	before := s.mark()
	serving(t, s, impatient)
	s.must(shared.Client(t).CoreV1().Services("default").Delete(t.Context(), guest.Name,
		metav1.DeleteOptions{}))
	s.must(shared.Client(t).CoreV1().Services("default").Delete(t.Context(), service.Name,
		metav1.DeleteOptions{}))
	s.waitCalls(before, 4, asked, "Octavia is asked what it can do")
	if made := s.since(before,
		operations("loadbalancer_delete", "loadbalancer_*_delete")); len(made) > 0 {
		t.Errorf("something was deleted meanwhile:\n%s", describe(made))
	}
	remove()
	ccmtest.WaitServiceGone(t, shared.Client(t), "default", guest.Name)
	ccmtest.WaitServiceGone(t, shared.Client(t), "default", service.Name)
	s.wantNothingLeft()
}

// Leadership is lost while Octavia has the request and has not answered: the successor finds what
// comes of it, and makes no second one.
func TestRestart_LeaderChangesInTheMiddleOfACreation_ThereIsOne(t *testing.T) {
	besideOthers(t)
	for name, fault := range map[string]openstacktest.Fault{
		"lead-unanswered":          {Operation: "loadbalancer_create", Hang: true, AfterEffect: true, Times: 1},
		"lead-not-carried-out":     {Operation: "loadbalancer_create", Hang: true, Times: 1},
		"lead-floating-unanswered": {Operation: "floating_ip_create", Hang: true, AfterEffect: true, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBalancedSite(t)
			machines := s.addNodes(shared.Client(t), name)
			s.Inject(fault)
			first := serving(t, s, as("first"))
			createService(t, shared.Client(t), name)
			s.waitCalls(0, 1, by("first", operations(fault.Operation)), "the request is under way")
			first.elector.Lose(errors.New("another has the lease"))
			if release := first.elector.WaitReleased(t); !release.Drained {
				t.Errorf("the term was released as %+v", release)
			}
			before := s.mark()
			serving(t, s, as("second"))
			service := waitServed(t, shared.Client(t), name)
			s.waitShape(service, s.usual(service, machines...))
			if a, b := len(s.LoadBalancers()), len(s.FloatingIPs()); a != 1 || b != 1 {
				t.Errorf("there are %d load balancers and %d floating IPs, want one of each", a, b)
			}
			if late := s.since(before, by("first", changes)); len(late) > 0 {
				t.Errorf("after the loss the first has sent:\n%s", describe(late))
			}
			deleteService(t, shared.Client(t), name)
			s.wantNothingLeft()
		})
	}
}

// The successor repairs by itself what it has not been asked for, and the predecessor nothing any
// more.
func TestRestart_StoppedCCM_RepairsNothingAnyMore(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "still-1")
	r := serving(t, s, as("still"), balancing(s, drifting))
	service := served(t, "still")
	r.stop()
	before := s.mark()
	s.must(s.DeleteLoadBalancer(service.Annotations[annotationID]))
	serving(t, s, as("next"), balancing(s, drifting))
	s.waitBalancer(balancerName("still"), "there is another",
		func(openstacktest.LoadBalancer) error { return nil })
	if late := s.since(before,
		by("still", func(openstacktest.Call) bool { return true })); len(late) > 0 {
		t.Errorf("after its end the CCM has sent:\n%s", describe(late))
	}
}
