// Package fake is a programmable cloud in memory, for tests of any user of a
// cloudprovider.Interface: a cloud controller manager, its host, a controller of the host.
//
// A [Cloud] is the state of one cloud. A test fills it with instances, opens a provider on it for
// each cloud controller manager (or each term of one), and reads the results from it:
//
//	cloud := fake.New()
//	cloud.AddInstances(fake.Instance{Name: "node-1"})
//	provider := cloud.Provider(fake.WithCaller("replica-a/term-1"))
//	// ... run a cloud controller manager with provider ...
//	cloud.LoadBalancers()
//
// # What the cloud does
//
// It serves every interface of k8s.io/cloud-provider, except those that [Without] removes.
//
//   - Instances are found by provider ID, or by node name while a node has none. A missing one is
//     reported as cloudprovider.InstanceNotFound, or as not existing; a provider ID of another
//     cloud is an error, never an absence. Provider IDs look like fake://region-1/node-1.
//   - Load balancers belong to a cluster and a Service UID, have an address for each IP family of
//     the Service that stays the same until they are deleted, and have the nodes as members.
//     Deleting a missing one is no error; updating it is. See [Balancer].
//   - Routes belong to a cluster; their node must have an instance, and a destination can have one
//     route. When the instance is removed the route stays, as a blackhole. See
//     [Route].
//
// # How it misbehaves
//
// [WithLatency] and [Cloud.SetLatency] delay every call. [Cloud.On] injects faults into single
// methods, objects or callers: delays, errors, panics, hangs, (nil, nil); before the cloud changes
// or after.
//
//	busy := api.NewRetryError("busy", 5*time.Second)
//	cloud.On("EnsureLoadBalancer").For("default/web").Times(2).Fail(busy)
//	release := cloud.On("UpdateLoadBalancer").IgnoringContext().Hang()
//	defer release()
//
// # What it remembers
//
// Every call is recorded when it begins and when it ends: [Cloud.Calls], [Cloud.Stats].
// [Cloud.WaitForCall] and [Cloud.WaitUntil] wait for a call or a state without polling.
// [Cloud.ConcurrentCalls] lists every case of two callers that changed the cloud concurrently,
// which is split brain.
//
// The record keeps the last 100,000 calls ([WithCallLimit]) and can be emptied
// ([Cloud.ResetCalls]).
//
// # Several processes
//
// [Cloud.Handler] serves a cloud over HTTP, and [Dial] opens providers on it from another process.
// Both kinds of provider share all code except the connection to the cloud, so a test can begin in
// one process and later use two. The test keeps the Cloud in its own process.
package fake
