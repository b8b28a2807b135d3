package informerview_test

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/watch"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/informerview"
)

// The term's handlers have the periods that they were added with, whatever the period of the host's
// informers is.
func TestResync_HandlersOfSeveralPeriods_EachHasItsOwn(t *testing.T) {
	for name, ofHost := range map[string]time.Duration{
		"host never resyncs":       0,
		"host resyncs twice a day": 12 * time.Hour, "host resyncs each second": time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := runningHost(t, ofHost)
				defer h.end()
				h.createNode("a")
				h.createNode("b")
				view := h.shared.View(2 * time.Minute)
				informer := view.Core().V1().Nodes().Informer()
				plain, half, never, tooOften := &recorder{}, &recorder{}, &recorder{}, &recorder{}
				add(t, informer, plain)
				add(t, informer, half, 30*time.Second)
				add(t, informer, never, 0)
				add(t, informer, tooOften, time.Millisecond)
				for _, r := range []*recorder{plain, half, never, tooOften} {
					r.expect(t, "at first", "add a", "add b")
				}
				time.Sleep(29 * time.Second)
				half.expect(t, "before the period is over")
				time.Sleep(time.Second)
				half.expect(t, "after the period", "resync a", "resync b")
				time.Sleep(90 * time.Second)
				half.expect(t, "after three more",
					slices.Repeat([]string{"resync a", "resync b"}, 3)...)
				plain.expect(t, "after the view's period", "resync a", "resync b")
				never.expect(t, "without a period")
				tooOften.expect(t, "two minutes at the shortest period, a second",
					slices.Repeat([]string{"resync a", "resync b"}, 120)...)
				view.Shutdown()
			})
		})
	}
}

func TestResync_WithoutAPeriod_HasNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		view := h.shared.View(0)
		informer := view.Core().V1().Nodes().Informer()
		r := &recorder{}
		add(t, informer, r)
		expectGoroutines(t, "nothing to resync", ticking, 0)
		one, two := add(t, informer, r, time.Minute), add(t, informer, r, time.Hour)
		expectGoroutines(t, "two handlers to resync", ticking, 1)
		if err := informer.RemoveEventHandler(one); err != nil {
			t.Fatal(err)
		}
		expectGoroutines(t, "one handler to resync", ticking, 1)
		if err := informer.RemoveEventHandler(two); err != nil {
			t.Fatal(err)
		}
		expectGoroutines(t, "nothing to resync any more", ticking, 0)
		add(t, informer, r, time.Minute)
		expectGoroutines(t, "one again", ticking, 1)
		view.Shutdown()
		expectGoroutines(t, "after the term", ticking, 0)
	})
}

func TestResync_TermHasNone_ResyncsOfTheHostAreNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, time.Second)
		defer h.end()
		h.createNode("a")
		hosts := &recorder{}
		add(t, h.factory.Core().V1().Nodes().Informer(), hosts)
		view := h.shared.View(0)
		r := &recorder{}
		add(t, view.Core().V1().Nodes().Informer(), r)
		time.Sleep(10 * time.Second)
		if len(hosts.take()) < 10 {
			t.Error("the host's handler is not resynced")
		}
		r.expect(t, "without a period", "add a")
		view.Shutdown()
	})
}

func TestResync_ObjectsAreDeleted_IsNotDelivered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		defer h.end()
		// The host's watch sends no event. When the watch expires, the next list has the changes.
		watches := make(chan *watch.FakeWatcher, 10)
		h.client.PrependWatchReactor("nodes",
			func(clienttesting.Action) (bool, watch.Interface, error) {
				w := watch.NewFake()
				watches <- w
				return true, w, nil
			})
		h.createNode("a")
		h.createNode("b")
		view := h.shared.View(time.Minute)
		r := &recorder{}
		add(t, view.Core().V1().Nodes().Informer(), r)
		view.Start(nil)
		r.expect(t, "at first", "add a", "add b")
		h.deleteNode("a")
		time.Sleep(time.Minute)
		r.expect(t, "before the deletion is known", "resync a", "resync b")
		expired := apierrors.NewResourceExpired("too old").Status()
		(<-watches).Error(&expired)
		time.Sleep(30 * time.Second)
		// Informers that never resync also deliver an unchanged object when a list returns it
		// again.
		r.expect(t, "when the deletion is found", "missed-delete a", "update b")
		(<-watches).Delete(nodes(t, "b")[0])
		r.expect(t, "when the other is deleted", "delete b")
		time.Sleep(time.Hour)
		r.expect(t, "when all are gone")
		view.Shutdown()
	})
}

func TestResync_ObjectChanges_DeliversTheLastState(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		h.createNode("a")
		view := h.shared.View(0)
		var last any
		behind := false
		handler := cache.ResourceEventHandlerFuncs{
			AddFunc: func(obj any) { last = obj },
			UpdateFunc: func(before, after any) {
				if before == after {
					behind = behind || after != last
				}
				last = after
			},
		}
		add(t, view.Core().V1().Nodes().Informer(), handler, time.Second)
		settle(t)
		for range 10 {
			node := nodes(t, "a")[0]
			node.Labels = map[string]string{"at": time.Now().String()}
			if err := h.client.Tracker().Update(nodesResource, node, ""); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
		}
		view.Shutdown()
		if behind {
			t.Error("a resync delivered an older state of the object")
		}
	})
}

func TestResync_HandlerHangs_OnlyOtherHandlersGetResyncs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		view := h.shared.View(0)
		informer := view.Core().V1().Nodes().Informer()
		hang := make(chan struct{})
		atAdd := &recorder{hold: func(string) { <-hang }}
		atResync := &recorder{hold: func(event string) {
			if event == "resync a" {
				<-hang
			}
		}}
		well := &recorder{}
		add(t, informer, atAdd, time.Minute)
		add(t, informer, atResync, time.Minute)
		add(t, informer, well, time.Minute)
		h.createNode("a")
		time.Sleep(3 * time.Minute)
		atAdd.expect(t, "while it hangs", "add a")
		atResync.expect(t, "while it hangs", "add a", "resync a")
		well.expect(t, "while others hang", append(eventsOf("resync", "a", "a", "a"), "add a")...)
		h.createNode("b")
		close(hang)
		// The interrupted resync continues. The next one includes the new object.
		time.Sleep(time.Minute)
		settle(t)
		if got := atAdd.take(); !slices.Contains(got, "add b") ||
			!slices.Contains(got, "resync b") {
			t.Errorf("after it has hung the handler received %q", got)
		}
		if got := atResync.take(); !slices.Contains(got, "add b") ||
			!slices.Contains(got, "resync b") {
			t.Errorf("after it has hung the handler received %q", got)
		}
		if atAdd.twice.Load() || atResync.twice.Load() {
			t.Error("a handler received two notifications at once")
		}
		view.Shutdown()
	})
}

func TestResync_WithClock_FollowsIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, 0)
		defer h.end()
		h.createNode("a")
		clock := clocktesting.NewFakeClock(time.Now())
		view := h.shared.View(time.Minute, informerview.WithClock(clock))
		r := &recorder{}
		add(t, view.Core().V1().Nodes().Informer(), r)
		r.expect(t, "at first", "add a")
		time.Sleep(time.Hour)
		r.expect(t, "while its clock stands still")
		clock.Step(time.Minute)
		r.expect(t, "when its clock has moved", "resync a")
		view.Shutdown()
	})
}
