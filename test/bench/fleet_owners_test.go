package main

import (
	"bytes"
	"runtime"
	"runtime/pprof"
	"sync"
	"testing"
)

// profileOf is a profile of this process, by owner.
func profileOf(t *testing.T, name string, owner func([]string) string) amounts {
	t.Helper()
	var text bytes.Buffer
	if err := pprof.Lookup(name).WriteTo(&text, 0); err != nil {
		t.Fatal(err)
	}
	byOwner, err := parseProfile(&text, owner)
	if err != nil {
		t.Fatal(err)
	}
	return byOwner
}

func TestOwners_GoroutinesAreCountedByTheirFirstFunction(t *testing.T) {
	const n = 7
	stop := make(chan struct{})
	var started sync.WaitGroup
	started.Add(n)
	for range n {
		go waitFor(&started, stop)
	}
	defer close(stop)
	started.Wait()
	byOwner := profileOf(t, "goroutine", firstFunction)
	if got := byOwner["test/bench.waitFor"]; got != n {
		t.Errorf("%v goroutines began with waitFor, want %d: %v", got, n, byOwner)
	}
}

func waitFor(started *sync.WaitGroup, stop <-chan struct{}) {
	started.Done()
	<-stop
}

func TestOwners_MemoryBelongsToThePackageThatUsesIt(t *testing.T) {
	const mebibytesKept, kibibytesEach = 32, 16
	kept := make([]*bytes.Buffer, mebibytesKept<<10/kibibytesEach)
	for i := range kept {
		kept[i] = bytes.NewBuffer(nil)
		kept[i].Grow(kibibytesEach << 10) // of package bytes, which owns nothing
	}
	runtime.GC()
	byOwner := profileOf(t, "heap", ownerOf)
	runtime.KeepAlive(kept)
	// A sampled profile estimates.
	if got := byOwner["fxccm"]; got < mebibytesKept<<19 || got > mebibytesKept<<21 {
		t.Errorf("fxccm has %.0f bytes, want about %d: %v", got, mebibytesKept<<20, byOwner)
	}
}
