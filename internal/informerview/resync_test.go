package informerview_test

import (
	"testing"
	"testing/synctest"
	"time"
)

// A handler of a term gets the resyncs that a handler of the host would get.
func TestResync_OfTheHost_ReachesTheHandlersUntilTheTermEnds(t *testing.T) {
	for name, c := range map[string]struct {
		ofHost time.Duration
		want   []string
	}{
		"host resyncs":  {30 * time.Second, []string{"resync a"}},
		"host does not": {},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runningHost(t, c.ofHost)
				defer h.end()
				h.createNode("a")
				view := h.shared.View()
				r := &recorder{}
				add(t, view.Core().V1().Nodes().Informer(), r)
				r.expect(t, "at first", "add a")
				time.Sleep(45 * time.Second)
				r.expect(t, "after one period", c.want...)
				view.Shutdown()
				time.Sleep(time.Minute)
				r.expect(t, "after the term")
			})
		})
	}
}
