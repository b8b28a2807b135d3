package cloudcontrollers

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/printable"
	"github.com/fxccm/fxccm/internal/rights"
)

const (
	// maxPause limits the pause before the next try.
	maxPause = time.Minute
	// repeatFailure is the time after which an unchanged failure is reported again. The API server
	// deletes events after an hour.
	repeatFailure = 30 * time.Minute
	// routesTrouble and toPatch are the subjects of problems: tries that fail, and a missing right,
	// which the accounts of other controllers may have.
	routesTrouble = "routes"
	toPatch       = "permission to patch nodes/status for routes"
)

// pauses has the tries that failed. Upstream's controller of routes tries everything again in each
// pass, every few seconds, and logs each failure. With pauses, it tries later each time. It is safe
// for concurrent use.
type pauses struct {
	// first is the pause after the first failure. It doubles up to maxPause.
	first time.Duration
	// trouble is called for a problem that lasts, and with nil at its end.
	trouble func(subject string, cause error)

	mu     sync.Mutex
	failed map[try]failedTry
}

// A try is a step of a pass, which may fail.
type try struct {
	// step is an infinitive, such as "list the routes".
	step string
	// input is what the step was tried with. With another input, it may succeed at once.
	input string
	// right is the right of the API server that the step needs, if any.
	right string
}

type failedTry struct {
	cause        error
	at, reported time.Time
	pause        time.Duration
	// isRepeated: it has failed more than once.
	isRepeated bool
}

// newPauses returns pauses for passes with a period. The second pass tries everything again.
func newPauses(period time.Duration, trouble func(subject string, cause error)) *pauses {
	return &pauses{first: period / 2, trouble: trouble, failed: map[try]failedTry{}}
}

// note records the result of a try. It returns true if the failure has to be reported: it is new,
// or it was reported long ago.
func (p *pauses) note(tried try, err error) (report bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, isRepeated := p.failed[tried]
	if err == nil {
		delete(p.failed, tried)
	} else {
		now := time.Now()
		report = !isRepeated || !isSameCause(last.cause, err) ||
			now.Sub(last.reported) >= repeatFailure
		if report {
			last.reported = now
		}
		last.cause, last.at, last.isRepeated = err, now, isRepeated
		last.pause = min(max(2*last.pause, p.first), maxPause)
		p.failed[tried] = last
	}
	if isRepeated {
		p.reportTroubles()
	}
	return report
}

func isSameCause(a, b error) bool {
	return printable.WithoutIDs(a.Error()) == printable.WithoutIDs(b.Error())
}

// last reports whether the pause after a failure has not ended.
func (p *pauses) last(tried try) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	failed := p.failed[tried]
	return time.Since(failed.at) < failed.pause
}

// isDue reports whether the pause after a failure has ended.
func (p *pauses) isDue() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, failed := range p.failed {
		if time.Since(failed.at) >= failed.pause {
			return true
		}
	}
	return false
}

// keep forgets all failures except those of the tries.
func (p *pauses) keep(tries map[try]bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	maps.DeleteFunc(p.failed, func(tried try, _ failedTry) bool { return !tries[tried] })
	p.reportTroubles()
}

// reportTroubles reports the tries that have failed more than once. mu is held.
func (p *pauses) reportTroubles() {
	lasting := map[string][]try{routesTrouble: nil, toPatch: nil}
	for tried, failed := range p.failed {
		if failed.isRepeated {
			subject := routesTrouble
			if tried.right != "" && rights.IsMissing(failed.cause) {
				subject = tried.right
			}
			lasting[subject] = append(lasting[subject], tried)
		}
	}
	for subject, all := range lasting {
		p.trouble(subject, p.causeOf(all))
	}
}

// causeOf names one of the tries, always the same, so that the reason changes seldom. mu is held.
func (p *pauses) causeOf(tries []try) error {
	if len(tries) == 0 {
		return nil
	}
	named := slices.MinFunc(tries, func(a, b try) int {
		return cmp.Or(cmp.Compare(a.step, b.step), cmp.Compare(a.input, b.input))
	})
	cause := fmt.Errorf("%s: %w", named.step, p.failed[named].cause)
	if others := len(tries) - 1; others > 0 {
		cause = fmt.Errorf("%w (further failures: %d)", cause, others)
	}
	return cause
}
