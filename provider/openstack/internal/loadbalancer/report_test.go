package loadbalancer

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// reported returns the only report.
func (c *cluster) reported() Report {
	c.site.t.Helper()
	all := c.Reports()
	if len(all) != 1 {
		c.site.t.Fatalf("the reports are %+v, want one", all)
	}
	return all[0]
}

// pass reconciles once. The caller reads the result in the report.
func (c *cluster) pass(service *v1.Service, nodes ...*v1.Node) {
	c.site.t.Helper()
	_, err := c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", c.site.now(service), nodes)
	c.site.t.Logf("the pass returned %v", err)
}

// counts is an Observer for one Service.
type counts struct {
	// ages are the ages of the Services that were served for the first time.
	ages            []time.Duration
	found, repaired int
}

func (c *counts) Reconciled(string, error, time.Duration) {}

func (c *counts) Served(after time.Duration) { c.ages = append(c.ages, after) }

func (c *counts) Drifted() { c.found++ }

func (c *counts) Repaired() { c.repaired++ }

func TestReport_ServiceFromItsCreationToItsDeletion_FollowsEachPass(t *testing.T) {
	t.Parallel()
	s, now := newTickingSite(t, openstacktest.WithProvisioning(time.Hour))
	s.defaults.LoadBalancer.SubnetID = s.subnet
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	var counted counts
	c.config.Observer = &counted
	service := s.addService("web", 80)
	want := func(what string, state State, reason events.Reason, text string) Report {
		t.Helper()
		got := c.reported()
		if got.Namespace != "default" || got.Name != "web" || got.State != state ||
			got.Reason != reason || !strings.Contains(got.Message, text) {
			t.Fatalf("%s: the report is %+v; want %s, %s, %q", what, got, state, reason, text)
		}
		return got
	}

	created := now.Now()
	c.pass(service, node)
	want("creation", Waiting, events.Waiting, "PENDING_CREATE")
	now.Step(time.Minute)
	c.pass(service, node)
	waiting := want("creation", Waiting, events.Waiting, "PENDING_CREATE")
	if waiting.ID == "" || waiting.Provisioning != "PENDING_CREATE" ||
		waiting.Since.After(created.Add(time.Minute)) {
		t.Errorf("the waiting load balancer is %+v; it waits since %s", waiting, created)
	}
	now.Step(time.Hour)
	c.ensure(service, node)
	ready := want("served", Ready, events.Served, "")
	if !slices.Equal(ready.Addresses,
		[]string{s.now(service).Annotations[settings.AnnotationLoadBalancerAddress]}) ||
		ready.Provisioning != "ACTIVE" || ready.Operating != "ONLINE" ||
		ready.Since.Before(created.Add(time.Hour)) || ready.ComparedAt.IsZero() ||
		len(ready.Drift) > 0 {
		t.Errorf("the ready load balancer is %+v", ready)
	}
	c.pass(service, node)
	if ages := counted.ages; len(ages) != 1 || ages[0] < time.Hour || ages[0] > 2*time.Hour {
		t.Errorf("the times from Service to address are %v, want one of more than an hour", ages)
	}

	remove := s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: http.StatusInternalServerError,
	})
	now.Step(time.Minute)
	c.pass(service, node)
	want("Octavia fails", Degraded, events.RequestFailed, "500")
	remove()
	changed := s.now(service)
	changed.Spec.Ports[0].Protocol = "DCCP"
	s.update(changed)
	c.pass(service, node)
	want("protocol", Refused, events.Unsupported, "DCCP")

	gone := s.now(service)
	at := gone.CreationTimestamp
	gone.DeletionTimestamp = &at
	if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", gone); !isWait(err) {
		t.Fatalf("the deletion returned %v, want a wait", err)
	}
	want("deletion", Waiting, events.Waiting, "being deleted")
	now.Step(time.Hour)
	if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", gone); err != nil {
		t.Fatal(err)
	}
	if all := c.Reports(); len(all) > 0 {
		t.Errorf("the reports after the deletion are %+v", all)
	}
	if counted.found+counted.repaired > 0 {
		t.Errorf("changes of the Service count as drift: %+v", counted)
	}
}

func TestReport_LoadBalancerDrifts_ListsTheRepair(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	var counted counts
	c.config.Observer = &counted
	service := s.addService("web", 80)
	c.ensure(service, node)
	lb := s.LoadBalancers()[0]
	if err := s.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members[0].Weight = 7
	}); err != nil {
		t.Fatal(err)
	}
	compare := func() error {
		_, err := c.LoadBalancers.ensure(t.Context(), request{
			cluster: "kubernetes", service: s.now(service), nodes: []*v1.Node{node},
			mode: mode{create: true, repair: true, deep: true},
		})
		return err
	}
	remove := s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: http.StatusForbidden,
		Match: func(c openstacktest.Call) bool { return c.Method != http.MethodGet },
	})
	if err := compare(); err == nil {
		t.Fatal("the repair succeeded while Octavia refuses changes")
	}
	if counted.found != 1 || counted.repaired != 0 {
		t.Errorf("after a repair that failed the counts are %+v, want one found", counted)
	}
	remove()
	for range 2 {
		if err := compare(); err != nil {
			t.Fatal(err)
		}
	}
	if counted.found != 1 || counted.repaired != 1 {
		t.Errorf("after the repair the counts are %+v, want one found and one repaired", counted)
	}
	got := c.reported()
	if got.State != Ready || len(got.Drift) != 1 || !strings.Contains(got.Drift[0], "member") ||
		got.Drifted.IsZero() {
		t.Errorf("the report is %+v, want the change of a member as drift", got)
	}
}

func TestReport_LoadBalancerInError_IsDegraded(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 80)
	c.ensure(service, node)
	if err := s.ChangeLoadBalancer(s.LoadBalancers()[0].ID,
		func(lb *openstacktest.LoadBalancer) { lb.ProvisioningStatus = "ERROR" }); err != nil {
		t.Fatal(err)
	}
	s.Inject(openstacktest.Fault{
		Operation: "loadbalancer_failover", Status: http.StatusForbidden,
	})
	if err := c.forgetList(); err != nil {
		t.Fatal(err)
	}
	c.pass(service, node)
	if got := c.reported(); got.State != Degraded || got.Reason != events.InError ||
		got.Provisioning != "ERROR" {
		t.Errorf("the report is %+v, want a degraded load balancer in ERROR", got)
	}
}
