// Package metrics counts and times what the OpenStack provider does, as Prometheus metrics: fxccm's own, and those of
// openstack-cloud-controller-manager (OCCM), which dashboards of its users are made for.
package metrics

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/fxccm/fxccm/internal/metrics"
)

// Table lists all metrics, in the form of the Manager's. The collectors are made from it.
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
			Help: "The status of the answer; timeout if there was none in time, cancelled if the caller or the term ended, refused if " +
				"the term was over, and error for everything else, such as a connection that is refused.",
		}},
		Help: "Duration of requests to OpenStack, until the whole answer is there. A request that is made again counts again, and " +
			"each page of a list. What a request waits for the client's own rate limit does not count.",
		Buckets: []float64{0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60},
	}
}

func requestsInFlight() metrics.Metric {
	return metrics.Metric{
		Name:   "fxccm_openstack_requests_in_flight",
		Type:   metrics.Gauge,
		Labels: []metrics.Label{managerLabel(), serviceLabel()},
		Help:   "Requests to OpenStack that have not been answered yet.",
	}
}

func requestRetries() metrics.Metric {
	return metrics.Metric{
		Name: "fxccm_openstack_request_retries_total",
		Type: metrics.Counter,
		Labels: []metrics.Label{managerLabel(), {
			Name: "reason",
			Help: "What came of the request before: the status of its answer (409: what was to be changed was immutable), no complete " +
				"answer, or none in time.",
			Values: retryReasons(),
		}},
		Help: "Requests to OpenStack that were made again since OpenStack could not carry them out for the moment.",
	}
}

func logins() metrics.Metric {
	return metrics.Metric{
		Name: "fxccm_openstack_logins_total",
		Type: metrics.Counter,
		Labels: []metrics.Label{managerLabel(), {
			Name:   "result",
			Help:   "Whether Keystone issued a token, refused to, or could not be asked.",
			Values: loginResults(),
		}},
		Help: "Logins to OpenStack.",
	}
}

func rateLimitWait() metrics.Metric {
	return metrics.Metric{
		Name:    "fxccm_openstack_rate_limit_wait_seconds",
		Type:    metrics.Histogram,
		Labels:  []metrics.Label{managerLabel()},
		Help:    "Time that requests to OpenStack waited for the client's own rate limit. Those that need not wait do not count.",
		Buckets: []float64{0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60},
	}
}

func lookups() metrics.Metric {
	return metrics.Metric{
		Name: "fxccm_openstack_lookups_total",
		Type: metrics.Counter,
		Labels: []metrics.Label{managerLabel(), {
			Name:   "source",
			Help:   "Where the answer came from: what was known already, a list of all servers, or a request for this one.",
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
		Help:   "Nodes whose instances OpenStack does not know.",
	}
}

func absenceRefused() metrics.Metric {
	return metrics.Metric{
		Name:   "fxccm_openstack_absence_refused_total",
		Type:   metrics.Counter,
		Labels: []metrics.Label{managerLabel()},
		Help:   "Answers that an instance does not exist which were not believed since too many instances were absent at once.",
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
		Help:   "Requests to OpenStack, under OCCM's name. Other than there, each page of a list counts, and each time that a request is made again.",
	}
}

func occmRequestErrors() metrics.Metric {
	return metrics.Metric{
		Name:   "openstack_api_request_errors_total",
		Type:   metrics.Counter,
		Labels: []metrics.Label{requestLabel()},
		Help: "Requests to OpenStack that failed, under OCCM's name. Other than there, it is no error that what is looked for or " +
			"to be deleted does not exist.",
	}
}

func occmReconcileDuration() metrics.Metric {
	return metrics.Metric{
		Name:   "cloudprovider_openstack_reconcile_duration_seconds",
		Type:   metrics.Histogram,
		Labels: []metrics.Label{reconcileLabel()},
		Help:   "Duration of calls that change load balancers, under OCCM's name.",
		// OCCM's, as a heat map over both needs the same.
		Buckets: []float64{
			0.01, 0.05, 0.1, 0.5, 1, 2.5, 5, 7.5, 10, 12.5, 15, 17.5, 20, 22.5, 25, 27.5, 30, 50, 75, 100, 1000,
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
		Help:   "Calls that change load balancers and failed, under OCCM's name.",
	}
}

func managerLabel() metrics.Label {
	return metrics.Label{Name: "manager", Help: "The name of the Manager. Managers of one name share their series."}
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
		Help: "What was asked for, as `<resource>_<verb>`, such as `server_list`. `<service>_other` is what fxccm does not know.",
	}
}

func requestLabel() metrics.Label {
	return metrics.Label{
		Name: "request",
		Help: "What was asked for, as `<resource>_<verb>`. The requests of all Managers count together. Logins do not count.",
	}
}

func reconcileLabel() metrics.Label {
	return metrics.Label{
		Name:   "operation",
		Help:   "The kind of call. The calls of all Managers count together.",
		Values: reconcileOperations(),
	}
}
