package instances

import "slices"

// State is the effect of a server status on its node.
type State struct {
	// Status is Nova's status.
	Status string
	// Exists: the node is kept. Shutdown: the node is tainted as shut down while it is not ready.
	Exists, Shutdown bool
	// Why explains the effect.
	Why string
}

// States lists the statuses of Nova's API. Any other status counts as running, because a node whose
// server may be running is neither deleted nor tainted.
//
// A server in ERROR is shut down if its power state is shut down; see [server.shutdown].
func States() []State {
	return []State{
		{"ACTIVE", true, false, "It runs."},
		{"BUILD", true, false, "It is being created and will run soon."},
		{"REBOOT", true, false, "It will run again soon."},
		{"HARD_REBOOT", true, false, "It will run again soon."},
		{"PASSWORD", true, false, "It runs; its password is being changed."},
		{"REBUILD", true, false, "It is rebuilt with another image and will run again soon."},
		{"MIGRATING", true, false, "It runs, or will run soon on another host."},
		{"RESIZE", true, false, "It is resized and will run again soon."},
		{"VERIFY_RESIZE", true, false, "It runs; the resize must be confirmed."},
		{"REVERT_RESIZE", true, false, "It is resized back and will run again soon."},
		{"RESCUE", true, false, "It runs from a rescue image."},
		{"UNKNOWN", true, false, "Nova does not know the status; it may be running."},
		{
			"ERROR", true, false,
			"Its last action failed; it may be running, unless its power state is SHUTDOWN or " +
				"CRASHED.",
		},
		{"SHUTOFF", true, true, "It is switched off."},
		{
			"SUSPENDED", true, true,
			"Its memory is on the host's disk; it does not run until it is resumed.",
		},
		{"PAUSED", true, true, "Its memory is kept; it does not run until it is resumed."},
		{"SHELVED", true, true, "It is switched off and kept as an image; it can be unshelved."},
		{
			"SHELVED_OFFLOADED", true, true,
			"It is on no host and kept as an image; it can be unshelved.",
		},
		{
			"SOFT_DELETED", true, true,
			"It is switched off and can be restored until Nova reclaims it; then it is gone.",
		},
		{"DELETED", false, false, "It does not exist: the same as a 404 of Nova."},
	}
}

// Power states of a stopped server: nova/compute/power_state.py.
const (
	powerShutdown = 4
	powerCrashed  = 6
)

func stateOf(status string) State {
	states := States()
	if at := slices.IndexFunc(states, func(s State) bool { return s.Status == status }); at >= 0 {
		return states[at]
	}
	return State{Status: status, Exists: true}
}

func (s *server) exists() bool { return stateOf(s.Status).Exists }

func (s *server) shutdown() bool {
	if s.Status == "ERROR" {
		return s.PowerState == powerShutdown || s.PowerState == powerCrashed
	}
	return stateOf(s.Status).Shutdown
}
