package metrics

import "strings"

func retryReasons() []string {
	return []string{"409", "429", "500", "502", "503", "504", "connection", "timeout"}
}

func loginResults() []string { return []string{"ok", "refused", "failed"} }

func lookupSources() []string { return []string{"cache", "list", "direct"} }

func reconcileOperations() []string {
	return []string{"loadbalancer_delete", "loadbalancer_ensure", "loadbalancer_update"}
}

// occmRequest is OCCM's name of an operation: it does not tell the ways apart in which a router's routes are changed.
func occmRequest(operation string) string {
	switch operation {
	case "router_add_extraroutes", "router_remove_extraroutes":
		return "router_update"
	}
	return operation
}

// failed tells whether an answer is an error. That something does not exist is none if that is what was asked, or what is wanted.
func failed(operation, code string) bool {
	if code == "404" {
		return !strings.HasSuffix(operation, "_get") && !strings.HasSuffix(operation, "_list") && !strings.HasSuffix(operation, "_delete")
	}
	return !strings.HasPrefix(code, "2") && !strings.HasPrefix(code, "3")
}
