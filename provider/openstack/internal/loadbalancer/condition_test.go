package loadbalancer

import (
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// conditionWrites counts the patches of statuses that reached the API server.
func (s *site) conditionWrites() (count int) {
	for _, action := range s.kube.Actions() {
		if action.Matches("patch", "services") && action.GetSubresource() == "status" {
			count++
		}
	}
	return count
}

func TestCondition_ServiceIsNotServed_IsWrittenOncePerChangeAndRemovedAtTheEnd(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	want := func(what string, writes int, reason events.Reason, text string) {
		t.Helper()
		got := meta.FindStatusCondition(s.now(service).Status.Conditions, ConditionType)
		switch {
		case s.conditionWrites() != writes:
			t.Fatalf("%s: %d writes, want %d in all", what, s.conditionWrites(), writes)
		case reason == "" && got != nil:
			t.Fatalf("%s: the condition is %+v, want none", what, got)
		case reason == "":
		case got == nil || got.Status != metav1.ConditionFalse || got.Reason != string(reason) ||
			!strings.Contains(got.Message, text) || got.LastTransitionTime.IsZero():
			t.Fatalf("%s: the condition is %+v, want %s, %q", what, got, reason, text)
		}
	}
	pass := func(age time.Duration) {
		t.Helper()
		now.Step(age)
		c.pass(service, node)
	}
	other := s.now(service)
	other.Status.Conditions = []metav1.Condition{{Type: "example.com/Other", Status: "True"}}
	s.update(other)

	c.ensure(service, node)
	want("served", 0, "", "")

	remove := s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: http.StatusInternalServerError,
	})
	pass(time.Minute)
	want("Octavia fails", 0, "", "")
	pass(time.Minute)
	want("Octavia fails for long", 1, events.RequestFailed, "500")
	pass(time.Minute)
	want("Octavia still fails", 1, events.RequestFailed, "500")
	remove()
	remove = s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: http.StatusForbidden,
		Message: "Policy does not allow this request to be performed.",
	})
	pass(time.Minute)
	want("Octavia fails for another cause", 2, events.RequestDenied, "403 Policy")
	remove()

	changed := s.now(service)
	changed.Spec.Ports[0].Protocol, changed.Generation = "DCCP", 2
	s.update(changed)
	pass(time.Minute)
	want("refused", 3, events.Unsupported, "DCCP")
	// Another leader finds the condition, and its start.
	since := c.reported().Since
	c = s.begin("cluster-1", s.kube)
	pass(time.Minute)
	want("refused, in the next term", 3, events.Unsupported, "DCCP")
	if got := c.reported().Since; !got.Equal(since.Truncate(time.Second)) {
		t.Errorf("in the next term it waits since %s, want %s", got, since)
	}
	changed = s.now(service)
	changed.Spec.Ports[0].Protocol = v1.ProtocolTCP
	s.update(changed)
	pass(time.Minute)
	want("served again", 4, "", "")
	pass(time.Minute)
	want("still served", 4, "", "")
	if !meta.IsStatusConditionTrue(s.now(service).Status.Conditions, "example.com/Other") {
		t.Error("the condition of another controller is gone")
	}
}

func TestCondition_CannotBeWritten_IsLoggedOnce(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	var lines atomic.Int32
	c.config.Logger = funcr.New(func(_, line string) {
		if strings.Contains(line, "Condition not written") {
			lines.Add(1)
		}
	}, funcr.Options{})
	s.kube.PrependReactor("patch", "services",
		func(action clienttesting.Action) (bool, runtime.Object, error) {
			return action.GetSubresource() == "status", nil, errors.New("forbidden")
		})
	service := s.addService("web", 80)
	service.Spec.Ports[0].Protocol = "DCCP"
	s.update(service)
	for range 3 {
		c.pass(service, node)
		now.Step(time.Minute)
	}
	if n := lines.Load(); n != 1 {
		t.Errorf("the log has %d lines, want one", n)
	}
}

func TestCondition_AnotherClientChangesIt_IsWrittenAgain(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	service.Spec.Ports[0].Protocol = "DCCP"
	s.update(service)
	c.pass(service, node)
	changed := s.now(service)
	if len(changed.Status.Conditions) != 1 {
		t.Fatalf("the conditions are %+v, want one", changed.Status.Conditions)
	}
	changed.Status.Conditions = nil
	s.update(changed)
	now.Step(time.Minute)
	c.pass(service, node)
	if got := s.now(service).Status.Conditions; len(got) != 1 {
		t.Errorf("after another client removed it, the conditions are %+v", got)
	}
	writes := s.conditionWrites()
	for range 3 {
		now.Step(time.Minute)
		c.pass(service, node)
	}
	if got := s.conditionWrites(); got != writes {
		t.Errorf("while nothing changed, it was written %d times more", got-writes)
	}
}

func TestCondition_ServiceNeedsNoLoadBalancerAnyMore_IsRemoved(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	service.Spec.Ports[0].Protocol = "DCCP"
	s.update(service)
	c.pass(service, node)
	changed := s.now(service)
	if len(changed.Status.Conditions) != 1 {
		t.Fatalf("the conditions are %+v, want one", changed.Status.Conditions)
	}
	changed.Spec.Type = v1.ServiceTypeClusterIP
	s.update(changed)
	// The service controller deletes only what exists.
	if _, exists, err := c.GetLoadBalancer(t.Context(), "kubernetes",
		s.now(changed)); err != nil || !exists {
		t.Fatalf("exists: %t, %v; want true because of the condition", exists, err)
	}
	if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", s.now(changed)); err != nil {
		t.Fatal(err)
	}
	if left := s.now(changed).Status.Conditions; len(left) > 0 {
		t.Errorf("the conditions are %+v, want none", left)
	}
}

func TestCondition_ServedServiceHasDefects_IsTrueWithTheGravestUntilTheyGo(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t)
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	want := func(what string, writes int, reason events.Reason, texts ...string) {
		t.Helper()
		got := meta.FindStatusCondition(s.now(service).Status.Conditions, ConditionType)
		report := c.reported()
		if s.conditionWrites() != writes || report.State != Ready || report.Reason != reason {
			t.Fatalf("%s: %d writes, want %d; the report is %+v, want ready with %s", what,
				s.conditionWrites(), writes, report, reason)
		}
		if reason == events.Served {
			if got != nil || report.Message != "" {
				t.Fatalf("%s: the condition is %+v, the report %+v; want none", what, got, report)
			}
			return
		}
		if got == nil || got.Status != metav1.ConditionTrue || got.Reason != string(reason) ||
			got.Message != report.Message {
			t.Fatalf("%s: the condition is %+v, want True with %s", what, got, reason)
		}
		for _, text := range texts {
			if !strings.Contains(got.Message, text) {
				t.Errorf("%s: the message is %q, want %q in it", what, got.Message, text)
			}
		}
	}
	annotate := func(annotations map[string]string) {
		t.Helper()
		changed := s.now(service)
		for key, value := range annotations {
			if changed.Annotations == nil {
				changed.Annotations = map[string]string{}
			}
			if changed.Annotations[key] = value; value == "" {
				delete(changed.Annotations, key)
			}
		}
		s.update(changed)
		c.ensure(service, node)
	}
	c.ensure(service, node)
	want("served", 0, events.Served)

	const unknown = "loadbalancer.openstack.org/no-such-setting"
	annotate(map[string]string{unknown: "1"})
	want("with a defect", 1, events.InvalidAnnotation, "no-such-setting")
	before := s.conditionWrites()
	for range 3 {
		now.Step(time.Minute)
		c.ensure(service, node)
	}
	want("in the steady state", before, events.InvalidAnnotation, "no-such-setting")

	policy := s.now(service)
	policy.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyLocal
	policy.Spec.HealthCheckNodePort = 30999
	s.update(policy)
	annotate(map[string]string{"loadbalancer.openstack.org/enable-health-monitor": "false"})
	want("with two defects", 2, events.InvalidAnnotation, "no-such-setting",
		"; LoadBalancerLocalWithoutMonitor: ")

	// Another leader finds the condition, and does not wait since the Service is served.
	c = s.begin("cluster-1", s.kube)
	c.ensure(service, node)
	want("in the next term", 2, events.InvalidAnnotation)

	policy = s.now(service)
	policy.Spec.ExternalTrafficPolicy = v1.ServiceExternalTrafficPolicyCluster
	policy.Spec.HealthCheckNodePort = 0
	s.update(policy)
	annotate(map[string]string{
		unknown: "", "loadbalancer.openstack.org/enable-health-monitor": "",
	})
	want("without defects", 3, events.Served)
}

// Each Service is served, and the condition names what it requests and does not get.
func TestCondition_EachLastingDefect_IsTrueWithReasonAndMessage(t *testing.T) {
	t.Parallel()
	ranges := func(all ...string) func(*site, *v1.Service) {
		return func(_ *site, service *v1.Service) { service.Spec.LoadBalancerSourceRanges = all }
	}
	for _, c := range []struct {
		reason  events.Reason
		options []openstacktest.Option
		// newSite is by default the function of this name.
		newSite func(*testing.T, ...openstacktest.Option) *site
		// change changes the Service after it was served.
		change func(*site, *v1.Service)
		want   string
	}{
		{
			reason:  events.ForcedInternal,
			newSite: newIsolatedSite,
			want: "no external network found for a floating IP; the load balancer has only its " +
				"internal address; set floating-network-id in [LoadBalancer] of cloud.conf or by " +
				"annotation, or make the Service internal",
		},
		{
			reason:  events.SourceRangesIgnored,
			options: []openstacktest.Option{openstacktest.WithLoadBalancerVersion(11)},
			change:  ranges("10.0.0.0/8"),
			want: "spec.loadBalancerSourceRanges is ignored, and every client may connect: it " +
				"needs Octavia API 2.12, but the cloud has 2.11; upgrade Octavia, or restrict " +
				"clients by other means",
		},
		{
			reason: events.SourceRangesLeftOut, change: ranges("10.0.0.0/8", "fd00::/8"),
			want: "source ranges fd00::/8 have no effect, because the load balancer has only IPv4 " +
				"addresses; remove them, or give it the other family",
		},
		{
			reason: events.Immutable,
			change: func(s *site, service *v1.Service) {
				other := s.AddSubnet(
					openstacktest.Subnet{NetworkID: s.network, CIDR: "10.1.0.0/16"})
				annotations("subnet-id", other)(service)
			},
			want: `; annotation loadbalancer.openstack.org/recreate: "true" recreates it`,
		},
	} {
		t.Run(string(c.reason), func(t *testing.T) {
			t.Parallel()
			build := newSite
			if c.newSite != nil {
				build = c.newSite
			}
			s := build(t, c.options...)
			s.defaults.LoadBalancer.SubnetID = s.subnet
			p, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			p.ensure(service, node)
			if c.change != nil {
				service = s.now(service)
				c.change(s, service)
				s.update(service)
				p.ensure(service, node)
			}
			got := meta.FindStatusCondition(s.now(service).Status.Conditions, ConditionType)
			if got == nil || got.Status != metav1.ConditionTrue ||
				got.Reason != string(c.reason) || !strings.HasSuffix(got.Message, c.want) {
				t.Fatalf("the condition is %+v, want True, %s, %q", got, c.reason, c.want)
			}
			if r := p.reported(); r.State != Ready || r.Reason != c.reason {
				t.Errorf("the report is %+v, want ready with %s", r, c.reason)
			}
		})
	}
}

func TestDefects_SeveralReasons_TheGravestIsFirst(t *testing.T) {
	t.Parallel()
	warn := func(reason events.Reason) events.Notice {
		return events.Notice{Reason: reason, Message: "about " + string(reason), Warning: true}
	}
	written := writtenNotices{}
	written.update(aboutSettings, []events.Notice{warn(events.InvalidAnnotation)}, time.Time{})
	written.update(aboutDesired, []events.Notice{
		warn(events.ForcedInternal), warn(events.SourceRangesIgnored),
		{Reason: events.FloatingIPSkipped, Message: "no warning"},
	}, time.Time{})
	report := Report{}
	report.addDefects(written.defects())
	const message = "about LoadBalancerSourceRangesIgnored; " +
		"LoadBalancerForcedInternal: about LoadBalancerForcedInternal; " +
		"InvalidAnnotation: about InvalidAnnotation"
	if report.Reason != events.SourceRangesIgnored || report.Message != message {
		t.Errorf("got %s, %q; want %q", report.Reason, report.Message, message)
	}
}
