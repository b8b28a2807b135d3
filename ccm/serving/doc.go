// Package serving puts the endpoints of a [ccm.Manager] on a secure port of their own, for a host that has none: HTTPS on
// port 10258 as every cloud controller manager has it, with authentication and authorization delegated to the API server.
//
//	fx.New(ccm.Module, serving.Module, openstack.Module(), fx.Supply(cfg, serving.DefaultConfig())).Run()
//
// Without fx, [New] and [Server.Run] do the same. A host with an HTTP server of its own needs neither: it mounts
// ccm/serving/endpoints.
//
// # Who may ask
//
// A caller is known by a client certificate, by the headers of a front proxy, or by a bearer token that the API server reviews;
// otherwise as system:anonymous. Whom to trust is read from the ConfigMap kube-system/extension-apiserver-authentication, and followed
// when it changes. Whether the caller may ask is reviewed by the API server (SubjectAccessReview of the path), but for the
// group system:masters, and for the paths that are open to everybody: /healthz, /livez and /readyz.
//
// The identity of the Manager needs the rules of the ClusterRole system:auth-delegator, and in kube-system those of the Role
// extension-apiserver-authentication-reader; example/deploy/rbac.yaml has them. A scraper needs
//
//	rules:
//	- nonResourceURLs: ["/metrics"]
//	  verbs: ["get"]
//
// # When the API server is away
//
// The port opens at once and never waits for the API server: open paths are answered from the first moment. The ConfigMap
// is read in the background until it could be read. Until then, and whenever a review cannot be had, protected paths are
// answered with 503 and a sentence that says why. Only a wrong configuration is an error at the start.
//
// # What is linked
//
// The authenticators are those of k8s.io/apiserver. Its options, its server and its webhooks are not used: they read the
// ConfigMap in a constructor, start goroutines that nobody waits for, end the process when a listener fails, and bring etcd, gRPC and
// CEL into the host. What the import alone does is theirs: it adds k8s.io/apiserver's feature gates to the process's.
package serving
