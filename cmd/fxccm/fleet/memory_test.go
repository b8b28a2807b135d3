package fleet_test

import (
	"runtime/debug"
	"testing"

	"github.com/fxccm/fxccm/cmd/fxccm/fleet"
)

func TestSaveMemory_GOGCOfTheOperator_Prevails(t *testing.T) {
	const before = 70
	defer debug.SetGCPercent(debug.SetGCPercent(before))
	t.Setenv("GOGC", "70")
	fleet.SaveMemory()
	if got := debug.SetGCPercent(before); got != before {
		t.Errorf("with GOGC=70 the percentage is %d", got)
	}
	t.Setenv("GOGC", "")
	fleet.SaveMemory()
	if got := debug.SetGCPercent(before); got >= before {
		t.Errorf("without GOGC the percentage is %d, want less", got)
	}
}
