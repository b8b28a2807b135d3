// Package controlplane starts a real Kubernetes control plane for a test: one etcd and one
// kube-apiserver, on ports of their own, with TLS and RBAC, and stops them again. There is no
// kubelet, no scheduler and no kube-controller-manager: the test creates the Nodes, and only
// the test and the program under test change objects.
//
// A test starts one and uses any client:
//
//	cp := controlplane.ForTest(t)
//	client := kubernetes.NewForConfigOrDie(cp.RESTConfig())
//
// A suite that shares one control plane calls [Start] and [ControlPlane.Stop] in its TestMain. A
// start takes about three seconds.
//
// # Binaries
//
// The binaries etcd and kube-apiserver are in the folder that the environment variable
// KUBEBUILDER_ASSETS names, as with controller-runtime's envtest. If it is unset, they are in
// bin/controlplane of this project, where `make controlplane` builds them. If they are missing,
// Start fails with an error that names the folders; no test is skipped.
//
// # Identities
//
// [ControlPlane.RESTConfig] is the cluster's administrator. [ControlPlane.ServiceAccountConfig] is
// a program with the RBAC rules that it is shipped with: a request that the rules do not allow
// fails in the test as in a cluster.
//
// # Faults
//
// [ControlPlane.StopAPIServer] and [ControlPlane.StopEtcd] stop a process, and their counterparts
// start it again on the same port with the same data. [ControlPlane.APIServerPID] is for a test
// that freezes or kills the server.
//
// # Counting at the wire
//
// The API server writes an audit log, and [ControlPlane.Audit] reads it as typed records: the
// requests of all clients, and their answers. See [AuditLog].
package controlplane
