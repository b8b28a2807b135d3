package nova

// Nova's numbers of power states (nova/compute/power_state.py).
const (
	powerNone      = 0
	powerRunning   = 1
	powerPaused    = 3
	powerShutdown  = 4
	powerSuspended = 7
)

// state has the attributes that the API shows in addition to a server's status.
type state struct {
	vm    string
	task  any
	power int
}

// stateOf is the usual state of a server with this status: the inverse of Nova's table from
// vm_state and task_state to status (nova/api/openstack/common.py).
func stateOf(status string) state {
	s, known := map[string]state{
		"ACTIVE":            {"active", nil, powerRunning},
		"BUILD":             {"building", "spawning", powerNone},
		"DELETED":           {"deleted", nil, powerNone},
		"ERROR":             {"error", nil, powerRunning},
		"HARD_REBOOT":       {"active", "rebooting_hard", powerRunning},
		"MIGRATING":         {"active", "migrating", powerRunning},
		"PASSWORD":          {"active", "updating_password", powerRunning},
		"PAUSED":            {"paused", nil, powerPaused},
		"REBOOT":            {"active", "rebooting", powerRunning},
		"REBUILD":           {"active", "rebuilding", powerShutdown},
		"RESCUE":            {"rescued", nil, powerRunning},
		"RESIZE":            {"active", "resize_migrating", powerShutdown},
		"REVERT_RESIZE":     {"resized", "resize_reverting", powerShutdown},
		"SHELVED":           {"shelved", nil, powerShutdown},
		"SHELVED_OFFLOADED": {"shelved_offloaded", nil, powerShutdown},
		"SHUTOFF":           {"stopped", nil, powerShutdown},
		"SOFT_DELETED":      {"soft-delete", nil, powerShutdown},
		// libvirt has no suspended guests: it saves and shuts them down.
		"SUSPENDED":     {"suspended", nil, powerShutdown},
		"VERIFY_RESIZE": {"resized", nil, powerRunning},
	}[status]
	if !known {
		return state{"active", nil, powerRunning}
	}
	return s
}

// state follows from the server's status, except for a power state that was set.
func (i *instance) state() state {
	s := stateOf(i.Status)
	if i.PowerState != 0 {
		s.power = i.PowerState
	}
	return s
}

// hosted reports whether the server is on a compute host.
func (i *instance) hosted() bool {
	switch i.Status {
	case "BUILD", "SHELVED_OFFLOADED", "DELETED":
		return false
	}
	return true
}
