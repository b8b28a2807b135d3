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
	switch status {
	case "ACTIVE":
		return state{"active", nil, powerRunning}
	case "BUILD":
		return state{"building", "spawning", powerNone}
	case "DELETED":
		return state{"deleted", nil, powerNone}
	case "ERROR":
		return state{"error", nil, powerRunning}
	case "HARD_REBOOT":
		return state{"active", "rebooting_hard", powerRunning}
	case "MIGRATING":
		return state{"active", "migrating", powerRunning}
	case "PASSWORD":
		return state{"active", "updating_password", powerRunning}
	case "PAUSED":
		return state{"paused", nil, powerPaused}
	case "REBOOT":
		return state{"active", "rebooting", powerRunning}
	case "REBUILD":
		return state{"active", "rebuilding", powerShutdown}
	case "RESCUE":
		return state{"rescued", nil, powerRunning}
	case "RESIZE":
		return state{"active", "resize_migrating", powerShutdown}
	case "REVERT_RESIZE":
		return state{"resized", "resize_reverting", powerShutdown}
	case "SHELVED":
		return state{"shelved", nil, powerShutdown}
	case "SHELVED_OFFLOADED":
		return state{"shelved_offloaded", nil, powerShutdown}
	case "SHUTOFF":
		return state{"stopped", nil, powerShutdown}
	case "SOFT_DELETED":
		return state{"soft-delete", nil, powerShutdown}
	case "SUSPENDED":
		// libvirt has no suspended guests: it saves and shuts them down.
		return state{"suspended", nil, powerShutdown}
	case "VERIFY_RESIZE":
		return state{"resized", nil, powerRunning}
	}
	return state{"active", nil, powerRunning}
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
