package routes

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"
)

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	deadline := time.Now().Add(30 * time.Second)
	for !is() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

func TestKeyedLocks_KeepOneKeyApart_AndForgetIt(t *testing.T) {
	k := keyedLocks{held: map[string]*keyedLock{}}
	inside := map[string]int{}
	var callers sync.WaitGroup
	for i := range 100 {
		key := string(rune('a' + i%3))
		callers.Go(func() {
			unlock, err := k.lock(t.Context(), key)
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			k.mu.Lock()
			inside[key]++
			if inside[key] > 1 {
				t.Errorf("two hold %s", key)
			}
			k.mu.Unlock()
			k.mu.Lock()
			inside[key]--
			k.mu.Unlock()
		})
	}
	callers.Wait()
	unlock, err := k.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	ctx, giveUp := context.WithCancel(t.Context())
	giveUp()
	if _, err := k.lock(ctx, "a"); !errors.Is(err, context.Canceled) {
		t.Errorf("who gave up gets %v", err)
	}
	unlock()
	if len(k.held) != 0 {
		t.Errorf("%d locks are left behind", len(k.held))
	}
}
