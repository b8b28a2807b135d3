package ccm

import (
	"fmt"
	"sync"
	"time"

	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/internal/informerview"
)

// termStatus collects the state of a term. It is safe for concurrent use.
type termStatus struct {
	mu      sync.Mutex
	phase   status.State
	step    string
	isReady bool
	// view are the term's informers after their start.
	view *informerview.View
	// objects is set while the term is open, if the provider reports its objects. unregister ends
	// their metrics.
	objects     *objects
	unregister  func()
	controllers map[string]status.Controller
	runnables   map[string]Runnable
}

func newTermStatus() *termStatus {
	return &termStatus{
		phase:       status.Leading,
		controllers: map[string]status.Controller{},
		runnables:   map[string]Runnable{},
	}
}

func (s *termStatus) opening(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step
}

// syncing publishes the informers, so that fill can report their failures.
func (s *termStatus) syncing(view *informerview.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.view = "sync informers", view
}

// informers returns the term's informers after their start.
func (s *termStatus) informers() *informerview.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
}

// reporting publishes the provider, so that snapshots have the state of its objects.
// unregister ends the metrics of the objects.
func (s *termStatus) reporting(o *objects, unregister func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.phase != status.Leading {
		unregister()
		return
	}
	s.objects, s.unregister = o, unregister
}

// reporter returns nil if the provider does not report its objects, or the term is not open.
func (s *termStatus) reporter() *objects {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.objects
}

func (s *termStatus) ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.isReady = "", true
}

func (s *termStatus) draining() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.phase, s.step, s.view, s.isReady = status.Draining, "", nil, false
	if s.objects != nil {
		s.objects = nil
		s.unregister()
	}
}

// running is called before the term is ready, so that a ready term has running controllers.
func (s *termStatus) running(name string, r Runnable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runnables[name] = r
	s.controllers[name] = status.Controller{
		Name: name, State: status.ControllerRunning, Restarts: s.controllers[name].Restarts,
	}
}

func (s *termStatus) controller(name string, state status.ControllerState, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current := status.Controller{Name: name, State: state, Restarts: s.controllers[name].Restarts}
	if reason != nil {
		current.Reason = explain(reason)
	}
	s.controllers[name] = current
	delete(s.runnables, name)
}

// retrying records that a controller has failed and restarts at a time.
func (s *termStatus) retrying(name string, reason error, at time.Time) {
	s.controller(name, status.ControllerFailed, reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	current := s.controllers[name]
	current.RetryAt = at
	current.Restarts++
	s.controllers[name] = current
}

// runnable returns the named controller if it runs.
func (s *termStatus) runnable(name string) (Runnable, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.runnables[name]
	return r, ok
}

// retries returns a warning for each failed controller that is about to restart.
func (s *termStatus) retries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, c := range s.controllers {
		if !c.RetryAt.IsZero() {
			all = append(all,
				fmt.Sprintf("controller %s failed and is restarting: %s", c.Name, c.Reason))
		}
	}
	return all
}

// fill adds the state of the term to a snapshot.
func (s *termStatus) fill(current *status.Manager) {
	s.mu.Lock()
	defer s.mu.Unlock()
	current.State, current.Step, current.Ready = s.phase, s.step, s.isReady
	if s.view == nil {
		return
	}
	failure := s.view.Failure
	if s.isReady {
		// An informer that has not synced then is why a controller has failed.
		failure = s.view.Stopped
	}
	if err := failure(); err != nil {
		current.State, current.Reason = status.Degraded, explain(err)
	}
}

// fillControllers adds the states of the term's controllers to a snapshot.
func (s *termStatus) fillControllers(current *status.Manager) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range current.Controllers {
		if own, ok := s.controllers[c.Name]; ok {
			current.Controllers[i] = own
		}
	}
}
