// Package ccm puts a complete Kubernetes cloud controller manager (CCM) inside another program.
//
// A [Manager] is one CCM for one cluster. It campaigns for a lease, and for as long as it leads it
// runs a term: the cloud provider, shared informers and controllers, which are built when
// leadership is won and end before it is released. Losing the lease ends the term, not the process;
// a Manager can be stopped, started again, and run many times beside others in one process.
//
//	           ┌──────────────────────────── Manager ────────────────────────────┐
//	           │                 ┌───────────────── Term n ─────────────────┐    │
//	API server │   Elector ────▶ │ fence ─ Provider ─ informers ─ Controller│    │ cloud
//	           │   (lease)       └──────────────────────────────────────────┘    │
//	           └─────────────────────────────────────────────────────────────────┘
//
// A host that uses go.uber.org/fx adds [Module], a provider, and a [Config]:
//
//	fx.New(ccm.Module, openstack.Module, fx.Supply(cfg)).Run()
//
// A host without fx calls [New] and [Manager.Run].
//
// Fx stops hooks in the reverse order of their start. A server that is appended to the app's
// lifecycle in fx.Invoke stops before the Manager drains, and probes fail meanwhile. A server that
// must answer until the Manager has drained is an [AsSurroundingHook].
//
// The route controller and client-go write to klog, even if the Manager has a logger. A program
// that logs with slog calls klog.SetSlogLogger in its main function.
//
// This package never exits the process, handles signals, registers flags, opens a port, or writes
// package-level state.
package ccm
