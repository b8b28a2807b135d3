package ratelimit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// FuzzTurns checks the guarantees of the turns after any sequence of requests, turns and
// cancellations.
func FuzzTurns(f *testing.F) {
	f.Add([]byte{0, 0, 0, 1, 2, 200, 200, 200, 3, 100, 200, 200})
	f.Add([]byte{0, 1, 0, 100, 101, 1, 200, 0, 200, 200, 200})
	f.Fuzz(func(t *testing.T, steps []byte) {
		var queue turns
		waiting := map[Flow][]*ticket{}
		// overtaken counts the turns of another flow while a flow waits for its own.
		overtaken := map[[2]Flow]int{}
		forget := func(f Flow) {
			for pair := range overtaken {
				if pair[0] == f {
					delete(overtaken, pair)
				}
			}
		}
		for _, step := range steps {
			f := Flow{Cluster: fmt.Sprint(step % 5)}
			switch {
			case step < 100:
				if len(waiting[f]) == 0 {
					forget(f)
				}
				one := &ticket{granted: make(chan struct{})}
				waiting[f] = append(waiting[f], one)
				queue.push(f, one)
			case step < 150:
				if len(waiting[f]) == 0 {
					if queue.remove(f, &ticket{}) {
						t.Fatalf("a request of %v left that did not wait", f)
					}
					continue
				}
				at := int(step) % len(waiting[f])
				if !queue.remove(f, waiting[f][at]) {
					t.Fatalf("a waiting request of %v could not leave", f)
				}
				waiting[f] = slices.Delete(waiting[f], at, at+1)
			default:
				queue.pop()
				served := grantedOf(t, waiting)
				if served == nil {
					for f, left := range waiting {
						if len(left) > 0 {
							t.Fatalf("%d requests of %v wait, but none got the turn", len(left), f)
						}
					}
					continue
				}
				waiting[*served] = waiting[*served][1:]
				forget(*served)
				for other, left := range waiting {
					if pair := [2]Flow{other, *served}; other != *served && len(left) > 0 {
						if overtaken[pair]++; overtaken[pair] > 1 {
							t.Fatalf("%v got two turns while %v waited", *served, other)
						}
					}
				}
			}
		}
	})
}

// grantedOf returns the flow whose first request has got its turn.
func grantedOf(t *testing.T, waiting map[Flow][]*ticket) *Flow {
	t.Helper()
	var served *Flow
	for f, all := range waiting {
		for i, one := range all {
			select {
			case <-one.granted:
			default:
				continue
			}
			if served != nil || i > 0 {
				t.Fatalf("request %d of %v got a turn out of order", i, f)
			}
			served = &f
		}
	}
	return served
}

func TestQueue_ManyWait_KeepsRateAndLosesNoTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const perSecond, burst, requests = 10, 5, 200
		q := New(perSecond, burst, clock.RealClock{})
		begun := time.Now()
		canceled, cancel := context.WithCancelCause(t.Context())
		errLeft := errors.New("the caller has left")
		var mu sync.Mutex
		var sent []time.Duration
		var all sync.WaitGroup
		for i := range requests {
			ctx := t.Context()
			if i%2 == 1 {
				ctx = canceled
			}
			all.Go(func() {
				_, err := q.wait(ctx, Flow{Cluster: fmt.Sprint(i % 7)})
				mu.Lock()
				defer mu.Unlock()
				switch {
				case err == nil:
					sent = append(sent, time.Since(begun))
				case !errors.Is(err, errLeft):
					t.Error(err)
				}
			})
		}
		time.Sleep(1500 * time.Millisecond)
		cancel(errLeft)
		all.Wait()
		for i, at := range sent {
			if earliest := time.Duration(i-burst+1) * time.Second / perSecond; at < earliest-
				time.Millisecond {
				t.Fatalf("request %d was sent after %s, before %s", i, at, earliest)
			}
		}
		last := sent[len(sent)-1]
		if expected := time.Duration(len(sent)-burst) * time.Second / perSecond; len(sent) <
			requests/2 || last > expected+10*time.Millisecond {
			t.Errorf("%d requests took %s, expected %s", len(sent), last, expected)
		}
		q.Close()
	})
}

func TestQueue_CloudRefuses_PausesAllFlows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := New(1000, 1000, clock.RealClock{})
		q.pause(30 * time.Second)
		q.pause(10 * time.Second)
		begun := time.Now()
		var all sync.WaitGroup
		for _, f := range []string{"a", "b"} {
			all.Go(func() {
				waited, err := q.wait(t.Context(), Flow{Cluster: f})
				if err != nil || waited != 30*time.Second || time.Since(begun) != waited {
					t.Errorf("%s waited %s, %v", f, waited, err)
				}
			})
		}
		left, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		if _, err := q.wait(left, Flow{Cluster: "a"}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a caller with a deadline got %v", err)
		}
		all.Wait()
		if waited, err := q.wait(t.Context(), Flow{}); err != nil || waited > 0 {
			t.Errorf("after the pause: waited %s, %v", waited, err)
		}
	})
}
