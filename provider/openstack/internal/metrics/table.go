// Package metrics has the Prometheus metrics of the OpenStack provider: fxccm's own, and those of
// openstack-cloud-controller-manager (OCCM) for existing dashboards.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// Table lists all metrics.
func Table() []metrics.Metric { return newCollectors().Table() }

func (c *collectors) addRequests() {
	buckets := []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60}
	c.requestDuration = c.Histogram("fxccm_openstack_request_duration_seconds",
		"Duration of requests to OpenStack, including the response body. Each retry and "+
			"each page of a list counts. The wait for the client-side rate limit does not "+
			"count.",
		buckets, metrics.ManagerLabel(), serviceLabel(), operationLabel(), metrics.Label{
			Name: "code",
			Help: "The status of the response; timeout if none came in time, canceled if the " +
				"caller or the term ended, refused if the term was over, and error for other " +
				"failures, such as a refused connection.",
		})
	c.requestsInFlight = c.Gauge("fxccm_openstack_requests_in_flight",
		"Requests to OpenStack in flight.",
		metrics.ManagerLabel(), serviceLabel())
	c.requestRetries = c.Counter("fxccm_openstack_request_retries_total",
		"Retries of requests to OpenStack after transient failures.",
		metrics.ManagerLabel(), metrics.Label{
			Name: "reason", Values: retryReasons(),
			Help: "The result of the previous attempt: the status of its response (409: the " +
				"object was immutable), connection if the response was incomplete, or timeout.",
		})
	c.logins = c.Counter("fxccm_openstack_logins_total",
		"Logins to OpenStack.",
		metrics.ManagerLabel(), metrics.Label{
			Name: "result", Values: loginResults(),
			Help: "ok if Keystone issued a token, refused if it refused to, failed if it was " +
				"unavailable.",
		})
	buckets = []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60}
	c.rateLimitWait = c.Histogram("fxccm_openstack_rate_limit_wait_seconds",
		"Time that requests to OpenStack waited for the client-side rate limit, and for the "+
			"turn of their cluster if clusters share a request budget. Requests that "+
			"are sent at once are not counted.",
		buckets, metrics.ManagerLabel())
}

func (c *collectors) addObjects() {
	c.lookups = c.Counter("fxccm_openstack_lookups_total",
		"Lookups of instances.",
		metrics.ManagerLabel(), metrics.Label{
			Name: "source", Values: lookupSources(),
			Help: "The source of the result: the cache, a list of all servers, or a direct " +
				"request for one server.",
		})
	c.absentInstances = c.Gauge("fxccm_openstack_absent_instances",
		"Nodes whose instances OpenStack does not find.",
		metrics.ManagerLabel())
	c.absenceRefused = c.Counter("fxccm_openstack_absence_refused_total",
		"Deletions of nodes that the mass deletion guard prevented, because too many "+
			"instances were absent at once.",
		metrics.ManagerLabel())
	c.serviceToAddress = c.Histogram("fxccm_openstack_service_to_address_seconds",
		"Time from the creation of a Service until its load balancer is ready for the first "+
			"time. Services older than an hour at their first reconcile do not count.",
		[]float64{1, 2.5, 5, 10, 20, 30, 60, 120, 300, 600, 1800}, metrics.ManagerLabel())
	c.drift = c.Counter("fxccm_openstack_load_balancer_drift_total",
		"Load balancers that differed although neither their Service nor a node had changed.",
		metrics.ManagerLabel(), metrics.Label{
			Name: "stage", Values: driftStages(),
			Help: "found when a comparison shows drift, repaired when the load balancer is as the " +
				"Service requests it again.",
		})
	c.quotaLimit = c.Gauge("fxccm_openstack_quota_limit",
		"How many of a resource the project may have. A resource without a limit, or whose limit "+
			"the cloud does not report, has no series. The limit is read every 30 minutes.",
		metrics.ManagerLabel(), regionLabel(), resourceLabel())
	c.quotaUsed = c.Gauge("fxccm_openstack_quota_used",
		"How many of a resource the project has, whoever created them.",
		metrics.ManagerLabel(), regionLabel(), resourceLabel())
}

func (c *collectors) addOCCM() {
	c.occmRequestDuration = c.Histogram("openstack_api_request_duration_seconds",
		"Duration of requests to OpenStack, under OCCM's name.",
		prometheus.DefBuckets, requestLabel())
	c.occmRequests = c.Counter("openstack_api_requests_total",
		"Requests to OpenStack, under OCCM's name. Unlike in OCCM, each page of a list and "+
			"each retry counts.",
		requestLabel())
	c.occmRequestErrors = c.Counter("openstack_api_request_errors_total",
		"Requests to OpenStack that failed, under OCCM's name. Unlike in OCCM, a 404 of a "+
			"read or a deletion is not an error.",
		requestLabel())
	// The same as OCCM's, so that heat maps can show both.
	buckets := []float64{
		0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20, 22.5, 25, 27.5,
		30, 50, 75, 100, 1000,
	}
	c.occmReconcileDuration = c.Histogram("cloudprovider_openstack_reconcile_duration_seconds",
		"Duration of calls that change load balancers, under OCCM's name.",
		buckets, reconcileLabel())
	c.occmReconciles = c.Counter("cloudprovider_openstack_reconcile_total",
		"Calls that change load balancers, under OCCM's name.",
		reconcileLabel())
	c.occmReconcileErrors = c.Counter("cloudprovider_openstack_reconcile_errors_total",
		"Failed calls that change load balancers, under OCCM's name.",
		reconcileLabel())
}

func regionLabel() metrics.Label {
	return metrics.Label{
		Name: "region",
		Help: "The region of the cloud configuration; empty if it names none.",
	}
}

func resourceLabel() metrics.Label {
	return metrics.Label{
		Name:   "resource",
		Help:   "The resource, as the cloud's quotas name it.",
		Values: quotaResources(),
	}
}

func serviceLabel() metrics.Label {
	return metrics.Label{
		Name:   "service",
		Help:   "The service's type, as in Keystone's catalog.",
		Values: []string{"compute", "identity", "key-manager", "load-balancer", "network"},
	}
}

func operationLabel() metrics.Label {
	return metrics.Label{
		Name: "operation",
		Help: "The operation as `<resource>_<verb>`, such as `server_list`. Unknown operations " +
			"are `<service>_other`.",
	}
}

func requestLabel() metrics.Label {
	return metrics.Label{
		Name: "request",
		Help: "The operation as `<resource>_<verb>`. The requests of all Managers count " +
			"together. Logins do not count.",
	}
}

func reconcileLabel() metrics.Label {
	return metrics.Label{
		Name:   "operation",
		Help:   "The kind of call. The calls of all Managers count together.",
		Values: reconcileOperations(),
	}
}
