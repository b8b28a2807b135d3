package cloudcontrollers

// Names of the identities of the controllers: ServiceAccounts in kube-system when
// --use-service-account-credentials is set, a part of the user agent otherwise. The names are
// upstream's, so that upstream's RBAC rules apply. The two node controllers share one.
const (
	nodeClient    = "node-controller"
	serviceClient = "service-controller"
	routeClient   = "route-controller"
)
