package loadbalancer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

	changed := s.now(service)
	changed.Spec.Ports[0].Protocol, changed.Generation = "DCCP", 2
	s.update(changed)
	pass(time.Minute)
	want("refused", 2, events.Unsupported, "DCCP")
	// Another leader finds the condition, and its start.
	since := c.reported().Since
	c = s.begin("cluster-1", s.kube)
	pass(time.Minute)
	want("refused, in the next term", 2, events.Unsupported, "DCCP")
	if got := c.reported().Since; !got.Equal(since.Truncate(time.Second)) {
		t.Errorf("in the next term it waits since %s, want %s", got, since)
	}
	changed = s.now(service)
	changed.Spec.Ports[0].Protocol = v1.ProtocolTCP
	s.update(changed)
	pass(time.Minute)
	want("served again", 3, "", "")
	pass(time.Minute)
	want("still served", 3, "", "")
	if !meta.IsStatusConditionTrue(s.now(service).Status.Conditions, "example.com/Other") {
		t.Error("the condition of another controller is gone")
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
	// Upstream deletes only what exists.
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
