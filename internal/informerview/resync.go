package informerview

import (
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// never is client-go's period for a handler without resync.
	never time.Duration = 0
	// minimumResync is the shortest period, as in client-go's informers (tools/cache:
	// minimumResyncPeriod).
	minimumResync = time.Second
)

// ticker resyncs the handlers of a view, each at its own period, without jitter as client-go's
// informers. One goroutine watches the clock while there are handlers to resync; each resync has
// its own goroutine, so a handler that hangs delays no other.
type ticker struct {
	clock clock.Clock

	mu      sync.Mutex
	due     map[*registration]time.Time
	busy    map[*registration]bool
	running bool
	// began reports that the ticker has had a handler to resync.
	began   bool
	changed chan struct{}

	goroutines sync.WaitGroup
}

func newTicker(c clock.Clock) *ticker {
	return &ticker{
		clock:   c,
		due:     map[*registration]time.Time{},
		busy:    map[*registration]bool{},
		changed: make(chan struct{}, 1),
	}
}

func (t *ticker) add(r *registration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.due[r] = t.clock.Now().Add(r.period)
	if !t.running {
		t.running, t.began = true, true
		t.goroutines.Go(t.run)
	}
	t.notify()
}

func (t *ticker) drop(r *registration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.due, r)
	t.notify()
}

// used reports whether there has ever been a handler to resync.
func (t *ticker) used() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.began
}

func (t *ticker) notify() {
	select {
	case t.changed <- struct{}{}:
	default: // run has not received the previous change yet
	}
}

// wait returns when no resync is in flight. The caller has dropped all handlers and adds none.
func (t *ticker) wait() { t.goroutines.Wait() }

func (t *ticker) run() {
	for {
		pause, more := t.next()
		if !more {
			return
		}
		timer := t.clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-t.changed:
			timer.Stop()
		}
	}
}

// next starts the resyncs that are due, and returns the time until the next one. If there are no
// more resyncs, the goroutine ends.
func (t *ticker) next() (pause time.Duration, more bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.clock.Now()
	for r, due := range t.due {
		if !due.After(now) {
			t.begin(r)
			due = now.Add(r.period)
			t.due[r] = due
		}
		if left := due.Sub(now); !more || left < pause {
			pause, more = left, true
		}
	}
	t.running = more
	return pause, more
}

// begin resyncs a handler, unless its last resync is still in flight.
func (t *ticker) begin(r *registration) {
	if t.busy[r] {
		return
	}
	t.busy[r] = true
	t.goroutines.Go(func() {
		defer t.finished(r)
		r.resync()
	})
}

func (t *ticker) finished(r *registration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.busy, r)
}
