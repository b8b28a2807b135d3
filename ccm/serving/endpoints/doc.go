// Package endpoints serves the state of a [ccm.Manager] over HTTP:
//
//	/healthz /livez   health checks: a failure may justify a restart
//	/readyz           readiness: the Manager leads, or is a ready standby
//	/metrics          Prometheus: the Manager's registry, component-base's, and [WithGatherers]
//	/statusz          [status.Manager]: a page for browsers, JSON for all other clients
//	/configz          [ccm.Config] as JSON
//
// and, with [WithProfiling]:
//
//	/debug/pprof/               profiles of the process
//	/debug/controllers/<name>/  debug pages of a running controller, see [ccm.Runnable]
//
// The handler opens no port and does not authenticate. A host mounts it beside its own handlers,
// behind its own authentication:
//
//	mux.Handle("/ccm/", http.StripPrefix("/ccm", endpoints.NewHandler(manager)))
//
// An fx app with an *http.ServeMux has [Mount] for that.
//
// Package ccm/serving serves the same handler on a secure port with delegated authentication and
// authorization. It links parts of k8s.io/apiserver; this package does not.
package endpoints
