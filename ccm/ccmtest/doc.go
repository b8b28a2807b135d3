// Package ccmtest tests a host's program with fxccm inside: a cloud controller manager on a real
// API server, with a cloud in memory, leadership that the test controls, waits that report the last
// state, and a check for leaks. It needs no cloud, cluster or container.
//
// # A first test
//
// A test has three parts: a control plane, a cloud, and a CCM between the two.
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
// [StartApp] returns at once, like an fx app's start; the test then waits for the conditions that
// it needs. The end of the test removes everything that it has started or created. A host without
// fx calls [StartManager] instead.
//
// A package with many tests starts the control plane once, in TestMain, with controlplane.Tests.
// [ClusterAt] takes another API server, such as envtest's.
//
// # Your own app
//
// [WithHost] takes the options that your main function gives to fx.New and replaces three things:
// the providers, which are not even built, by the fake cloud; the client configuration; the
// election. Everything else is yours: configuration, controllers, hooks.
//
//	app := ccmtest.StartApp(t, cp, cloud, ccmtest.WithHost(myprogram.Options()...))
//
// A test that builds the app itself uses [ccm.ReplaceProviders] with fake.Cloud.CCMProvider. Do not
// use fx.Decorate with a function that takes the provider as a parameter: fx builds the real one
// first, which may log in to a cloud.
//
// # Waiting
//
// Tests do not sleep. [Eventually] repeats a probe until it returns no error; after [WaitLimit] it
// fails the test with the last error. There are probes for a Manager ([Ready], [State], [Status]),
// for objects of the API server ([Object], [Gone], [Initialized], [NodeAddress], [ServiceAddress])
// and for the cloud ([Called], [Routed]), and a test can add its own functions. The test can make
// the cloud fail, slow down or hang: see package provider/fake.
//
// To check that something does not happen, wait for a later event that would follow it: for
// example, another CCM has acted on the same Node, or a later request of the test has been
// answered.
//
// # Leadership
//
// By default a CCM leads at once, and its [ManualElector] changes that:
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
// The CCM may do everything unless it is given an identity with [WithIdentity]. If you use your
// program's identity in a cluster, with the rules that you ship ([ApplyRBAC]), a missing rule fails
// the test. controlplane.AuditLog has the CCM's requests to the API server, under the name
// [CCM.User].
package ccmtest
