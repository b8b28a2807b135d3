package octavia

import (
	"fmt"
	"testing"
	"time"
)

// The test makes the pauses between looks as a caller does.
func TestNextLook_FollowsHowLongOctaviaTakes(t *testing.T) {
	const creation = 40 * time.Second
	w := newWorld(t)
	id := w.add("lb", 0, 0)
	other := w.add("other", 0, 0)
	looks := func(took time.Duration) (n int, late time.Duration) {
		w.setStatus(PendingCreate, id)
		began := w.clock.Now()
		w.Begin(id, PendingCreate)
		for {
			w.clock.Step(w.NextLook(id, PendingCreate))
			if w.clock.Since(began) >= took {
				w.setStatus(Active, id)
			}
			n++
			if lb, err := w.Get(within(t), id); err != nil {
				t.Fatal(err)
			} else if lb.Status == Active {
				return n, w.clock.Since(began) - took
			}
		}
	}
	check := func(what string, took time.Duration, most int) {
		t.Helper()
		if n, late := looks(took); n > most || late > took/2+minPause {
			t.Errorf("%s: %d looks, want at most %d; the last is %s late", what, n, most, late)
		}
	}
	check("the first", creation, 14)
	for range 20 {
		check("the next", creation, 3)
	}
	check("a slower one", 2*creation, 8)
	check("after a slower one", 2*creation, 4)

	// Octavia's own times show that a creation ended long before it was seen.
	at := w.clock.Now()
	w.Begin(id, PendingCreate)
	w.clock.Step(creation)
	w.paces.seeOne(w.clock.Now(), id,
		LoadBalancer{Status: Active, CreatedAt: at, UpdatedAt: at.Add(4 * time.Second)})
	first := func() time.Duration {
		w.Begin(id, PendingCreate)
		return w.NextLook(id, PendingCreate)
	}
	if pause := first(); pause != 5*time.Second {
		t.Errorf("after a creation of 4 s the first pause is %s", pause)
	}
	// They show the end between two looks.
	at = w.clock.Now()
	w.Begin(id, PendingCreate)
	w.clock.Step(4 * time.Second)
	w.paces.seeOne(w.clock.Now(), id, LoadBalancer{Status: PendingCreate})
	w.clock.Step(2 * time.Second)
	w.paces.seeOne(w.clock.Now(), id,
		LoadBalancer{Status: Active, CreatedAt: at, UpdatedAt: at.Add(5800 * time.Millisecond)})
	if pause := first(); pause != 5800*time.Millisecond {
		t.Errorf("after a creation of 5.8 s the first pause is %s", pause)
	}
	at = w.clock.Now()
	w.Begin(id, PendingCreate)
	w.clock.Step(creation)
	w.paces.seeOne(w.clock.Now(), id,
		LoadBalancer{Status: Active, CreatedAt: at, UpdatedAt: at.Add(4 * time.Second)})
	// Another creation explains a slow one.
	w.Begin(other, PendingCreate)
	w.clock.Step(creation)
	w.paces.seeOne(w.clock.Now(), id, LoadBalancer{Status: Active})
	if pause := first(); pause != 5*time.Second {
		t.Errorf("after one of two slow creations the first pause is %s", pause)
	}
}

func TestNextLook_ManyAreBusy_LooksComeTogether(t *testing.T) {
	w := newWorld(t)
	var ids []string
	for n := range sharingThreshold + 1 {
		ids = append(ids, w.add(fmt.Sprintf("lb-%d", n), 0, 0))
	}
	w.setStatus(PendingUpdate, ids...)
	if _, err := w.LoadBalancers(within(t), 0); err != nil {
		t.Fatal(err)
	}
	for n, id := range ids {
		w.Begin(id, PendingUpdate)
		want, age := time.Duration(0), listMaxAge
		if n == sharingThreshold {
			want, age = sharingPause, sharingPause
		}
		if pause := w.NextLook(id, PendingUpdate); pause != want || w.ListMaxAge() != age {
			t.Errorf("with %d the pause is %s, and a list may be %s old; want %s, %s", n+1, pause,
				w.ListMaxAge(), want, age)
		}
	}
	w.clock.Step(time.Second)
	for _, id := range ids {
		if pause := w.NextLook(id, PendingUpdate); pause != sharingPause-time.Second {
			t.Errorf("a second later the pause is %s", pause)
		}
	}
	w.clock.Step(sharingPause)
	if pause := w.NextLook(ids[0], PendingUpdate); pause != 0 {
		t.Errorf("when the list is old the pause is %s", pause)
	}
	w.setStatus(Active, ids...)
	until := w.clock.Now().Add(2 * sharingPeriod)
	for age := sharingPause; w.clock.Now().Before(until); w.clock.Step(time.Second) {
		if _, err := w.LoadBalancers(within(t), 0); err != nil {
			t.Fatal(err)
		}
		if w.clock.Since(w.paces.lastShared) >= sharingPeriod {
			age = listMaxAge
		}
		if w.ListMaxAge() != age {
			t.Errorf("when none is busy a list may be %s old, want %s", w.ListMaxAge(), age)
		}
		if ok, err := w.Expected(within(t), ids[0], 0); ok || err != nil {
			t.Errorf("work that is not under way is expected to end: %v", err)
		}
	}
}

func TestNextLook_WorkOfAnotherClient_TeachesNothing(t *testing.T) {
	w := newWorld(t)
	id := w.add("lb", 0, 0)
	w.setStatus(PendingUpdate, id)
	if pause := w.NextLook(id, PendingUpdate); pause != minPause {
		t.Errorf("the first pause is %s", pause)
	}
	w.clock.Step(time.Minute)
	w.setStatus(Active, id)
	if _, err := w.Get(within(t), id); err != nil {
		t.Fatal(err)
	}
	w.Begin(id, PendingUpdate)
	if pause := w.NextLook(id, PendingUpdate); pause != 0 {
		t.Errorf("the pause after a change is %s, as if its start was not seen", pause)
	}
}
