// Package controlplane starts a real Kubernetes control plane for a test: one etcd and one
// kube-apiserver, on ports of their own, with TLS and RBAC, and stops them again. There is no
// kubelet, no scheduler and no kube-controller-manager: Nodes are what the test creates, and nobody
// but the test and the program under test changes anything.
//
// A test asks for one and talks to it with clients of its choice:
//
//	cp := controlplane.ForTest(t)
//	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
//
// A suite that shares one control plane calls [Start] and [ControlPlane.Stop] in its TestMain. A
// start takes about three seconds.
//
// # Binaries
//
// etcd and kube-apiserver are taken from the folder that the environment variable
// KUBEBUILDER_ASSETS names, as with controller-runtime's envtest; without it from bin/controlplane
// of this project, where `make controlplane` builds them. If there are none, Start fails with a
// sentence that says so. A test never skips for it.
//
// # Identities
//
// [ControlPlane.RESTConfig] is the cluster's administrator. [ControlPlane.ServiceAccountConfig] is
// a program under the RBAC rules it is shipped with: what the rules do not allow fails in the test
// as it would in a cluster.
//
// # Faults
//
// [ControlPlane.StopAPIServer] and [ControlPlane.StopEtcd] take a process away, and their
// counterparts bring it back at the same place with the same data. [ControlPlane.APIServerPID] is
// for a test that freezes or kills the server.
//
// # Counting at the wire
//
// The API server writes an audit log, and [ControlPlane.Audit] reads it back as typed records: what
// a program has really asked of the API server, and how it was answered, whatever client it used.
// See [AuditLog].
package controlplane
