package openstacktest

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
)

func deleteServer(r *request, i *instance) answer {
	r.server.removeServer(i)
	return noContent()
}

func updateServer(r *request, i *instance) answer {
	var body struct {
		Server struct {
			Name       *string `json:"name"`
			AccessIPv4 *string `json:"accessIPv4"`
			AccessIPv6 *string `json:"accessIPv6"`
		} `json:"server"`
	}
	if err := r.decode(&body); err != nil {
		return failure(ServiceCompute, http.StatusBadRequest, err.Error())
	}
	for _, change := range []struct{ field, value *string }{
		{&i.Name, body.Server.Name}, {&i.AccessIPv4, body.Server.AccessIPv4}, {&i.AccessIPv6, body.Server.AccessIPv6},
	} {
		if change.value != nil {
			*change.field = *change.value
		}
	}
	i.Updated = r.server.clock.Now()
	return getServer(r, i)
}

// action is a change of a server's status that a user asks for.
type action struct {
	// verb is how Nova's refusal calls it.
	verb string
	from []string
	to   string
}

// actionNamed knows the actions as far as they lead from one status to another.
func actionNamed(name string) (action, bool) {
	a, known := map[string]action{
		"os-start":      {"start", []string{"SHUTOFF"}, "ACTIVE"},
		"os-stop":       {"stop", []string{"ACTIVE", "ERROR"}, "SHUTOFF"},
		"pause":         {"pause", []string{"ACTIVE"}, "PAUSED"},
		"unpause":       {"unpause", []string{"PAUSED"}, "ACTIVE"},
		"suspend":       {"suspend", []string{"ACTIVE"}, "SUSPENDED"},
		"resume":        {"resume", []string{"SUSPENDED"}, "ACTIVE"},
		"shelve":        {"shelve", []string{"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"}, "SHELVED"},
		"shelveOffload": {"shelve_offload", []string{"SHELVED"}, "SHELVED_OFFLOADED"},
		"unshelve":      {"unshelve", []string{"SHELVED", "SHELVED_OFFLOADED"}, "ACTIVE"},
		"reboot":        {"reboot", []string{"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "ERROR"}, "ACTIVE"},
		"rescue":        {"rescue", []string{"ACTIVE", "SHUTOFF", "ERROR"}, "RESCUE"},
		"unrescue":      {"unrescue", []string{"RESCUE"}, "ACTIVE"},
		"restore":       {"restore", []string{"SOFT_DELETED"}, "ACTIVE"},
	}[name]
	return a, known
}

// actOnServer does at once what takes Nova a while.
func actOnServer(r *request, i *instance) answer {
	var body map[string]json.RawMessage
	if err := r.decode(&body); err != nil || len(body) != 1 {
		return failure(ServiceCompute, http.StatusBadRequest, "Malformed request body: one action is needed.")
	}
	name := slices.Collect(maps.Keys(body))[0]
	if name == "forceDelete" {
		r.server.removeServer(i)
		return answer{status: http.StatusAccepted}
	}
	a, known := actionNamed(name)
	if !known {
		return failure(ServiceCompute, http.StatusBadRequest, "There is no such action: "+name)
	}
	if !slices.Contains(a.from, i.Status) {
		return failure(ServiceCompute, http.StatusConflict, fmt.Sprintf(
			"Cannot '%s' instance %s while it is in vm_state %s", a.verb, i.ID, stateOf(i.Status).vm))
	}
	i.setStatus(a.to, r.server.clock.Now())
	return answer{status: http.StatusAccepted}
}
