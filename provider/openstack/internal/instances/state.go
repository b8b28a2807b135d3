package instances

import "slices"

// A State is what a node is told of its server's status.
type State struct {
	// Status is Nova's.
	Status string
	// Exists: the node is kept. Shutdown: it is tainted as shut down while it is not ready.
	Exists, Shutdown bool
	// Why says what led to it.
	Why string
}

// States is what follows from each status that Nova's API knows. A status that is not here is taken for a running server: a node
// whose server might run is neither deleted nor tainted.
//
// A server in ERROR is shut down if its power state says so; see [server.shutdown].
func States() []State {
	return []State{
		{"ACTIVE", true, false, "It runs."},
		{"BUILD", true, false, "It is being made, and runs soon."},
		{"REBOOT", true, false, "It runs again soon."},
		{"HARD_REBOOT", true, false, "It runs again soon."},
		{"PASSWORD", true, false, "It runs; its password is being changed."},
		{"REBUILD", true, false, "It is given another image, and runs again soon."},
		{"MIGRATING", true, false, "It runs, or soon does on another host."},
		{"RESIZE", true, false, "It is moved to another flavor, and runs again soon."},
		{"VERIFY_RESIZE", true, false, "It runs, and waits for the resize to be confirmed."},
		{"REVERT_RESIZE", true, false, "It is moved back to its old flavor, and runs again soon."},
		{"RESCUE", true, false, "It runs, although from another image."},
		{"UNKNOWN", true, false, "Nova does not know; it might run."},
		{"ERROR", true, false, "Its last action failed; it might run, unless its power state is SHUTDOWN or CRASHED."},
		{"SHUTOFF", true, true, "It is switched off."},
		{"SUSPENDED", true, true, "Its memory is on the host's disk; it does not run until it is resumed."},
		{"PAUSED", true, true, "Its memory is kept; it does not run until it is resumed."},
		{"SHELVED", true, true, "It is switched off and kept as an image; it can be unshelved."},
		{"SHELVED_OFFLOADED", true, true, "It is on no host and kept as an image; it can be unshelved."},
		{"SOFT_DELETED", true, true, "It is switched off and can be restored until Nova reclaims it; then it is gone."},
		{"DELETED", false, false, "It is gone: as if Nova had not found it."},
	}
}

// The power states of a server that does not run: nova/compute/power_state.py.
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
