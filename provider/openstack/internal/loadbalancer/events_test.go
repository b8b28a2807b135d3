package loadbalancer

import (
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
)

func notice(reason events.Reason, message string, warning bool) desired.Notice {
	return desired.Notice{Reason: reason, Message: message, Warning: warning}
}

func TestNotices_StateLasts_AreWrittenOnce(t *testing.T) {
	n := writtenNotices{}
	bad, worse := notice("Bad", "a is bad", true), notice("Bad", "b is bad", true)
	waits := notice("Waiting", "for Octavia", false)
	steps := []struct {
		about topic
		now   []desired.Notice
		want  []desired.Notice
	}{
		{aboutSettings, []desired.Notice{bad, bad}, []desired.Notice{bad}},
		{aboutSettings, []desired.Notice{bad}, nil},
		{aboutWaiting, []desired.Notice{waits}, []desired.Notice{waits}},
		{aboutSettings, []desired.Notice{worse, bad}, []desired.Notice{worse}},
		{aboutSettings, nil, nil},
		{aboutSettings, []desired.Notice{bad}, []desired.Notice{bad}},
		{aboutWaiting, []desired.Notice{waits}, nil},
	}
	for i, step := range steps {
		if got := n.update(step.about, step.now); !slices.Equal(got, step.want) {
			t.Errorf("step %d: new are %v, want %v", i, got, step.want)
		}
	}
}
