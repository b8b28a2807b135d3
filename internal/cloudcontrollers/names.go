package cloudcontrollers

// Names of the identities of the controllers: ServiceAccounts in kube-system when
// --use-service-account-credentials is set, a part of the user agent otherwise. They are
// upstream's, so that its RBAC rules for them apply; node and lifecycle share one.
const (
	nodeClient    = "node-controller"
	serviceClient = "service-controller"
	routeClient   = "route-controller"
)
