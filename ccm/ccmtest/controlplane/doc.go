// Package controlplane starts a real Kubernetes control plane for a test: one etcd and one
// kube-apiserver, on ports of their own, with TLS and RBAC, and stops them again. There is no
// kubelet, no scheduler and no kube-controller-manager: the test creates the Nodes, and only
// the test and the program under test change objects.
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
// of this project, where `make controlplane` builds them. Without them Start fails with an
// error that names the folders; a test never skips for it.
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
// The API server writes an audit log, and [ControlPlane.Audit] reads it back as typed records:
// the requests that reached the API server, and their answers, whatever client sent them.
// See [AuditLog].
package controlplane
