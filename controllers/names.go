package controllers

import (
	"maps"
	"slices"

	"k8s.io/cloud-provider/names"
)

// Canonical names of the four controllers, as in --controllers (k8s.io/cloud-provider/names).
const (
	CloudNodeName          = names.CloudNodeController
	CloudNodeLifecycleName = names.CloudNodeLifecycleController
	ServiceLBName          = names.ServiceLBController
	NodeRouteName          = names.NodeRouteController
)

// Names of the identities of the controllers: ServiceAccounts in kube-system when
// --use-service-account-credentials is set, a part of the user agent otherwise. They are upstream's, so that its RBAC
// rules for them apply; node and lifecycle share one.
const (
	nodeClient    = "node-controller"
	serviceClient = "service-controller"
	routeClient   = "route-controller"
)

// Aliases returns upstream's other names for a controller, sorted. There may be none.
func Aliases(name string) []string {
	all := names.CCMControllerAliases()
	return slices.Sorted(func(yield func(string) bool) {
		for alias := range maps.Keys(all) {
			if all[alias] == name && !yield(alias) {
				return
			}
		}
	})
}
