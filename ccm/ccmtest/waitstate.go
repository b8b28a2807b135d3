package ccmtest

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/fxccm/fxccm/ccm"
)

// WaitState waits until the Manager is in the state, and returns its status. It fails the test
// after [WaitLimit], with the status that was last seen.
func WaitState(t testing.TB, m *ccm.Manager, state ccm.State) ccm.Status {
	t.Helper()
	return WaitStatus(t, m, "the Manager is "+string(state),
		func(s ccm.Status) bool { return s.State == state })
}

// WaitReady waits until the Manager leads and all of its controllers run, and returns its status.
// It fails the test after [WaitLimit], with the status that was last seen.
func WaitReady(t testing.TB, m *ccm.Manager) ccm.Status {
	t.Helper()
	return WaitStatus(t, m, "the Manager leads and is ready",
		func(s ccm.Status) bool { return s.State == ccm.StateLeading && s.Ready })
}

// WaitStatus waits until the condition holds for the Manager's status, and returns that status.
// what completes the sentence "timed out waiting until …". It fails the test after [WaitLimit],
// with the status that was last seen.
func WaitStatus(t testing.TB, m *ccm.Manager, what string, cond func(ccm.Status) bool) ccm.Status {
	t.Helper()
	return Eventually(t, what, func(context.Context) (ccm.Status, error) {
		status := m.Status()
		if cond(status) {
			return status, nil
		}
		seen, err := json.MarshalIndent(status, "", "  ")
		if err != nil {
			return status, err
		}
		return status, fmt.Errorf("%s", seen)
	})
}
