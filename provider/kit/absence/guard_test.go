package absence

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

func TestGuard_ManyAbsent_RefusesUntilTheyAreBackAndDeniedAgain(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	var known []Instance
	for i := range 9 {
		known = append(known, Instance{Key: fmt.Sprint(i)})
	}
	var last Count
	g := New(Limits{Confirmation: 10 * time.Second, Number: 3, Share: 1.0 / 3},
		func() []Instance { return known }, func(c Count) { last = c })
	deny := func(key string, after time.Duration) error {
		now = now.Add(after)
		return g.Deny(key, now, now, false)
	}
	if err := deny("0", 0); !errors.Is(err, ErrUnconfirmed) {
		t.Fatalf("the first denial: %v", err)
	}
	if err := deny("0", 10*time.Second); err != nil {
		t.Fatalf("the second denial: %v", err)
	}
	for _, key := range []string{"1", "2", "3"} {
		known[1].IsUnlisted = true // counts once, although it is denied, too
		_ = deny(key, 0)
	}
	if want := (Count{Known: 9, Absent: 4, IsRefused: true, HasChanged: true}); last != want {
		t.Errorf("count %+v, want %+v", last, want)
	}
	if err := deny("0", time.Minute); !errors.Is(err, ErrMassDeletion) || !g.IsRefusing() {
		t.Errorf("while 4 of 9 are absent: %v, refusing %t", err, g.IsRefusing())
	}
	g.Found("3", now)
	if want := (Count{Known: 9, Absent: 3, HasChanged: true}); last != want {
		t.Errorf("count %+v, want %+v", last, want)
	}
	if err := deny("0", time.Minute); !errors.Is(err, ErrUnconfirmed) {
		t.Errorf("the first denial after the guard was lifted: %v", err)
	}
	if err := deny("0", 10*time.Second); err != nil {
		t.Errorf("the second denial after the guard was lifted: %v", err)
	}
}

func TestGuard_KubeletIsAlive_DenialsConfirmNothing(t *testing.T) {
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	g := New(Limits{Confirmation: 10 * time.Second, Number: 3, Share: 1},
		func() []Instance { return []Instance{{Key: "x"}} }, func(Count) {})
	for _, isAlive := range []bool{true, true, false} {
		if err := g.Deny("x", now, now, isAlive); !errors.Is(err, ErrUnconfirmed) {
			t.Errorf("alive %t: %v", isAlive, err)
		}
		now = now.Add(10 * time.Second)
	}
	if err := g.Deny("x", now, now, false); err != nil {
		t.Errorf("after two denials of a silent node: %v", err)
	}
}
