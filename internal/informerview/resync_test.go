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

// However the host's informers resync, the term's handlers have the periods that they were added
// with.
func TestResync_EachHandlerHasItsOwnPeriod(t *testing.T) {
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

func TestResync_WhenTheTermWantsNone_ThoseOfTheHostAreNotTold(t *testing.T) {
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

func TestResync_OfObjectsThatAreGone_IsNotTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, 0)
		defer h.end()
		// The host's watch tells nothing: what happens is found by the list that follows when it
		// has expired.
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
		// That a list brings the same b again is told too by informers that never resync.
		r.expect(t, "when the deletion is found", "missed-delete a", "update b")
		(<-watches).Delete(nodes(t, "b")[0])
		r.expect(t, "when the other is deleted", "delete b")
		time.Sleep(time.Hour)
		r.expect(t, "when all are gone")
		view.Shutdown()
	})
}

func TestResync_TellsTheObjectThatTheHandlerWasToldLast(t *testing.T) {
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
			t.Error("a resync told an object that was not the last one")
		}
	})
}

func TestResync_WhenAHandlerHangs_IsNotToldAgain_AndOthersAre(t *testing.T) {
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
		// The resync that was due while it hung goes on; the new object comes with the next.
		time.Sleep(time.Minute)
		settle(t)
		if got := atAdd.take(); !slices.Contains(got, "add b") ||
			!slices.Contains(got, "resync b") {
			t.Errorf("after it has hung the handler was told %q", got)
		}
		if got := atResync.take(); !slices.Contains(got, "add b") ||
			!slices.Contains(got, "resync b") {
			t.Errorf("after it has hung the handler was told %q", got)
		}
		if atAdd.twice.Load() || atResync.twice.Load() {
			t.Error("a handler was told two things at once")
		}
		view.Shutdown()
	})
}

func TestResync_FollowsTheClockItIsGiven(t *testing.T) {
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
