// Package metrics has the Prometheus metrics of the OpenStack provider: fxccm's own, and those of
// openstack-cloud-controller-manager (OCCM) for existing dashboards.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// Table lists all metrics. The collectors are created from it.
func Table() []metrics.Metric {
	return []metrics.Metric{
		requestDuration(), requestsInFlight(), requestRetries(), logins(), rateLimitWait(),
		lookups(), absentInstances(), absenceRefused(),
		occmRequestDuration(), occmRequests(), occmRequestErrors(),
		occmReconcileDuration(), occmReconciles(), occmReconcileErrors(),
	}
}

func requestDuration() metrics.Metric {
	return metrics.Metric{
		Name: "fxccm_openstack_request_duration_seconds",
		Type: metrics.Histogram,
		Labels: []metrics.Label{managerLabel(), serviceLabel(), operationLabel(), {
			Name: "code",
			Help: "The status of the response; timeout if none came in time, cancelled if " +
				"the caller or the term ended, refused if " +
				"the term was over, and error for other failures, such as a refused connection.",
		}},
		Help: "Duration of requests to OpenStack, including the response body. Each retry and " +
			"each page of a list counts. " +
			"The wait for the client-side rate limit does not count.",
		Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
	}
}

func requestsInFlight() metrics.Metric {
	return metrics.Metric{
		Name:   "fxccm_openstack_requests_in_flight",
		Type:   metrics.Gauge,
		Labels: []metrics.Label{managerLabel(), serviceLabel()},
		Help:   "Requests to OpenStack in flight.",
	}
}

func requestRetries() metrics.Metric {
	return metrics.Metric{
		Name: "fxccm_openstack_request_retries_total",
		Type: metrics.Counter,
		Labels: []metrics.Label{managerLabel(), {
			Name: "reason",
			Help: "The result of the previous attempt: the status of its response (409: the " +
				"object was immutable), connection if the " +
				"response was incomplete, or timeout.",
			Values: retryReasons(),
		}},
		Help: "Retries of requests to OpenStack after transient failures.",
	}
}

func logins() metrics.Metric {
	return metrics.Metric{
		Name: "fxccm_openstack_logins_total",
		Type: metrics.Counter,
		Labels: []metrics.Label{managerLabel(), {
			Name: "result",
			Help: "ok if Keystone issued a token, refused if it refused to, failed if it was " +
				"unavailable.",
			Values: loginResults(),
		}},
		Help: "Logins to OpenStack.",
	}
}

func rateLimitWait() metrics.Metric {
	return metrics.Metric{
		Name:   "fxccm_openstack_rate_limit_wait_seconds",
		Type:   metrics.Histogram,
		Labels: []metrics.Label{managerLabel()},
		Help: "Time that requests to OpenStack waited for the client-side rate limit. " +
			"Requests that do not wait do not count.",
		Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60},
	}
}

func lookups() metrics.Metric {
	return metrics.Metric{
		Name: "fxccm_openstack_lookups_total",
		Type: metrics.Counter,
		Labels: []metrics.Label{managerLabel(), {
			Name: "source",
			Help: "The source of the result: the cache, a list of all servers, or a direct " +
				"request for one server.",
			Values: lookupSources(),
		}},
		Help: "Lookups of instances.",
	}
}

func absentInstances() metrics.Metric {
	return metrics.Metric{
		Name:   "fxccm_openstack_absent_instances",
		Type:   metrics.Gauge,
		Labels: []metrics.Label{managerLabel()},
		Help:   "Nodes whose instances OpenStack does not find.",
	}
}

func absenceRefused() metrics.Metric {
	return metrics.Metric{
		Name:   "fxccm_openstack_absence_refused_total",
		Type:   metrics.Counter,
		Labels: []metrics.Label{managerLabel()},
		Help: "Deletions of nodes that the mass deletion guard prevented, because too many " +
			"instances were absent at once.",
	}
}

func occmRequestDuration() metrics.Metric {
	return metrics.Metric{
		Name:    "openstack_api_request_duration_seconds",
		Type:    metrics.Histogram,
		Labels:  []metrics.Label{requestLabel()},
		Help:    "Duration of requests to OpenStack, under OCCM's name.",
		Buckets: prometheus.DefBuckets,
	}
}

func occmRequests() metrics.Metric {
	return metrics.Metric{
		Name:   "openstack_api_requests_total",
		Type:   metrics.Counter,
		Labels: []metrics.Label{requestLabel()},
		Help: "Requests to OpenStack, under OCCM's name. Unlike in OCCM, each page of a list " +
			"and each retry counts.",
	}
}

func occmRequestErrors() metrics.Metric {
	return metrics.Metric{
		Name:   "openstack_api_request_errors_total",
		Type:   metrics.Counter,
		Labels: []metrics.Label{requestLabel()},
		Help: "Requests to OpenStack that failed, under OCCM's name. Unlike in OCCM, a 404 of a " +
			"read or a " +
			"deletion is not an error.",
	}
}

func occmReconcileDuration() metrics.Metric {
	return metrics.Metric{
		Name:   "cloudprovider_openstack_reconcile_duration_seconds",
		Type:   metrics.Histogram,
		Labels: []metrics.Label{reconcileLabel()},
		Help:   "Duration of calls that change load balancers, under OCCM's name.",
		// The same as OCCM's, so that heat maps can show both.
		Buckets: []float64{
			0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20, 22.5, 25, 27.5,
			30, 50, 75, 100, 1000,
		},
	}
}

func occmReconciles() metrics.Metric {
	return metrics.Metric{
		Name:   "cloudprovider_openstack_reconcile_total",
		Type:   metrics.Counter,
		Labels: []metrics.Label{reconcileLabel()},
		Help:   "Calls that change load balancers, under OCCM's name.",
	}
}

func occmReconcileErrors() metrics.Metric {
	return metrics.Metric{
		Name:   "cloudprovider_openstack_reconcile_errors_total",
		Type:   metrics.Counter,
		Labels: []metrics.Label{reconcileLabel()},
		Help:   "Failed calls that change load balancers, under OCCM's name.",
	}
}

func managerLabel() metrics.Label {
	return metrics.Label{
		Name: "manager",
		Help: "The name of the Manager. Managers with the same name share series.",
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
