package instances

import "testing"

func TestState_EachStatusAndPower_TellsWhetherTheServerRuns(t *testing.T) {
	running, shutdown, gone := [2]bool{true, false}, [2]bool{true, true}, [2]bool{false, false}
	for _, c := range []struct {
		status string
		power  int
		want   [2]bool
	}{
		{"ACTIVE", 1, running},
		{"REBUILD", 4, running},
		{"ERROR", 0, running},
		{"ERROR", 1, running},
		{"ERROR", 4, shutdown},
		{"ERROR", 6, shutdown},
		{"SHUTOFF", 4, shutdown},
		{"SUSPENDED", 4, shutdown},
		{"PAUSED", 3, shutdown},
		{"SHELVED", 4, shutdown},
		{"SOFT_DELETED", 4, shutdown},
		{"DELETED", 0, gone},
		{"", 0, running},
		{"INVENTED_LATER", 4, running},
	} {
		s := &server{Status: c.status, PowerState: c.power}
		if got := [2]bool{s.exists(), s.shutdown()}; got != c.want {
			t.Errorf("status %q, power state %d: exists, shutdown = %v, want %v", c.status,
				c.power, got, c.want)
		}
	}
}

func TestStates_EachOnceAndWithAReason(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range States() {
		if seen[s.Status] || s.Why == "" || (s.Shutdown && !s.Exists) {
			t.Errorf("bad row %+v", s)
		}
		seen[s.Status] = true
	}
	// nova/api/openstack/common.py knows 20.
	if len(seen) != 20 {
		t.Errorf("%d statuses, want 20", len(seen))
	}
}
