package loadbalancer

import (
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
)

func notice(reason events.Reason, message string, warning bool) events.Notice {
	return events.Notice{Reason: reason, Message: message, Warning: warning}
}

func TestNotices_StateLasts_AreWrittenOnce(t *testing.T) {
	n := writtenNotices{}
	bad, worse := notice("Bad", "a is bad", true), notice("Bad", "b is bad", true)
	waits := notice("Waiting", "for Octavia", false)
	steps := []struct {
		about topic
		now   []events.Notice
		want  []events.Notice
	}{
		{aboutSettings, []events.Notice{bad, bad}, []events.Notice{bad}},
		{aboutSettings, []events.Notice{bad}, nil},
		{aboutWaiting, []events.Notice{waits}, []events.Notice{waits}},
		{aboutSettings, []events.Notice{worse, bad}, []events.Notice{worse}},
		{aboutSettings, nil, nil},
		{aboutSettings, []events.Notice{bad}, []events.Notice{bad}},
		{aboutWaiting, []events.Notice{waits}, nil},
	}
	for i, step := range steps {
		if got := n.update(step.about, step.now); !slices.Equal(got, step.want) {
			t.Errorf("step %d: new are %v, want %v", i, got, step.want)
		}
	}
}
