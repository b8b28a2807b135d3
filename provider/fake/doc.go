// Package fake is a programmable cloud in memory, for tests of anything that drives a
// cloudprovider.Interface: a cloud controller manager, its host, a controller of the host's own.
//
// A [Cloud] is the state of one cloud. A test fills it with instances, opens a provider on it for
// each cloud controller manager (or each term of one), and reads from it what came of it:
//
//	cloud := fake.New()
//	cloud.AddInstances(fake.Instance{Name: "node-1"})
//	provider := cloud.Provider(fake.WithCaller("replica-a/term-1"))
//	// ... run a cloud controller manager with provider ...
//	cloud.LoadBalancers()
//
// # What the cloud does
//
// It serves every interface of k8s.io/cloud-provider, less those that [Without] takes away.
//
//   - Instances are found by provider ID, or by node name while a node has none. An absent one is
//     cloudprovider.InstanceNotFound, or does not exist; a provider ID of another cloud is an
//     error, never an absence. Provider IDs look like fake://region-1/node-1, see [ProviderID].
//   - Load balancers belong to a cluster and a Service UID, have an address for each IP family of
//     the Service that stays the same until they are deleted, and have the nodes as members.
//     Deleting one that is gone is no error; updating one is. See [Balancer].
//   - Routes belong to a cluster; their node must have an instance, and a destination can have one
//     route. When the instance goes the route stays, as a blackhole. See [Route].
//
// # How it misbehaves
//
// [WithLatency] and [Cloud.SetLatency] make every call take its time. [Cloud.On] injects faults
// into single methods, objects or callers: delays, errors, panics, hangs, (nil, nil); before the
// cloud changes or after.
//
//	busy := api.NewRetryError("busy", 5*time.Second)
//	cloud.On(fake.EnsureLoadBalancer).For("default/web").Times(2).Fail(busy)
//	release := cloud.On(fake.UpdateLoadBalancer).IgnoringContext().Hang()
//	defer release()
//
// # What it remembers
//
// Every call is recorded when it begins and when it ends: [Cloud.Calls], [Cloud.Stats].
// [Cloud.WaitForCall] and [Cloud.WaitUntil] wait for a call or a state without polling.
// [Cloud.ConcurrentCalls] lists every moment at which two callers were changing the cloud at once,
// which is split brain.
//
// The record keeps the last 100,000 calls ([WithCallLimit]) and can be emptied
// ([Cloud.ResetCalls]).
//
// # Several processes
//
// [Cloud.Handler] serves a cloud over HTTP, [Dial] returns a [Client] that opens providers on it
// from another process and can do what a test can do to the cloud. Both kinds of provider share all
// code but the way to the cloud, so a test can begin in one process and move to two.
//
// The protocol is JSON. Requests that are wrong are answered with a status of 4xx and {"error": "a
// sentence"}.
//
//	GET    /v1/cloud                     name and interfaces
//	GET    /v1/call/{method}?caller=&args={...}
//	POST   /v1/call/{method}?caller=     a provider's call that changes the cloud, with a body
//
//	GET    /v1/instances                 [Instance, ...]
//	POST   /v1/instances                 add or replace; body [Instance, ...]
//	DELETE /v1/instances/{name}
//	POST   /v1/instances/{name}/stop
//	POST   /v1/instances/{name}/start
//	GET    /v1/loadbalancers             [Balancer, ...]
//	GET    /v1/routes                    [Route, ...]
//	POST   /v1/routes                    add or replace; body [Route, ...]
//
//	PUT    /v1/latency                   body {"latency": "50ms"}
//	GET    /v1/faults                    [ActiveFault, ...]
//	POST   /v1/faults                    body Fault; answers {"id": 1}
//	DELETE /v1/faults/{id}
//	DELETE /v1/faults
//
//	GET    /v1/calls                     [Call, ...]
//	GET    /v1/calls/wait                answers one Call as soon as there is one
//	DELETE /v1/calls                     forget
//	GET    /v1/concurrent-calls                  [ConcurrentCalls, ...]
//	GET    /v1/stats                     Stats
//
// The two that read calls filter by method, interface, caller, object, mutating, finished and
// failed. A Fault is for example
//
//	{"methods": ["EnsureLoadBalancer"], "object": "default/web", "times": 2, "delay": "1s",
//	 "error": {"kind": "Retry", "message": "busy", "retryAfter": "5s"}}
//
// with the fields of the Go type: methods, object, caller, times, delay, hang, error, panic,
// returnZero, ignoreContext, afterEffect. An error's kind is InstanceNotFound, NotImplemented,
// ImplementedElsewhere, DiskNotFound, Canceled, DeadlineExceeded, Retry, or absent.
//
// The arguments of a provider's call are those of cluster, node {name, providerID}, nodes [name,
// ...], service {namespace, name, uid, annotations, ports, ipFamilies}, route, nameHint and name
// that the method has a use for; the results come in yes, text, names, labels, instance, ingress
// and routes.
//
// The answer to a provider's call has status 200 also when the call failed or panicked: then it has
// the field error or panic, and Client returns the same error, or panics.
package fake
