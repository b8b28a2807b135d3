package ccm

import (
	"fmt"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/printable"
)

// describe lists activities with their ages.
func describe(all []status.Activity, now time.Time) string {
	texts := make([]string, 0, len(all))
	for _, a := range all {
		texts = append(texts, fmt.Sprintf("%s (%s)", a, now.Sub(a.Since).Round(time.Second)))
	}
	return strings.Join(texts, ", ")
}

// activities returns the term's unfinished goroutines and then its calls in flight, oldest first.
func (t *termRun) activities() []status.Activity {
	var all []status.Activity
	for _, a := range t.tasks.List() {
		all = append(all, newActivity("", a))
	}
	for _, a := range t.fence.InFlight() {
		all = append(all, newActivity("call ", a))
	}
	return all
}

// maxActivity is how many characters of a name or an object are in an Activity: paths of requests
// have several names, which may be the API server's.
const maxActivity = 1024

func newActivity(prefix string, a inflight.Activity) status.Activity {
	if a.Lasting {
		prefix = ""
	}
	return status.Activity{
		Name:   printable.Text(prefix+a.Name, maxActivity),
		Object: printable.Text(a.Object, maxActivity), Since: a.Since, MayAct: a.MayAct,
	}
}

const (
	// slowRead and slowWrite are how long a call without a deadline may take before Status warns
	// about it. Some providers wait for minutes until a load balancer is ready.
	slowRead  = 10 * time.Second
	slowWrite = time.Minute

	// deadlineTolerance is the time that a call has to return after its deadline.
	deadlineTolerance = time.Second
)

// overdue returns a warning for each call that should have returned by now.
func overdue(calls []inflight.Activity, now time.Time) []string {
	var all []string
	for _, call := range calls {
		limit := call.Since.Add(slowRead)
		switch {
		case call.Lasting:
			continue
		case !call.Deadline.IsZero():
			limit = call.Deadline.Add(deadlineTolerance)
		case call.MayAct:
			limit = call.Since.Add(slowWrite)
		}
		if now.Before(limit) {
			continue
		}
		all = append(all, fmt.Sprintf("%s has not returned since %s",
			newActivity("call ", call), call.Since.UTC().Format(time.RFC3339)))
	}
	return all
}
