package ccm

import (
	"cmp"
	"slices"
	"sync"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/printable"
)

// maxTroubles bounds the subjects of one term, because each is a series of a metric, and maxSubject
// the characters of a subject.
const (
	maxTroubles = 32
	maxSubject  = 64
)

// troubles are the current problems of a term. They are safe for concurrent use.
type troubles struct {
	clock clock.PassiveClock
	// observe is called with the lock held when a problem appears or disappears.
	observe func(subject string, present bool)

	mu     sync.Mutex
	open   map[string]status.Trouble
	closed bool
}

func newTroubles(clock clock.PassiveClock, observe func(string, bool)) *troubles {
	return &troubles{clock: clock, observe: observe, open: map[string]status.Trouble{}}
}

// report is [ProviderEnv].ReportTrouble. It returns true if the problem is new.
func (t *troubles) report(subject string, cause error) (isNew bool) {
	subject = printable.Text(subject, maxSubject)
	t.mu.Lock()
	defer t.mu.Unlock()
	found, known := t.open[subject]
	switch {
	case t.closed:
	case cause == nil && known:
		delete(t.open, subject)
		t.observe(subject, false)
	case cause == nil:
	case known:
		found.Reason = printable.Text(cause.Error(), maxReason)
		t.open[subject] = found
	case len(t.open) < maxTroubles:
		t.open[subject] = status.Trouble{
			Subject: subject, Since: t.clock.Now(),
			Reason: printable.Text(cause.Error(), maxReason),
		}
		t.observe(subject, true)
		return true
	}
	return false
}

// close withdraws all problems. Later reports are ignored, because their term is over.
func (t *troubles) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.closed = true
	for subject := range t.open {
		t.observe(subject, false)
	}
	clear(t.open)
}

// list returns the open problems, sorted by subject.
func (t *troubles) list() []status.Trouble {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []status.Trouble
	for _, trouble := range t.open {
		all = append(all, trouble)
	}
	slices.SortFunc(all, func(a, b status.Trouble) int { return cmp.Compare(a.Subject, b.Subject) })
	return all
}
