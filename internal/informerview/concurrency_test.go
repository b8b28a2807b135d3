package informerview_test

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

func TestSharedView_ConcurrentUsers_LeaveNoGoroutine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := runningHost(t, time.Second)
		defer h.end()
		for i := range 10 {
			h.createNode(fmt.Sprint("node-", i))
		}
		for range 5 {
			view := h.shared.View()
			var mu sync.Mutex
			var all []*recorder
			var users sync.WaitGroup
			for range 20 {
				users.Go(func() {
					for {
						scope := view.Scope()
						r := &recorder{}
						informer := scope.Core().V1().Nodes().Informer()
						handle, err := informer.AddEventHandlerWithResyncPeriod(r, time.Second)
						if errors.Is(err, informerview.ErrTermOver) {
							return
						}
						if err != nil {
							t.Error(err)
							return
						}
						mu.Lock()
						all = append(all, r)
						mu.Unlock()
						time.Sleep(1500 * time.Millisecond)
						if err := informer.RemoveEventHandler(handle); err != nil {
							t.Error(err)
						}
						if _, err := informer.AddEventHandler(
							cache.ResourceEventHandlerFuncs{}); err != nil &&
							!errors.Is(err, informerview.ErrTermOver) {
							t.Error(err)
						}
						view.StartWithContext(t.Context())
						_ = view.Problem()
						_ = view.Warnings()
						scope.Close()
					}
				})
			}
			// This is not a multiple of the users' period, so the term ends while they work.
			time.Sleep(10 * time.Second)
			var ends sync.WaitGroup
			for range 3 {
				ends.Go(view.Shutdown)
			}
			ends.Wait()
			users.Wait()
			expectGoroutines(t, "after the term", listening, 0)
			told := 0
			for _, r := range all {
				told += len(r.take())
			}
			h.createNode("late")
			h.deleteNode("late")
			time.Sleep(time.Hour)
			settle(t)
			for _, r := range all {
				if events := r.take(); len(events) > 0 {
					t.Errorf("after the term a handler received %q", events)
				}
				if r.twice.Load() {
					t.Error("a handler received two notifications at once")
				}
			}
			// Each handler gets ten nodes.
			if told < 10*len(all)/2 {
				t.Errorf("%d handlers received %d notifications, expected more", len(all), told)
			}
		}
	})
}
