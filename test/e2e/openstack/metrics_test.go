package openstack_test

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/metrics/metricstest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// metric is the sum of the series with the labels; see [metricstest.Value].
func metric(t *testing.T, from prometheus.Gatherer, name string, labels ...string) float64 {
	t.Helper()
	sum, _ := metricstest.Value(t, from, name, labels...)
	return sum
}

func TestMetrics_OfOCCMAndFxccm_CountRequestsToTheCloud(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.Inject(openstacktest.Fault{Operation: "server_get", Status: 500, Times: 1})
	m := s.addServer("metrics-1")
	r := ready(t, s, named("measured"), configured(func(c *cloudconf.Config) {
		c.Route.RouterID = s.router
	}))
	notReady(t, s.addServer("metrics-2"))
	tainted(t, m.name, ccmtest.NodePodCIDRs("10.244.1.0/24"))
	s.waitRoute("10.244.1.0/24", s.address(m, 4))
	s.waitCalls(0, 2, operations("server_get"),
		"the server of the node that is not ready is requested")

	families := metricstest.Gather(t, r.metrics)
	for _, name := range []string{
		"openstack_api_request_duration_seconds", "openstack_api_requests_total",
		"openstack_api_request_errors_total",
		"cloudprovider_openstack_reconcile_duration_seconds",
		"cloudprovider_openstack_reconcile_total",
		"cloudprovider_openstack_reconcile_errors_total",
		"fxccm_openstack_request_duration_seconds", "fxccm_openstack_requests_in_flight",
		"fxccm_openstack_request_retries_total",
		"fxccm_openstack_logins_total", "fxccm_openstack_rate_limit_wait_seconds",
		"fxccm_openstack_lookups_total",
		"fxccm_openstack_absent_instances", "fxccm_openstack_absence_refused_total",
	} {
		if families[name] == nil {
			t.Errorf("the metric %s is missing", name)
		}
	}
	if retried := metric(t, r.metrics, "fxccm_openstack_request_retries_total",
		"manager", "measured", "reason", "500"); retried != 1 {
		t.Errorf("%v requests were made again for a 500, want 1", retried)
	}

	// OCCM's metrics outlive the term. No more requests are sent, so the counts can be compared.
	r.stop()
	requests := map[string]float64{}
	for operation, calls := range s.Counts() {
		request := map[string]string{"router_add_extraroutes": "router_update"}[operation]
		if request == "" {
			request = operation
		}
		if operation != "token_create" {
			requests[request] += float64(calls)
		}
	}
	for request, calls := range requests {
		if counted := metric(t, r.metrics, "openstack_api_requests_total",
			"request", request); counted != calls {
			t.Errorf("%v requests %s were counted, and %v have reached the cloud", counted, request,
				calls)
		}
	}
	if sum := metric(t, r.metrics, "openstack_api_requests_total"); sum == 0 {
		t.Error("no request was counted")
	}
}
