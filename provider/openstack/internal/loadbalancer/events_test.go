package loadbalancer

import (
	"slices"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
)

func notice(reason events.Reason, message string, warning bool) events.Notice {
	return events.Notice{Reason: reason, Message: message, Warning: warning}
}

func TestNotices_StateLasts_AreWrittenOnceAndWarningsEachHalfHour(t *testing.T) {
	n := writtenNotices{}
	bad, worse := notice("Bad", "a is bad", true), notice("Bad", "b is bad", true)
	waits := notice("Waiting", "for Octavia", false)
	steps := []struct {
		about topic
		after time.Duration
		now   []events.Notice
		want  []events.Notice
	}{
		{aboutSettings, 0, []events.Notice{bad, bad}, []events.Notice{bad}},
		{aboutSettings, time.Minute, []events.Notice{bad}, nil},
		{aboutWaiting, time.Minute, []events.Notice{waits}, []events.Notice{waits}},
		{aboutSettings, 2 * time.Minute, []events.Notice{worse, bad}, []events.Notice{worse}},
		{aboutSettings, 30 * time.Minute, []events.Notice{bad, worse}, []events.Notice{bad}},
		{aboutSettings, 32 * time.Minute, []events.Notice{bad, worse}, []events.Notice{worse}},
		{aboutSettings, 33 * time.Minute, nil, nil},
		{aboutSettings, 34 * time.Minute, []events.Notice{bad}, []events.Notice{bad}},
		{aboutWaiting, time.Hour, []events.Notice{waits}, nil},
	}
	start := time.Date(2026, 1, 2, 0, 0, 0, 0, time.UTC)
	for i, step := range steps {
		got := n.update(step.about, step.now, start.Add(step.after))
		if !slices.Equal(got, step.want) {
			t.Errorf("step %d: due are %v, want %v", i, got, step.want)
		}
	}
}
