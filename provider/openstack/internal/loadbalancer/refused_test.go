package loadbalancer

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	kuberuntime "k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

const unknownID = "11111111-2222-4333-8444-555555555555"

// mostRequests is how many requests of any kind one Service with a wrong setting may cause in its
// first minute, the login and the lists of networks among them.
const mostRequests = 10

// wantFewRequests fails the test if more requests were sent since mark.
func (s *site) wantFewRequests(mark, most int) {
	s.t.Helper()
	calls := s.Calls()[mark:]
	if len(calls) <= most {
		return
	}
	var list strings.Builder
	for _, call := range calls {
		fmt.Fprintf(&list, "\n%8s %s %d", call.Time.Sub(calls[0].Time).Round(time.Millisecond),
			call.Operation, call.Status)
	}
	s.t.Errorf("in the first minute the cloud got %d requests, want at most %d:%s", len(calls),
		most, list.String())
}

// attend reconciles as the service controller does for this long: at once and again after a change
// of the annotations, else after the pause of a RetryError, or after a growing pause. It returns
// the last error.
func (c *cluster) attend(
	now *clocktesting.FakeClock, lasts time.Duration, service *v1.Service, nodes ...*v1.Node,
) (last error) {
	c.site.t.Helper()
	failures, changes := 0, 0
	for end := now.Now().Add(lasts); now.Now().Before(end); {
		given := c.site.now(service)
		_, last = c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", given, nodes)
		if last == nil {
			return nil
		}
		if !maps.Equal(given.Annotations, c.site.now(service).Annotations) {
			// The event about the condition, which is written later, may lead to a call of its own.
			changes = 2
		}
		if changes > 0 {
			changes--
			continue
		}
		pause := min(5*time.Second<<failures, 5*time.Minute)
		var wait *api.RetryError
		if errors.As(last, &wait) {
			pause, failures = wait.RetryAfter(), 0
		} else {
			failures++
		}
		now.Step(pause)
	}
	return last
}

// A floating network that the router of the subnet does not lead to is a wrong setting: it is told
// once, with the setting, and tried again after growing pauses.
func TestRefused_FloatingNetworkIsNotReachable_IsAWarningThatNamesTheSetting(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t, openstacktest.WithProvisioning(5*time.Second))
	s.defaults.LoadBalancer.SubnetID = s.subnet
	apart := s.AddNetwork(openstacktest.Network{Name: "apart", External: true})
	s.AddSubnet(openstacktest.Subnet{NetworkID: apart, CIDR: "198.51.100.0/24"})
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("floating-network-id", apart)(service)
	s.update(service)

	mark := s.mark()
	err := c.attend(now, time.Minute, service, node)
	s.wantFewRequests(mark, mostRequests)
	if n := s.counts(mark)["floating_ip_create"]; n != 1 {
		t.Errorf("%d floating IPs were requested in a minute, want one", n)
	}
	_ = c.attend(now, 10*time.Minute, service, node)
	if n := s.counts(mark)["floating_ip_create"]; n > 8 {
		t.Errorf("%d floating IPs were requested in 11 minutes, want at most 8", n)
	}
	annotation := settings.Prefix + "floating-network-id"
	warnings := s.said("Warning ")
	if len(warnings) != 1 || !strings.Contains(warnings[0], "Neutron: 404 ") ||
		!strings.Contains(warnings[0], annotation) || strings.Contains(warnings[0], "http") {
		t.Errorf("the warnings are %q, want one of Neutron's that names %s", warnings, annotation)
	}
	condition := meta.FindStatusCondition(s.now(service).Status.Conditions, ConditionType)
	if condition == nil || condition.Reason == "LoadBalancerWaiting" ||
		!strings.Contains(condition.Message, annotation) {
		t.Errorf("after %v the condition is %+v", err, condition)
	}
	// The API server deletes an event after an hour.
	for hour := range 3 {
		_ = c.attend(now, time.Hour, service, node)
		if more := s.said("Warning "); len(more) < 2*(hour+1) || len(more) > 2*(hour+1)+1 {
			t.Errorf("%d warnings within %d hours, want one each half hour", len(more), hour+1)
		}
	}
}

// A refusal stands for a minute only while nothing changes but fxccm's own annotations.
func TestRefused_ConfigurationChanges_IsTriedAtOnce(t *testing.T) {
	t.Parallel()
	const setting = "floating-network-id"
	for name, c := range map[string]struct {
		// change returns the cluster that serves from then on.
		change  func(*site, *cluster, *v1.Service) *cluster
		isRight bool
	}{
		"of the setting": {
			change: func(s *site, c *cluster, service *v1.Service) *cluster {
				annotations(setting, "")(service)
				s.update(service)
				return c
			},
			isRight: true,
		},
		"of another annotation": {
			change: func(s *site, c *cluster, service *v1.Service) *cluster {
				service.Annotations["example.org/touched"] = "yes"
				s.update(service)
				return c
			},
		},
		"of the spec": {
			change: func(s *site, c *cluster, service *v1.Service) *cluster {
				service.Spec.Ports[0].Port = 81
				s.update(service)
				return c
			},
		},
		"of cloud.conf": {
			change: func(s *site, c *cluster, _ *v1.Service) *cluster {
				c.Close()
				s.defaults.LoadBalancer.FloatingNetworkID = ""
				return s.begin("cluster-1", s.kube)
			},
			isRight: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, now := newTickingSite(t, openstacktest.WithProvisioning(5*time.Second))
			s.defaults.LoadBalancer.SubnetID = s.subnet
			apart := s.AddNetwork(openstacktest.Network{Name: "apart", External: true})
			s.AddSubnet(openstacktest.Subnet{NetworkID: apart, CIDR: "198.51.100.0/24"})
			service := s.addService("web", 80)
			if name == "of cloud.conf" {
				s.defaults.LoadBalancer.FloatingNetworkID = apart
			} else {
				annotations(setting, apart)(service)
				s.update(service)
			}
			p, node := s.begin("cluster-1", s.kube), s.addNode("a")
			_, err := p.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service),
				[]*v1.Node{node})
			if err == nil {
				t.Fatal("the Service is served with the wrong network")
			}
			mark := s.mark()
			err = c.change(s, p, s.now(service)).attend(now, 20*time.Second, service, node)
			if c.isRight != (err == nil) {
				t.Errorf("the Service is served: %v, want %v; the error is %v", err == nil,
					c.isRight, err)
			}
			if n := s.counts(mark)["floating_ip_create"]; n != 1 {
				t.Errorf("%d floating IPs were requested after the change, want one", n)
			}
		})
	}
}

// A change during the refused reconcile is not taken for fxccm's own annotations.
func TestRefused_SettingIsCorrectedMeanwhile_IsTriedAtOnce(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.SubnetID = s.subnet
	apart := s.AddNetwork(openstacktest.Network{Name: "apart", External: true})
	s.AddSubnet(openstacktest.Subnet{NetworkID: apart, CIDR: "198.51.100.0/24"})
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("floating-network-id", apart)(service)
	s.update(service)
	before := s.now(service)
	corrected := s.now(service)
	annotations("floating-network-id", s.external)(corrected)
	s.update(corrected)
	_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", before, []*v1.Node{node})
	if err == nil {
		t.Fatal("the Service is served with the wrong network")
	}
	if err := c.attend(now, 10*time.Second, service, node); err != nil {
		t.Errorf("after the correction: %v", err)
	}
}

// An API server may answer each patch with another object of megabytes.
func TestRefused_APIServerAnsweredThePatchOfAnnotations_AnswerIsNotKept(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.SubnetID = s.subnet
	apart := s.AddNetwork(openstacktest.Network{Name: "apart", External: true})
	s.AddSubnet(openstacktest.Subnet{NetworkID: apart, CIDR: "198.51.100.0/24"})
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("floating-network-id", apart)(service)
	s.update(service)
	var answers []weak.Pointer[v1.Service]
	s.kube.PrependReactor("patch", "services",
		func(action clienttesting.Action) (bool, kuberuntime.Object, error) {
			if action.GetSubresource() != "" {
				return false, nil, nil
			}
			answer := service.DeepCopy()
			answers = append(answers, weak.Make(answer))
			return true, answer, nil
		})
	if err := c.attend(now, 20*time.Second, service, node); err == nil {
		t.Fatal("the Service is served with the wrong network")
	}
	if len(answers) == 0 {
		t.Fatal("no annotation was written")
	}
	runtime.GC()
	for _, answer := range answers {
		if answer.Value() != nil {
			t.Error("the answer is kept")
		}
	}
	runtime.KeepAlive(c)
}

// A failure that may pass is no refusal: it is tried again within seconds.
func TestFailure_PassesSoon_IsTriedAgainWithinSeconds(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]openstacktest.Fault{
		"unavailable":       {Status: http.StatusServiceUnavailable},
		"failing":           {Status: http.StatusInternalServerError},
		"without an answer": {Drop: true},
		"busy": {
			Status:  http.StatusConflict,
			Message: "Load Balancer 1234 is immutable and cannot be updated.",
		},
		"behind a proxy that denies": {Status: http.StatusForbidden, Body: "<html>"},
	} {
		for _, operation := range []string{"loadbalancer_create", "floating_ip_create"} {
			t.Run(name+" "+operation, func(t *testing.T) {
				t.Parallel()
				s, now := newTickingSite(t)
				c, node := s.begin("cluster-1", s.kube), s.addNode("a")
				service := s.addService("web", 80)
				fault := fault
				fault.Operation, fault.Times = operation, 1
				s.Inject(fault)
				if err := c.attend(now, 15*time.Second, service, node); err != nil {
					t.Errorf("after 15 s: %v", err)
				}
				if s.counts(0)[operation] < 2 {
					t.Errorf("nothing was tried again: %v", s.counts(0))
				}
			})
		}
	}
}

// Of several external networks, the one to which the router of the subnet leads is used. The
// routers are read only then, and once.
func TestExternalNetwork_Several_IsTheReachableOne(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	c.ensure(s.addService("one", 80), node)
	if n := s.counts(0)["router_list"]; n != 0 {
		t.Errorf("routers were read %d times for one external network", n)
	}
	first := s.AddNetwork(openstacktest.Network{
		ID: "00000000-0000-4000-8000-000000000001", Name: "apart", External: true,
	})
	s.AddSubnet(openstacktest.Subnet{NetworkID: first, CIDR: "198.51.100.0/24"})
	c = s.begin("cluster-2", s.kube)
	for _, name := range []string{"two", "three"} {
		c.ensure(s.addService(name, 80), node)
	}
	for _, ip := range s.FloatingIPs() {
		if ip.NetworkID != s.external {
			t.Errorf("floating IP %s is in network %s, want %s", ip.Address, ip.NetworkID,
				s.external)
		}
	}
	if n := s.counts(0)["router_list"]; n != 1 {
		t.Errorf("routers were read %d times, want once", n)
	}
}

// Octavia shows the port of a load balancer also after another client has deleted it.
func TestRefused_PortOfTheLoadBalancerIsDeleted_IsAWarningWithTheWayOut(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*site, *v1.Service){
		"a floating IP is created": func(*site, *v1.Service) {},
		"a floating IP is attached": func(s *site, service *v1.Service) {
			s.AddFloatingIP(openstacktest.FloatingIP{
				NetworkID: s.external, Address: "203.0.113.77",
			})
			service.Spec.LoadBalancerIP = "203.0.113.77"
		},
		"a floating IP of a pool is attached": func(s *site, service *v1.Service) {
			s.fillPool("front", 3)
			annotations("floating-ip-tag", "front")(service)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, now := newTickingSite(t)
			s.defaults.LoadBalancer.SubnetID = s.subnet
			c, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			internal := "service.beta.kubernetes.io/openstack-internal-load-balancer"
			service.Annotations[internal] = "true"
			s.update(service)
			c.ensure(service, node)
			port := s.LoadBalancers()[0].VIPPortID
			if err := s.DeletePort(port); err != nil {
				t.Fatal(err)
			}
			service = s.now(service)
			delete(service.Annotations, internal)
			change(s, service)
			s.update(service)

			now.Step(3 * time.Second) // else the last list may be new enough, and may not
			mark := s.mark()
			_ = c.attend(now, time.Minute, service, node)
			// No setting is wrong: the load balancer is read again once, and may be another one.
			s.wantFewRequests(mark, 13)
			writes := 0
			for _, w := range s.writes(mark) {
				if strings.Contains(w, "floatingips") {
					writes++
				}
			}
			if writes == 0 || writes > 3 {
				t.Errorf("in the first minute Neutron got %d requests for a floating IP: %q",
					writes, s.writes(mark))
			}
			warnings := s.said("Warning LoadBalancerInError")
			if len(warnings) != 1 || !strings.Contains(warnings[0], "Neutron: 404 Port "+port) ||
				!strings.Contains(warnings[0], "(the port of the load balancer); fail over the ") {
				t.Errorf("the warnings are %q, want one about port %s", s.said("Warning "), port)
			}
			if report := c.reported(); report.State != Degraded {
				t.Errorf("the report is %+v", report)
			}
			// The way out of the message.
			if err := s.DeleteLoadBalancer(s.LoadBalancers()[0].ID); err != nil {
				t.Fatal(err)
			}
			if err := c.attend(now, 10*time.Minute, service, node); err != nil {
				t.Errorf("after the load balancer was deleted: %v", err)
			}
		})
	}
}

// Neutron refuses each change of the groups of such a port.
func TestRefused_PortOfANodeHasAGroupOfAnotherProject_IsTriedAfterGrowingPauses(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.SubnetID = s.subnet
	s.defaults.LoadBalancer.ManageSecurityGroups = true
	node := s.addNode("a")
	theirs := s.AddSecurityGroup(openstacktest.SecurityGroup{
		Name: "theirs", ProjectID: s.AddProject(openstacktest.Project{Name: "other"}).ProjectID,
	})
	for _, port := range s.Ports() {
		if port.DeviceOwner != openstacktest.OwnerCompute {
			continue
		}
		if err := s.UpdatePort(port.ID, func(p *openstacktest.Port) {
			p.SecurityGroups = append(p.SecurityGroups, theirs)
		}); err != nil {
			t.Fatal(err)
		}
	}
	c, service := s.begin("cluster-1", s.kube), s.addService("web", 80)
	mark := s.mark()
	err := c.attend(now, time.Minute, service, node)
	if n := s.counts(mark)["port_update"]; n == 0 || n > 6 {
		t.Errorf("in the first minute Neutron got %d changes of a port: %v", n, s.counts(mark))
	}
	const want = "Neutron: 404 Security group "
	if err == nil || !strings.HasPrefix(err.Error(), want+theirs) ||
		!strings.HasSuffix(err.Error(), "; retrying") {
		t.Errorf("the error is %v, want %s%s", err, want, theirs)
	}
	if report := c.reported(); report.State != Degraded {
		t.Errorf("the report is %+v", report)
	}
}

// Members are in subnet-id of cloud.conf if no other option says where, whatever the Service says
// about the address.
func TestRefused_SubnetOfCloudConfForMembers_IsCalledAsInCloudConf(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t, openstacktest.WithProvisioning(5*time.Second))
	s.defaults.LoadBalancer.SubnetID = unknownID
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("subnet-id", s.subnet)(service)
	annotations("member-subnet-id", "")(service) // an empty annotation has no effect
	s.update(service)
	_ = c.attend(now, 2*time.Minute, service, node)
	warnings := s.said("Warning LoadBalancerInError")
	if len(warnings) != 1 || !strings.Contains(warnings[0],
		"(check option subnet-id of cloud.conf)") {
		t.Errorf("the warnings are %q, want one that names subnet-id of cloud.conf",
			s.said("Warning "))
	}
}

// Octavia does not check the subnet of members when it creates a whole load balancer: it ends in
// ERROR, each time.
func TestRefused_MemberSubnetDoesNotExist_IsRecreatedAfterGrowingPauses(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t, openstacktest.WithProvisioning(5*time.Second))
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("member-subnet-id", unknownID)(service)
	s.update(service)
	mark := s.mark()
	_ = c.attend(now, time.Minute, service, node)
	// The one creation costs as much as that of a Service that is served: 9, and 3 lists until
	// Octavia sets the load balancer to ERROR. Its contents cost 3.
	s.wantFewRequests(mark, 15)
	if n := s.counts(mark)["loadbalancer_create"]; n != 1 {
		t.Errorf("%d load balancers were created in a minute, want one", n)
	}
	_ = c.attend(now, time.Minute, service, node)
	if n := s.counts(mark)["loadbalancer_create"]; n < 2 || n > 6 {
		t.Errorf("%d load balancers were created in 2 minutes, want 2 to 6", n)
	}
	_ = c.attend(now, 20*time.Minute, service, node)
	if n := s.counts(mark)["loadbalancer_create"]; n > 12 {
		t.Errorf("%d load balancers were created in 22 minutes, want at most 12", n)
	}
	if lost := s.said("LoadBalancerLost"); len(lost) > 0 {
		t.Errorf("fxccm misses what it has deleted: %q", lost)
	}
	annotation := settings.Prefix + "member-subnet-id"
	want := "(check annotation " + annotation + "); each one is deleted and created again, after " +
		"growing pauses"
	warnings := s.said("Warning LoadBalancerInError")
	if len(warnings) != 1 || !strings.HasSuffix(warnings[0], want) {
		t.Errorf("the warnings are %q, want one LoadBalancerInError that ends with %q", warnings,
			want)
	}
	c.failNow(now, service, node)
	service = s.now(service)
	delete(service.Annotations, annotation)
	s.update(service)
	if err := c.attend(now, 40*time.Second, service, node); err != nil {
		t.Errorf("with a right subnet, 40 s after the correction: %v", err)
	}
}

// failNow reconciles until a pause begins because a load balancer has ended in ERROR.
func (c *cluster) failNow(now *clocktesting.FakeClock, service *v1.Service, node *v1.Node) {
	c.site.t.Helper()
	for range 100 {
		_, err := c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", c.site.now(service),
			[]*v1.Node{node})
		var wait *api.RetryError
		switch {
		case !errors.As(err, &wait):
			now.Step(5 * time.Second)
		case wait.RetryAfter() >= minRefusalRecheck:
			return
		default:
			now.Step(wait.RetryAfter())
		}
	}
	c.site.t.Fatal("no pause began")
}

// A change that corrects nothing starts one attempt at once, and the pauses go on.
func TestRefused_ServiceChangesAndFailsAgain_OneAttemptIsMadeAtOnce(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t, openstacktest.WithProvisioning(5*time.Second))
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	annotations("member-subnet-id", unknownID)(service)
	s.update(service)
	_ = c.attend(now, 20*time.Minute, service, node)
	c.failNow(now, service, node)
	for _, id := range []string{
		"22222222-2222-4333-8444-555555555555", "33333333-2222-4333-8444-555555555555",
	} {
		service = s.now(service)
		annotations("member-subnet-id", id)(service)
		s.update(service)
		mark := s.mark()
		_ = c.attend(now, 40*time.Second, service, node)
		if n := s.counts(mark)["loadbalancer_create"]; n != 1 {
			t.Errorf("%d load balancers were created in 40 s after a change, want one", n)
		}
		_ = c.attend(now, 4*time.Minute, service, node)
		if n := s.counts(mark)["loadbalancer_create"]; n > 2 {
			t.Errorf("%d load balancers were created in 5 minutes after a change", n)
		}
	}
}

// The external network is the one that the router of the VIP's network leads to, before Octavia has
// chosen the subnet, or shows that of the port.
func TestExternalNetwork_NoSubnetIsGiven_IsReachableAtTheFirstAttempt(t *testing.T) {
	t.Parallel()
	for name, place := range map[string]func(*site) (option, id string){
		"only a network": func(s *site) (option, id string) { return "network-id", s.network },
		"only a port": func(s *site) (option, id string) {
			return "port-id", s.AddPort(openstacktest.Port{NetworkID: s.network})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, node := newCluster(t)
			s := c.site
			apart := s.AddNetwork(openstacktest.Network{
				ID: "00000000-0000-4000-8000-000000000001", Name: "apart", External: true,
			})
			s.AddSubnet(openstacktest.Subnet{NetworkID: apart, CIDR: "198.51.100.0/24"})
			service := s.addService("web", 80)
			annotations(place(s))(service)
			s.update(service)
			mark := s.mark()
			c.ensure(service, node)
			if n := s.counts(mark)["floating_ip_create"]; n != 1 {
				t.Errorf("%d floating IPs were requested, want one", n)
			}
			for _, ip := range s.FloatingIPs() {
				if ip.NetworkID != s.external {
					t.Errorf("the floating IP is in network %s, want %s", ip.NetworkID, s.external)
				}
			}
		})
	}
}

// The subnets of a network may have different routers.
func TestExternalNetwork_PortIsGiven_IsThatOfTheRouterOfItsSubnet(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	apart := s.AddNetwork(openstacktest.Network{Name: "apart", External: true})
	s.AddSubnet(openstacktest.Subnet{NetworkID: apart, CIDR: "198.51.100.0/24"})
	second := s.AddSubnet(openstacktest.Subnet{NetworkID: s.network, CIDR: "10.9.0.0/16"})
	s.AddRouter(openstacktest.Router{
		Name: "apart", ExternalNetworkID: apart, Subnets: []string{second},
	})
	service := s.addService("web", 80)
	annotations("port-id", s.AddPort(openstacktest.Port{
		NetworkID: s.network, FixedIPs: []openstacktest.FixedIP{{SubnetID: second}},
	}))(service)
	s.update(service)
	mark := s.mark()
	c.ensure(service, node)
	if n := s.counts(mark)["floating_ip_create"]; n != 1 {
		t.Errorf("%d floating IPs were requested, want one", n)
	}
	for _, ip := range s.FloatingIPs() {
		if ip.NetworkID != apart {
			t.Errorf("the floating IP is in network %s, want %s", ip.NetworkID, apart)
		}
	}
}

// A text that reaches a person has no URL and no JSON, and is the same each time.
func TestFailure_CloudDoesNotAnswer_TextIsShortAndStays(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceNetwork, Status: http.StatusServiceUnavailable,
	})
	texts := map[string]bool{}
	for range 3 {
		_, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", s.now(service), []*v1.Node{node})
		if err == nil {
			t.Fatal("the Service is served without Neutron")
		}
		texts[err.Error()] = true
		now.Step(time.Minute)
	}
	for text := range texts {
		if len(texts) > 1 || !strings.HasPrefix(text, "Neutron: 503 Service Unavailable") ||
			strings.ContainsAny(text, "{}") || strings.Contains(text, "://") {
			t.Errorf("an error of %d is %q", len(texts), text)
		}
	}
}

// A field that is tagged as chosen fails here until refusals of its value name the setting.
func TestRefused_EachFieldThatASettingChooses_IsNamedByTheSetting(t *testing.T) {
	// A newer option has the name of the field.
	older := map[string]string{
		"provider": "lb-provider", "lb_algorithm": "lb-method", "subnet_id": "member-subnet-id",
		"vip_port_id": "port-id", "vip_subnet_id": "subnet-id", "vip_network_id": "network-id",
	}
	var refusable []string
	for _, each := range (settings.Settings{}).Refusable() {
		refusable = append(refusable, each.Option)
	}
	for _, object := range []reflect.Type{
		reflect.TypeFor[octavia.LoadBalancer](), reflect.TypeFor[octavia.Listener](),
		reflect.TypeFor[octavia.Pool](), reflect.TypeFor[octavia.Monitor](),
		reflect.TypeFor[octavia.Member](),
	} {
		for _, field := range reflect.VisibleFields(object) {
			if !strings.Contains(field.Tag.Get("octavia"), "chosen") {
				continue
			}
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			option := cmp.Or(older[name], strings.ReplaceAll(name, "_", "-"))
			if option != "vip-address" && !slices.Contains(refusable, option) {
				t.Errorf("a refusal of %s of %s names no setting: declare %s refusable", name,
					object, option)
			}
		}
	}
}

// A text that names several settings is about the narrowest of them.
func TestRefused_MessageNamesSeveralSettings_TheNarrowestIsMeant(t *testing.T) {
	for name, c := range map[string]struct {
		settings settings.Settings
		want     string
	}{
		"port and subnet":    {settings.Settings{PortID: "same", SubnetID: "same"}, "port-id"},
		"subnet and network": {settings.Settings{SubnetID: "same", NetworkID: "same"}, "subnet-id"},
		"floating subnet and its network": {
			settings.Settings{FloatingSubnetID: "same", FloatingNetworkID: "same"},
			"floating-subnet-id",
		},
		"flavor and provider": {settings.Settings{FlavorID: "same", Provider: "same"}, "flavor-id"},
		"versions":            {settings.Settings{TLSVersions: []string{"same"}}, "tls-versions"},
		"several":             {settings.Settings{TLSVersions: []string{"a", "b"}}, ""},
		"member subnet":       {settings.Settings{DefaultMemberSubnetID: "same"}, "subnet-id"},
	} {
		r := &reconciler{
			request: request{service: &v1.Service{}}, settings: c.settings, of: &LoadBalancers{},
		}
		want := c.want
		if want != "" {
			want = "option " + want + " of cloud.conf"
		}
		if got := r.settingWith("same"); got != want {
			t.Errorf("%s: %q is named, want %q", name, got, want)
		}
	}
}

// Each refusal of the table has the message of the table, whatever service sends it.
func TestRefusals_EachSituation_HasItsReasonAndMessage(t *testing.T) {
	t.Parallel()
	annotation := func(name string) string { return "(annotation " + settings.Prefix + name + ")" }
	var mu sync.Mutex
	var messages []string
	// The cleanup follows the parallel rows.
	t.Cleanup(func() {
		for _, refusal := range events.OfRefusals() {
			switch refusal {
			case events.PortMissing, events.CreationFails:
				continue // see the tests named after port and member subnet
			case events.RoutesUsedUp, events.PairsUsedUp, events.CommandFails:
				continue // only routes and commands say it
			}
			shape := regexp.QuoteMeta(refusal.Notice("CAUSE", "SETTING").Message)
			shape = strings.NewReplacer("CAUSE", ".+", "SETTING", ".+").Replace(shape)
			if !slices.ContainsFunc(messages, regexp.MustCompile("^"+shape).MatchString) {
				t.Errorf("no row has a message like %q", shape)
			}
		}
	})
	for name, c := range map[string]struct {
		prepare func(*site)
		change  func(*v1.Service)
		reason  string
		// want are parts of the message.
		want []string
	}{
		"subnet": {
			change: annotations("subnet-id", unknownID), reason: "LoadBalancerSettingRefused",
			want: []string{
				"Octavia: 400 Subnet " + unknownID + " not found ",
				" not found " + annotation("subnet-id") + "; correct it",
			},
		},
		"subnet of cloud.conf": {
			prepare: func(s *site) { s.defaults.LoadBalancer.SubnetID = unknownID },
			reason:  "LoadBalancerSettingRefused",
			want:    []string{"(option subnet-id of cloud.conf); correct it"},
		},
		"subnet of a class": {
			prepare: func(s *site) {
				s.defaults.Classes = map[string]cloudconf.LoadBalancerClass{
					"gold": {SubnetID: unknownID},
				}
			},
			change: annotations("class", "gold"), reason: "LoadBalancerSettingRefused",
			want: []string{`(option subnet-id of [LoadBalancerClass "gold"] in cloud.conf)`},
		},
		"network": {
			change: annotations("network-id", unknownID), reason: "LoadBalancerSettingRefused",
			want: []string{"Octavia: 400 Network " + unknownID, annotation("network-id")},
		},
		"flavor": {
			change: annotations("flavor-id", unknownID), reason: "LoadBalancerSettingRefused",
			want: []string{"Octavia: 4", annotation("flavor-id")},
		},
		"availability zone": {
			change: annotations("availability-zone", "mars"), reason: "LoadBalancerSettingRefused",
			want: []string{"Octavia: 400 ", annotation("availability-zone") + "; correct it"},
		},
		"quota of listeners": {
			prepare: func(s *site) { s.SetLoadBalancerQuota(openstacktest.QuotaListener, 0) },
			reason:  "QuotaExceeded",
			want:    []string{"Octavia: 403 Quota has been met", "(Listener); raise the quota"},
		},
		"floating network": {
			change: annotations("floating-network-id", unknownID),
			reason: "LoadBalancerSettingRefused",
			want:   []string{"Neutron: 404 ", unknownID, annotation("floating-network-id")},
		},
		"floating subnet": {
			change: annotations("floating-subnet-id", unknownID),
			reason: "LoadBalancerSettingRefused",
			want:   []string{"Neutron: 4", unknownID, annotation("floating-subnet-id")},
		},
		"network of the floating subnet": {
			prepare: func(s *site) {
				apart := s.AddNetwork(
					openstacktest.Network{Name: "apart", External: true, Shared: true})
				s.AddSubnet(openstacktest.Subnet{
					ID: unknownID, NetworkID: apart, CIDR: "198.51.100.0/24",
				})
			},
			change: annotations("floating-subnet-id", unknownID),
			reason: "LoadBalancerSettingRefused",
			want: []string{
				"Neutron: 404 External network ",
				annotation("floating-subnet-id") + "; connect the router of the subnet",
			},
		},
		"no router": {
			prepare: func(s *site) {
				apart := s.AddNetwork(openstacktest.Network{Name: "apart"})
				s.defaults.LoadBalancer.SubnetID = s.AddSubnet(
					openstacktest.Subnet{NetworkID: apart, CIDR: "10.9.0.0/16"})
			},
			reason: "LoadBalancerSettingRefused",
			want: []string{
				"Neutron: 404 External network ", "; connect the router of the subnet",
			},
		},
		"address": {
			change: func(s *v1.Service) { s.Spec.LoadBalancerIP = "203.0.113.77" },
			reason: "FloatingIPUnavailable",
			want: []string{
				"Neutron: 403 ", "(spec.loadBalancerIP 203.0.113.77); request the address of",
			},
		},
		"port": {
			change: annotations("port-id", unknownID), reason: "LoadBalancerSettingRefused",
			want: []string{
				"Neutron: port " + unknownID + " does not exist ",
				annotation("port-id") + "; correct",
			},
		},
		"certificate": {
			change: annotations("default-tls-container-ref",
				"https://barbican/v1/secrets/"+unknownID),
			reason: "CertificateNotFound",
			want: []string{
				"Barbican: no container or secret with the reference https://barbican/v1/secrets/",
				annotation("default-tls-container-ref") + "; correct it",
			},
		},
		"floating subnets by a pattern": {
			change: annotations("floating-subnet", "none-*"), reason: "UnsupportedConfiguration",
			want: []string{`has a name matching floating-subnet "none-*"; correct that`},
		},
		"certificate that Octavia cannot read": {
			prepare: func(s *site) { s.defaults.LoadBalancer.ContainerStore = "external" },
			change: annotations("default-tls-container-ref",
				"https://barbican/v1/secrets/"+unknownID),
			reason: "LoadBalancerSettingRefused",
			want: []string{
				"Octavia: 400 Could not retrieve certificate",
				annotation("default-tls-container-ref") + "; correct it",
			},
		},
		"provider": {
			change: annotations("lb-provider", "nope"), reason: "LoadBalancerSettingRefused",
			want: []string{"Octavia: 400 Provider 'nope' ", annotation("lb-provider")},
		},
		"algorithm of another provider": {
			prepare: func(s *site) {
				s.Inject(openstacktest.Fault{
					Operation: "loadbalancer_create", Status: http.StatusNotImplemented,
					Message: "Provider 'amphora' does not support a requested option: Amphora " +
						"provider does not support SOURCE_IP_PORT algorithm.",
				})
			},
			change: annotations("lb-method", "SOURCE_IP_PORT"),
			reason: "LoadBalancerSettingRefused",
			want:   []string{"Octavia: 501 Provider 'amphora' does not ", annotation("lb-method")},
		},
		"delay of a monitor for UDP": {
			prepare: func(s *site) { s.defaults.LoadBalancer.CreateMonitor = true },
			change: func(s *v1.Service) {
				annotations("health-monitor-delay", "2", "health-monitor-timeout", "1")(s)
				s.Spec.Ports[0].Protocol = v1.ProtocolUDP
			},
			reason: "LoadBalancerSettingRefused",
			want: []string{
				"Octavia: 400 Validation failure: The request delay value 2 should be larger ",
				annotation("health-monitor-delay") + "; correct it",
			},
		},
		"delay of cloud.conf for a monitor for UDP": {
			prepare: func(s *site) {
				s.defaults.LoadBalancer.CreateMonitor = true
				s.defaults.LoadBalancer.MonitorDelay = 2 * time.Second
				s.defaults.LoadBalancer.MonitorTimeout = time.Second
			},
			change: func(s *v1.Service) { s.Spec.Ports[0].Protocol = v1.ProtocolUDP },
			reason: "LoadBalancerSettingRefused",
			want:   []string{"(option monitor-delay of cloud.conf); correct it"},
		},
		"address of the VIP": {
			prepare: func(s *site) { s.defaults.LoadBalancer.InternalLB = true },
			change:  func(s *v1.Service) { s.Spec.LoadBalancerIP = "172.16.0.1" },
			reason:  "LoadBalancerSettingRefused",
			want: []string{
				"Octavia: 500 Provider 'amphora' reports error: IP address 172.16.0.1 is not a " +
					"valid IP for the specified subnet (spec.loadBalancerIP); correct it",
			},
		},
		"network without a subnet": {
			prepare: func(s *site) {
				s.defaults.LoadBalancer.SubnetID = ""
				s.defaults.LoadBalancer.NetworkID = s.AddNetwork(
					openstacktest.Network{Name: "empty"})
			},
			reason: "LoadBalancerSettingRefused",
			want: []string{
				"Octavia: 400 Validation failure: Supplied network does not contain a subnet ",
				"(option network-id of cloud.conf)",
			},
		},
		"additional subnet": {
			change: func(s *v1.Service) {
				annotations("additional-subnet-id", unknownID)(s)
				s.Spec.IPFamilies = []v1.IPFamily{v1.IPv4Protocol, v1.IPv6Protocol}
			},
			reason: "LoadBalancerSettingRefused",
			want: []string{
				"Octavia: 500 subnet not found ", annotation("additional-subnet-id"),
			},
		},
		"member subnet in the rules of a security group": {
			prepare: func(s *site) { s.defaults.LoadBalancer.ManageSecurityGroups = true },
			change:  annotations("member-subnet-id", unknownID),
			reason:  "LoadBalancerSettingRefused",
			want: []string{
				"Neutron: subnet " + unknownID + " does not exist, or the project does not see it ",
				annotation("member-subnet-id") + "; correct it",
			},
		},
		"certificate that Barbican denies": {
			prepare: func(s *site) {
				// The text is that of Barbican's source (barbican/api/__init__.py,
				// generate_safe_exception_message): the lab has no Barbican.
				s.Inject(openstacktest.Fault{
					Service: "key-manager", Status: http.StatusForbidden,
					Message: "Secret(s) retrieval attempt not allowed - please review your " +
						"user/project privileges",
				})
			},
			change: annotations("default-tls-container-ref",
				"https://barbican/v1/secrets/"+unknownID),
			reason: "CertificateNotFound",
			want: []string{
				"Barbican: 403 Secret(s) retrieval attempt not allowed - please review your " +
					"user/project privileges " + annotation("default-tls-container-ref") +
					"; correct it, or give",
			},
		},
		"no free floating IP": {
			prepare: func(s *site) {
				s.Inject(openstacktest.Fault{
					Operation: "floating_ip_create", Status: http.StatusConflict,
					Message: "No more IP addresses available on network " + s.external + ".",
				})
			},
			reason: "FloatingIPUnavailable",
			want: []string{
				"Neutron: 409 No more IP addresses available on network ",
				"(the external network); release addresses that",
			},
		},
		"quota of the VIP's port": {
			prepare: func(s *site) {
				s.Inject(openstacktest.Fault{
					Operation: "loadbalancer_create", Status: http.StatusInternalServerError,
					Message: "Provider 'amphora' reports error: Quota exceeded for resources: " +
						"['port'].\nNeutron server returns request_ids: ['req-" + unknownID + "']",
				})
			},
			reason: "QuotaExceeded",
			want: []string{
				"Octavia: 500 Provider 'amphora' reports error: Quota exceeded for resources: " +
					"['port'] (port); raise the quota",
			},
		},
		"quota of floating IPs": {
			prepare: func(s *site) { s.SetNetworkQuota("floatingip", 0) }, reason: "QuotaExceeded",
			want: []string{"Neutron: 409 Quota exceeded", "(floating IPs); raise the quota"},
		},
		"login": {
			prepare: func(s *site) {
				s.Inject(openstacktest.Fault{
					Service: openstacktest.ServiceIdentity, Status: http.StatusUnauthorized,
				})
			},
			reason: "RequestFailed",
			want: []string{
				": Keystone: 401 ", "; correct auth-url and the credentials in cloud.conf",
			},
		},
		"policy": {
			prepare: func(s *site) {
				s.Inject(openstacktest.Fault{
					Operation: "floating_ip_create", Status: http.StatusForbidden,
					Message: "rule:create_floatingip is disallowed by policy",
				})
			},
			reason: "RequestDenied",
			want: []string{
				": Neutron: 403 rule:create_floatingip is disallowed by policy; give the user of " +
					"cloud.conf the role for floating_ip_create",
			},
		},
		"policy of a list": {
			prepare: func(s *site) {
				s.Inject(openstacktest.Fault{
					Operation: "loadbalancer_list", Status: http.StatusForbidden,
					Message: "Policy does not allow this request to be performed.",
				})
			},
			reason: "RequestDenied",
			want: []string{
				": Octavia: 403 Policy does not allow this request to be performed; give the user " +
					"of cloud.conf the role for loadbalancer_list",
			},
		},
		"service that does not answer": {
			prepare: func(s *site) {
				s.Inject(openstacktest.Fault{
					Service: openstacktest.ServiceLoadBalancer,
					Status:  http.StatusServiceUnavailable,
				})
			},
			reason: "RequestFailed",
			want:   []string{": Octavia: 503 Service Unavailable; retrying"},
		},
		"quota of load balancers": {
			prepare: func(s *site) {
				s.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, 0)
			},
			reason: "QuotaExceeded",
			want:   []string{"Octavia: 403 ", "(Load Balancer); raise the quota"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, now := newTickingSite(t, openstacktest.WithProvisioning(5*time.Second))
			s.defaults.LoadBalancer.SubnetID = s.subnet
			if c.prepare != nil {
				c.prepare(s)
			}
			p, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			if c.change != nil {
				c.change(service)
				s.update(service)
			}
			mark := s.mark()
			err := p.attend(now, time.Minute, service, node)
			if err == nil {
				t.Fatal("the Service is served")
			}
			writes := 0
			for _, w := range s.writes(mark) {
				if !strings.HasSuffix(w, "/tags") {
					writes++
				}
			}
			if writes > 5 {
				t.Errorf("in the first minute the cloud got %d writes: %q", writes, s.writes(mark))
			}
			s.wantFewRequests(mark, mostRequests)
			warnings := s.said("Warning ")
			if c.reason == string(events.RequestFailed) && len(warnings) == 0 {
				// The service controller writes the event.
				warnings = []string{"Warning RequestFailed: " + err.Error()}
			}
			if len(warnings) != 1 || !strings.HasPrefix(warnings[0], "Warning "+c.reason+": ") {
				t.Fatalf("the warnings are %q, want one %s; the error is %v", warnings, c.reason,
					err)
			}
			mu.Lock()
			messages = append(messages, strings.TrimPrefix(warnings[0], "Warning "+c.reason+": "))
			mu.Unlock()
			for _, part := range c.want {
				if !strings.Contains(warnings[0], part) {
					t.Errorf("the warning is %q, want %q in it", warnings[0], part)
				}
			}
			if report := p.reported(); report.State == Waiting ||
				string(report.Reason) != c.reason {
				t.Errorf("the report is %+v", report)
			}
		})
	}
}
