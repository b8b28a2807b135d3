package sharing

import (
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/utils/clock"
)

// numbered is the read of a Lookup, whose values are the number of the request. It takes a second,
// lacks the key "none", and fails with the key "broken".
type numbered struct{ requests [][]string }

func (n *numbered) read(_ context.Context, keys []string) (map[string]int, error) {
	time.Sleep(time.Second)
	n.requests = append(n.requests, slices.Clone(keys))
	if slices.Contains(keys, "broken") {
		return nil, errors.New("unavailable")
	}
	found := map[string]int{}
	for _, key := range keys {
		if key != "none" {
			found[key] = len(n.requests)
		}
	}
	return found, nil
}

func TestLookup_ConcurrentCalls_ShareARequestOfDistinctKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n numbered
		l := NewLookup(nil, clock.RealClock{}, 0, n.read)
		defer l.Close()
		var calls sync.WaitGroup
		for _, keys := range [][]string{{"b", "a"}, {"a"}, {"none", "c"}} {
			calls.Go(func() {
				want := map[string]int{}
				for _, key := range keys {
					want[key] = 1
				}
				delete(want, "none")
				if got, err := l.Get(t.Context(), keys...); err != nil || !maps.Equal(got, want) {
					t.Errorf("%v: got %v, %v", keys, got, err)
				}
			})
		}
		calls.Wait()
		if want := [][]string{{"a", "b", "c", "none"}}; !reflect.DeepEqual(n.requests, want) {
			t.Errorf("the requests are for %v, want %v", n.requests, want)
		}
	})
}

func TestLookup_Answer_IsReusedUntilItsAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n numbered
		l := NewLookup(nil, clock.RealClock{}, time.Minute, n.read)
		defer l.Close()
		l.Keeps = func(value int) bool { return value != 3 }
		one := func(read func(context.Context, string) (int, bool, error), want int) {
			t.Helper()
			if got, _, err := read(t.Context(), "a"); err != nil || got != want {
				t.Errorf("got %d, %v, want %d", got, err, want)
			}
		}
		one(l.One, 1)
		time.Sleep(50 * time.Second)
		one(l.One, 1)
		if got, known := l.Recall("a"); !known || got != 1 {
			t.Errorf("recalled %d, %t", got, known)
		}
		time.Sleep(10 * time.Second)
		if got, known := l.Recall("a"); known {
			t.Errorf("recalled %d after its age", got)
		}
		one(l.One, 2)
		one(l.Renew, 3)
		one(l.One, 2) // the answer that is not kept does not replace the previous one
		found, err := l.Get(t.Context(), "none", "a")
		if want := map[string]int{"a": 2}; err != nil || !maps.Equal(found, want) {
			t.Errorf("got %v, %v, want %v", found, err, want)
		}
		if _, err := l.Get(t.Context(), "broken", "a"); err == nil {
			t.Error("the failure of a request is no error")
		}
		one(l.One, 2)
		want := [][]string{{"a"}, {"a"}, {"a"}, {"none"}, {"broken"}}
		if !reflect.DeepEqual(n.requests, want) {
			t.Errorf("the requests are for %v, want %v", n.requests, want)
		}
	})
}

func TestLookup_CallsDuringARequest_UseItOnlyWhereItIsRecentEnough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var n numbered
		l := NewLookup(nil, clock.RealClock{}, time.Minute, n.read)
		defer l.Close()
		var calls sync.WaitGroup
		call := func(read func(context.Context, string) (int, bool, error), want int) {
			calls.Go(func() {
				if got, _, err := read(t.Context(), "a"); err != nil || got != want {
					t.Errorf("got %d, %v, want %d", got, err, want)
				}
			})
		}
		call(l.One, 1)
		time.Sleep(time.Second / 2)
		call(l.One, 1)
		call(l.Renew, 2)
		calls.Wait()
	})
}
