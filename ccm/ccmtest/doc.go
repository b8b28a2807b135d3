// Package ccmtest is what a host needs to test its own program with fxccm inside: a cloud
// controller manager on a real API server, with a cloud in memory, leadership in the test's hand,
// waits that say what they saw, and a check that nothing is left behind. No cloud, no cluster, no
// container is needed.
//
// # A first test
//
// Three things make a test: a control plane, a cloud, and a CCM between the two.
//
//	func TestNodes(t *testing.T) {
//		cp := controlplane.ForTest(t) // etcd and kube-apiserver, about three seconds
//		cloud := fake.New()
//		if err := cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
//			t.Fatal(err)
//		}
//		app := ccmtest.StartApp(t, cp, cloud)
//
//		ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-1"))
//		node := ccmtest.Eventually(t, "the node is initialized",
//			ccmtest.Initialized(app.Client, "node-1"))
//		if node.Spec.ProviderID != "fake://region-1/node-1" {
//			t.Errorf("provider ID is %q", node.Spec.ProviderID)
//		}
//		app.VerifyNoLeaks()
//	}
//
// [StartApp] returns at once, as an fx app's start does; what follows waits for what it needs. All
// that the test has started or created is gone when the test is over. A host without fx calls
// [StartManager] instead.
//
// A package with many tests starts the control plane once, in TestMain, with controlplane.Tests. An
// API server of another kind, such as envtest's, is given by [ClusterAt].
//
// # Your own app
//
// [WithHost] takes what your main function gives to fx.New and swaps three things: the providers,
// which are not even built, for the fake cloud; the client configuration; the election. Everything
// else is yours: configuration, controllers, hooks.
//
//	app := ccmtest.StartApp(t, cp, cloud, ccmtest.WithHost(myprogram.Options()...))
//
// A test that builds the app itself uses [ccm.ReplaceProviders] with fake.Cloud.CCMProvider. Beware
// of fx.Decorate with a function that takes what it replaces: fx builds the real one first, and
// that may log in to a cloud.
//
// # Waiting
//
// Nothing sleeps. [Eventually] repeats a probe until it returns no error; after [WaitLimit] it
// fails the test with what was seen last. There are probes for a Manager ([Ready], [State],
// [Status]), for objects of the API server ([Object], [Gone], [Initialized], [NodeAddress],
// [ServiceAddress]) and for the cloud ([Called], [Routed]), and a test writes its own as a
// function. The cloud can be told to fail, to be slow or to hang: see package provider/fake.
//
// To see that something does not happen, let something else happen by which it must have: another
// CCM that acts on the same Node, for example, or a later request of the test's own.
//
// # Leadership
//
// A CCM of this package leads at once, by a [ManualElector]:
//
//	app.Elector.Lose(errors.New("partition"))
//	release := app.Elector.WaitReleased(t) // the term is over: release.Drained
//	app.Elector.Lead()
//	app.WaitReady()
//
// With [WithLease] it campaigns for its lease as in production, and two of them in one test hand it
// over to each other.
//
// # Rights
//
// The CCM may do everything unless it is given an identity with [WithIdentity]. Give it the one
// that your program has in a cluster, with the rules that you ship ([ApplyRBAC]), and a missing
// rule fails the test. controlplane.AuditLog has the CCM's requests to the API server,
// under the name [CCM.User].
//
// # The race detector
//
// k8s.io/cloud-provider v0.37 has a data race of its own in the service controller, between its
// workers for Services and the one for Nodes. A test that changes Services of type LoadBalancer and
// adds or removes Nodes at the same time may fail with -race, whatever the test and this library
// do. Keep the two apart, in time or in two tests, or run such a test without -race.
package ccmtest
