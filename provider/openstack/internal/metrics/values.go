package metrics

import (
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/quota"
)

func retryReasons() []string {
	return []string{"409", "429", "500", "502", "503", "504", "connection", "timeout"}
}

func loginResults() []string { return []string{"ok", "refused", "failed"} }

func lookupSources() []string { return []string{"cache", "list", "direct"} }

func driftStages() []string { return []string{"found", "repaired"} }

func quotaResources() []string {
	return []string{quota.FloatingIPs, quota.LoadBalancers, quota.Ports, quota.SecurityGroups}
}

func reconcileOperations() []string {
	return []string{"loadbalancer_delete", "loadbalancer_ensure", "loadbalancer_update"}
}

// occmRequest is OCCM's name of an operation, which is the same for all changes of a router's
// routes.
func occmRequest(operation string) string {
	switch operation {
	case "router_add_extraroutes", "router_remove_extraroutes":
		return "router_update"
	}
	return operation
}

// failed reports whether a response is an error. A 404 is not an error for reads and deletions.
func failed(operation, code string) bool {
	if code == "404" {
		return !strings.HasSuffix(operation, "_get") && !strings.HasSuffix(operation, "_list") &&
			!strings.HasSuffix(operation, "_delete")
	}
	return !strings.HasPrefix(code, "2") && !strings.HasPrefix(code, "3")
}
