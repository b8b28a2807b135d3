// Package endpoints answers over HTTP what an operator asks of a [ccm.Manager]:
//
//	/healthz /livez   does it work? A failure is cured by a restart, or not at all
//	/readyz           does it lead, or is it ready to?
//	/metrics          Prometheus, with the metrics of upstream's controllers
//	/statusz          [ccm.Status] as JSON
//	/configz          [ccm.Config] as JSON
//
// and, with [WithProfiling]:
//
//	/debug/pprof/               profiles of the process
//	/debug/controllers/<name>/  what a [ccm.Debuggable] controller shows, while it runs
//
// It is an http.Handler and no more: it opens no port, and asks nobody who they are. A host mounts it beside its own, behind
// its own authentication:
//
//	mux.Handle("/ccm/", http.StripPrefix("/ccm", endpoints.NewHandler(manager)))
//
// An fx app with an *http.ServeMux has [Mount] for that.
//
// Package ccm/serving puts the same handler on a secure port with delegated authentication and authorization, at the price of
// linking parts of k8s.io/apiserver; this package links none of it.
package endpoints
