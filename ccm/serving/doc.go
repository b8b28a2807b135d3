// Package serving serves the endpoints of a [ccm.Manager] on a secure port, for a host without an
// HTTP server: HTTPS on port 10258, like every cloud controller manager. It delegates
// authentication and authorization to the API server.
//
//	fx.New(
//		ccm.Module, serving.Module, openstack.Module,
//		fx.Supply(cfg, servingconfig.Default()),
//	).Run()
//
// Without fx, use [New] and [Server.Run]. A host with an HTTP server mounts ccm/serving/endpoints
// instead.
//
// # Authentication and authorization
//
// A client authenticates by a client certificate, by the headers of a front proxy, or by a bearer
// token that the API server reviews; otherwise it is system:anonymous. The Server reads the trusted
// CAs from the ConfigMap kube-system/extension-apiserver-authentication, and watches it. The API
// server authorizes each request (SubjectAccessReview of the path). Requests of the group
// system:masters, and the paths /healthz, /livez and /readyz, need no review.
//
// The identity of the Manager needs the rules of the ClusterRole system:auth-delegator, and in
// kube-system those of the Role extension-apiserver-authentication-reader; deploy/base/rbac.yaml
// has them. A scraper needs
//
//	rules:
//	- nonResourceURLs: ["/metrics"]
//	  verbs: ["get"]
//
// # While the API server is down
//
// The port opens at once and does not wait for the API server: open paths are served immediately.
// The Server reads the ConfigMap in the background, with retries. Until the first read succeeds,
// and whenever a review fails, protected paths return 503 and the reason. Only an invalid
// configuration is an error at the start.
//
// # Linked packages
//
// The authenticators are those of k8s.io/apiserver. Its options, server and webhooks are not used:
// they read the ConfigMap in a constructor, start goroutines that do not end with their context,
// end the process when a listener fails, and link etcd, gRPC and CEL. The import adds
// k8s.io/apiserver's feature gates to those of the process.
package serving
