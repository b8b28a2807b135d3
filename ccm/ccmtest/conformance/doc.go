// Package conformance examines a cloud provider: whether it keeps the promises of fxccm inside the
// host's process, or needs a process of its own.
//
// An author gives the provider and a stub of its cloud, in a test:
//
//	conformance.Run(t, conformance.Suite{
//		Provider:  registered.Provider("acme"),
//		NewCloud:  startStub,
//		BadConfig: "no configuration of acme",
//	})
//
// Each check runs a Manager with the provider on a real API server (see package controlplane), and
// counts what reaches the stub. It runs in a process of its own, because a provider may panic in a
// goroutine or call os.Exit: the test binary is started again, and runs the same test up to
// [Run] or [Examine], which then runs one check. So a TestMain should leave the start of slow
// things to the tests.
//
// # The checks
//
//   - bad-configuration: a configuration with a mistake is an error, and the process continues.
//   - three-terms: the provider serves three terms of leadership in one process.
//   - leadership-lost: leadership is lost while each operation of the cloud is held. The term
//     drains within a second. Later the cloud receives no change, and the API server no write of a
//     Node, a Service or a Lease. The next term finishes.
//   - growth: goroutines, ports, connections and watches do not grow with the number of terms.
//   - cloud-failure: all requests to the cloud fail for a while, and then the provider works again.
//   - two-managers: two Managers in one process use two clouds.
//   - absence: the Node stays while the cloud fails, and is deleted after its instance.
//   - provider-ids: an instance with a bare provider ID is never absent.
//   - adopted-load-balancer: a load balancer that the user has created survives its Service.
//   - endpoints: a load balancer that forwards to pods follows the endpoints of its Service.
//
// A check that the cloud cannot take part in is skipped with a reason.
//
// KUBECONFIG names the API server of the checks, for a provider that makes clients of its own.
package conformance
