package locks

import (
	"context"
	"errors"
	"sync"
	"testing"
)

func TestLocks_OneAtATimeForEachName(t *testing.T) {
	var l Locks
	var alive sync.WaitGroup
	inside := map[string]int{}
	for i := range 200 {
		name := []string{"a", "b", "c"}[i%3]
		alive.Go(func() {
			unlock, err := l.Lock(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			if name == "a" {
				// Both the race detector and this counter detect two holders.
				inside[name]++
			}
		})
	}
	alive.Wait()
	if inside["a"] != 67 || l.Held() > 0 {
		t.Errorf("%d were inside, %d locks are left", inside["a"], l.Held())
	}
}

func TestLocks_WaitEndsWithItsContext(t *testing.T) {
	var l Locks
	unlock, err := l.Lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the term is over")
	cancel(why)
	if _, err := l.Lock(gone, "a"); !errors.Is(err, why) {
		t.Errorf("the wait ended with %v", err)
	}
	if _, ok := l.TryLock("a"); ok {
		t.Error("two callers hold the lock")
	}
	other, ok := l.TryLock("b")
	if !ok {
		t.Fatal("the lock of another name is held")
	}
	other()
	unlock()
	unlock()
	again, ok := l.TryLock("a")
	if !ok {
		t.Fatal("the lock was not released")
	}
	again()
	if l.Held() > 0 {
		t.Errorf("%d locks are held", l.Held())
	}
}
