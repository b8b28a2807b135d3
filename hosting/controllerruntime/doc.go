// Package controllerruntime runs a cloud controller manager beside controllers of
// controller-runtime, in one process and under one election.
// A program calls [New], [Host.Params] and [Host.Run]; an fx app has [Module]. A program whose
// manager another team has made calls [Add].
//
// Both share the lease, the client configuration, the informers, the logger and the registry of
// metrics. [Host.Handler] has the pages that managers of controller-runtime serve.
//
// # Campaigns
//
// A manager of controller-runtime is made for programs that end when they lose their lease: Start
// returns without waiting for reconcilers, and cannot be called again. The [Host] creates a manager
// for each campaign and calls Setup with it. Before the next campaign it waits until all runnables
// of the previous manager have ended. If one does not end, [Host.Run] returns [ErrStillRunning],
// and the program must end.
//
// # Calls to a cloud
//
// The cloud controller manager's calls are checked by the fence of its term. [Transport] adds the
// same to the HTTP client of a reconciler, so that a reconciler may write to a cloud, too.
//
// # Limits
//
// Requests without [Transport], such as those of the manager's own client to the API server, are
// canceled when the election notices a loss, or when another process is seen to hold the lease. In
// a process that was frozen past its lease they can write until then.
//
// Webhook servers belong to a manager, so they are closed for a moment between two campaigns.
package controllerruntime
