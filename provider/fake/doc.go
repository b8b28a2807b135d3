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
//     error, never an absence. Provider IDs look like fake://region-1/node-1.
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
// [Cloud.Handler] serves a cloud over HTTP, and [Dial] opens providers on it from another process.
// Both kinds of provider share all code but the way to the cloud, so a test can begin in one
// process and move to two. The test keeps the Cloud in its own process.
package fake
