package nova

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

func deleteServer(r *request, i *instance) (answer, error) {
	r.nova.removeServer(i)
	return api.NoContent(), nil
}

// updateServer accepts a few attributes, and refuses others.
func updateServer(r *request, i *instance) (answer, error) {
	var body struct {
		Server map[string]json.RawMessage `json:"server"`
	}
	if err := r.Decode(&body); err != nil {
		return answer{}, err
	}
	changed := i.Server
	fields := map[string]*string{
		"name": &changed.Name, "accessIPv4": &changed.AccessIPv4,
		"accessIPv6": &changed.AccessIPv6,
	}
	for name, raw := range body.Server {
		field, known := fields[name]
		if !known {
			return answer{}, refuse(http.StatusBadRequest,
				"Invalid input for field/attribute server. Value: "+string(raw)+
					". Additional properties are not allowed ('"+name+"' was unexpected)")
		}
		if err := json.Unmarshal(raw, field); err != nil {
			return answer{}, invalidAttribute(name, string(raw), "it is not of type 'string'")
		}
	}
	if err := checkServerAttributes(changed.Name, changed.AccessIPv4,
		changed.AccessIPv6); err != nil {
		return answer{}, err
	}
	i.Server = changed
	i.Updated = r.nova.Clock.Now()
	view := i.view(r)
	if !r.Version.AtLeast(75) {
		// Older versions show the attributes of extensions only in the answers to GET.
		for name := range view {
			if strings.HasPrefix(name, "OS-EXT-") || strings.HasPrefix(name, "OS-SRV-USG") ||
				strings.HasPrefix(name, "os-extended-volumes") ||
				name == "security_groups" || name == "key_name" || name == "config_drive" {
				delete(view, name)
			}
		}
	}
	return api.OK(object{"server": view}), nil
}

func checkServerAttributes(name, accessIPv4, accessIPv6 string) error {
	v4, _ := netip.ParseAddr(accessIPv4)
	v6, _ := netip.ParseAddr(accessIPv6)
	switch {
	case name == "":
		return invalidAttribute("name", "", "'' is too short")
	case accessIPv4 != "" && !v4.Is4():
		return invalidAttribute("accessIPv4", accessIPv4, "'"+accessIPv4+"' is not a 'ipv4'")
	case accessIPv6 != "" && !v6.Is6():
		return invalidAttribute("accessIPv6", accessIPv6, "'"+accessIPv6+"' is not a 'ipv6'")
	}
	return nil
}

// invalidAttribute is Nova's refusal of a value that its body schema does not allow.
func invalidAttribute(field, value, why string) error {
	return refuse(http.StatusBadRequest,
		"Invalid input for field/attribute "+field+". Value: "+value+". "+why)
}

// action is a change of a server's status by a user.
type action struct {
	// verb is the action's name in Nova's refusal.
	verb string
	from []string
	to   string
}

// actionNamed knows the actions that change the status.
//
// shelve offloads the server at once, which is Nova's default (shelved_offload_time).
func actionNamed(name string) (action, bool) {
	a, known := map[string]action{
		"os-start": {"start", []string{"SHUTOFF"}, "ACTIVE"},
		"os-stop":  {"stop", []string{"ACTIVE", "ERROR"}, "SHUTOFF"},
		"pause":    {"pause", []string{"ACTIVE"}, "PAUSED"},
		"unpause":  {"unpause", []string{"PAUSED"}, "ACTIVE"},
		"suspend":  {"suspend", []string{"ACTIVE"}, "SUSPENDED"},
		"resume":   {"resume", []string{"SUSPENDED"}, "ACTIVE"},
		"shelve": {
			"shelve",
			[]string{"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED"},
			"SHELVED_OFFLOADED",
		},
		"shelveOffload": {"shelveOffload", []string{"SHELVED"}, "SHELVED_OFFLOADED"},
		"unshelve":      {"unshelve", []string{"SHELVED", "SHELVED_OFFLOADED"}, "ACTIVE"},
		"reboot": {
			"reboot",
			[]string{"ACTIVE", "SHUTOFF", "PAUSED", "SUSPENDED", "ERROR"},
			"ACTIVE",
		},
		"rescue":   {"rescue", []string{"ACTIVE", "SHUTOFF", "ERROR"}, "RESCUE"},
		"unrescue": {"unrescue", []string{"RESCUE"}, "ACTIVE"},
		"restore":  {"restore", []string{"SOFT_DELETED"}, "ACTIVE"},
	}[name]
	return a, known
}

// actOnServer executes an action at once, although Nova needs a while.
func actOnServer(r *request, i *instance) (answer, error) {
	var body map[string]json.RawMessage
	if err := r.Decode(&body); err != nil || len(body) != 1 {
		return answer{}, refuse(http.StatusBadRequest, "Malformed request body")
	}
	name := slices.Collect(maps.Keys(body))[0]
	if err := r.mayAct(i, name); err != nil {
		return answer{}, err
	}
	accepted := answer{Status: http.StatusAccepted}
	switch name {
	case "lock", "unlock":
		i.Locked = name == "lock"
		return accepted, nil
	case "os-resetState":
		return r.resetState(i, body[name])
	case "reboot":
		if body[name][0] != '{' {
			return answer{}, invalidAttribute("reboot", string(body[name]),
				"it is not of type 'object'")
		}
	}
	a, known := actionNamed(name)
	if !known {
		return answer{}, refuse(http.StatusBadRequest,
			"There is no such action: "+name)
	}
	if !slices.Contains(a.from, i.Status) {
		return answer{}, api.Refuse(http.StatusConflict,
			"Cannot '%s' instance %s while it is in vm_state %s", a.verb, i.ID, i.state().vm)
	}
	i.setStatus(a.to, r.nova.Clock.Now())
	if name == "rescue" {
		return api.OK(object{"adminPass": "password-" + i.ID}), nil
	}
	return accepted, nil
}

// mayAct refuses the actions of administrators, and all actions on a locked server, to other users.
func (r *request) mayAct(i *instance, name string) error {
	switch name {
	case "os-resetState":
		return r.byComputeAdmin("os-admin-actions:reset_state")
	case "shelveOffload":
		return r.byComputeAdmin("os-shelve:shelve_offload")
	}
	if i.Locked && name != "lock" && name != "unlock" && !r.IsAdmin() {
		return refuse(http.StatusConflict, "Instance "+i.ID+" is locked")
	}
	return nil
}

// resetState changes only the status in Nova's database: the power state stays.
func (r *request) resetState(i *instance, raw json.RawMessage) (answer, error) {
	var body struct {
		State string `json:"state"`
	}
	if err := json.Unmarshal(raw, &body); err != nil || body.State != "active" &&
		body.State != "error" {
		return answer{}, invalidAttribute("state", body.State,
			"'"+body.State+"' is not one of ['active', 'error']")
	}
	power := i.state().power
	i.setStatus(strings.ToUpper(body.State), r.nova.Clock.Now())
	i.PowerState, i.faultless = power, true
	return answer{Status: http.StatusAccepted}, nil
}
