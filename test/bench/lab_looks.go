package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/fxccm/fxccm/test/internal/project"
)

// lookInterval is the time between two lists of Octavia, and the precision of its times.
const lookInterval = 500 * time.Millisecond

// looksPath is what the benchmark itself asks Octavia for while it counts. fxccm asks for its
// fields in another order, so its lists can be told from these.
const looksPath = "/lbaas/loadbalancers?fields=provisioning_status&fields=id"

// A look is what Octavia said of all load balancers of the project.
type look struct {
	at time.Time
	// states are the provisioning statuses, by the load balancer's id.
	states map[string]string
}

func (l look) pending() bool {
	for _, state := range l.states {
		if isPending(state) {
			return true
		}
	}
	return false
}

// isPending: Octavia is at work (PENDING_CREATE, PENDING_UPDATE, PENDING_DELETE).
func isPending(state string) bool { return strings.HasPrefix(state, "PENDING_") }

// octavia is watched for what it does by itself, from watchOctavia until stop.
type octavia struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	looks looks
}

// watchOctavia aborts the trial if Octavia does not answer.
func (t *labTrial) watchOctavia() *octavia {
	ctx, cancel := context.WithCancel(t.Context())
	o := &octavia{cancel: cancel, done: make(chan struct{})}
	api := t.cloud.User().API()
	go func() {
		defer close(o.done)
		wait.UntilWithContext(ctx, func(ctx context.Context) {
			l := look{at: time.Now(), states: map[string]string{}}
			all, err := api.List(ctx, project.LoadBalancer, looksPath, "loadbalancers")
			if ctx.Err() != nil {
				return
			}
			if err != nil {
				t.Abort(fmt.Errorf("watch Octavia: %w", err))
				return
			}
			for _, lb := range all {
				l.states[project.ID(lb)] = project.Text(lb, "provisioning_status")
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.looks = append(o.looks, l)
		}, lookInterval)
	}()
	return o
}

// isAtRest tells whether a look that was begun after the moment saw that nothing is pending.
func (o *octavia) isAtRest(after time.Time) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.looks) == 0 {
		return false
	}
	last := o.looks[len(o.looks)-1]
	return last.at.After(after) && !last.pending()
}

// stop ends the watch, and tells what was seen.
func (o *octavia) stop() looks {
	o.cancel()
	<-o.done
	return o.looks
}

// looks are one after the other.
type looks []look

// pending is how long at least one load balancer was, how long all were together, each for itself,
// and how many ever were.
func (l looks) pending() (any, together time.Duration, balancers int) {
	ever := map[string]bool{}
	for i := range max(0, len(l)-1) {
		until := l[i+1].at.Sub(l[i].at)
		if l[i].pending() {
			any += until
		}
		for id, state := range l[i].states {
			if isPending(state) {
				ever[id] = true
				together += until
			}
		}
	}
	return any, together, len(ever)
}

// rest is the first look at which nothing was pending any more; zero if there never was anything.
func (l looks) rest() (at time.Time) {
	for i := range max(0, len(l)-1) {
		if l[i].pending() {
			at = l[i+1].at
		}
	}
	return at
}
