package ccm

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/guard"
)

// panicLog counts the panics of a term's provider by call. It is safe for concurrent use.
type panicLog struct {
	mu     sync.Mutex
	byCall map[string]*panicCount
}

type panicCount struct {
	count int
	last  time.Time
	value string
}

// add counts a panic, and reports whether it is the first of its call in the term.
func (l *panicLog) add(err *guard.PanicError) (first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.byCall == nil {
		l.byCall = map[string]*panicCount{}
	}
	found := l.byCall[err.Call]
	if found == nil {
		found = &panicCount{}
		l.byCall[err.Call] = found
	}
	found.count++
	found.last, found.value = time.Now(), fmt.Sprint(err.Value)
	return found.count == 1
}

// warnings returns a sentence for each call that has panicked.
func (l *panicLog) warnings() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for call, found := range l.byCall {
		all = append(all, fmt.Sprintf("the cloud provider panicked %d times in %s, last at %s: %s",
			found.count, call, found.last.Format(time.TimeOnly), found.value))
	}
	slices.Sort(all)
	return all
}

// panicked records a panic of the provider. A fatal panic ends the term, because the provider's
// answer decides which controllers run.
func (t *termRun) panicked(err *guard.PanicError, fatal bool) {
	if fatal {
		t.fail(err)
		return
	}
	if t.panics.add(err) {
		t.warn("ProviderPanicked", err.Error()+"; the call failed, and the stack is in the log")
	}
}
