package main

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

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
	api    *project.API
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	looks []look
	err   error
	// news is closed at the next look, and replaced.
	news chan struct{}
}

func watchOctavia(ctx context.Context, api *project.API) *octavia {
	ctx, cancel := context.WithCancel(ctx)
	o := &octavia{api: api, cancel: cancel, done: make(chan struct{}), news: make(chan struct{})}
	go func() {
		defer close(o.done)
		for {
			l, err := o.look(ctx)
			if ctx.Err() != nil {
				return
			}
			o.keep(l, err)
			select {
			case <-ctx.Done():
				return
			case <-time.After(lookInterval):
			}
		}
	}()
	return o
}

func (o *octavia) look(ctx context.Context) (look, error) {
	at := time.Now()
	answer, err := o.api.Do(ctx, http.MethodGet, project.LoadBalancer, looksPath, nil)
	if err != nil {
		return look{}, err
	}
	if answer.Status != http.StatusOK {
		return look{}, fmt.Errorf("%s", answer)
	}
	l := look{at: at, states: map[string]string{}}
	for _, lb := range objects(answer, "loadbalancers") {
		l.states[project.ID(lb)] = project.Text(lb, "provisioning_status")
	}
	return l, nil
}

// objects are those of a list in an answer.
func objects(answer project.Answer, key string) (all []project.Object) {
	items, _ := answer.Object()[key].([]any)
	for _, item := range items {
		if o, ok := item.(project.Object); ok {
			all = append(all, o)
		}
	}
	return all
}

func (o *octavia) keep(l look, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if err != nil {
		o.err = err
	} else {
		o.looks = append(o.looks, l)
	}
	close(o.news)
	o.news = make(chan struct{})
}

// awaitRest waits until a look that was begun after the moment sees that nothing is pending.
func (o *octavia) awaitRest(ctx context.Context, after time.Time) error {
	for {
		o.mu.Lock()
		last, err, news := look{}, o.err, o.news
		if len(o.looks) > 0 {
			last = o.looks[len(o.looks)-1]
		}
		o.mu.Unlock()
		switch {
		case err != nil:
			return fmt.Errorf("watch Octavia: %w", err)
		case last.at.After(after) && !last.pending():
			return nil
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fmt.Errorf("wait for Octavia: %w", context.Cause(ctx))
		}
	}
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
