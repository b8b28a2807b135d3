package ccm

import (
	"fmt"
	"sync"
	"time"

	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/informerview"
)

// State is the state of a [Manager].
type State string

// The states of a Manager.
const (
	// StateStopped: Run is not running.
	StateStopped State = "stopped"
	// StateStandby: campaigning while another process leads.
	StateStandby State = "standby"
	// StateLeading: a term is open. It is ready when Status.Ready is true.
	StateLeading State = "leading"
	// StateDraining: a term is ending.
	StateDraining State = "draining"
	// StateDegraded: an operation failed and is retried; Status.Reason has the error.
	StateDegraded State = "degraded"
)

// Status is a snapshot of a [Manager]. It contains no secrets.
type Status struct {
	State State `json:"state"`

	// Reason explains a degraded state, a standby that waits although the lease is free, or why Run
	// ended.
	Reason string `json:"reason,omitempty"`

	// RetryAt is when the next term is tried after one has failed.
	RetryAt time.Time `json:"retryAt,omitzero"`

	// Term is the number of the current term, or of the last one; 0 before the first.
	Term uint64 `json:"term"`

	// Ready reports whether the term's controllers run, except for those that have failed.
	Ready bool `json:"ready"`

	// Step is the current step of a term that opens.
	Step string `json:"step,omitempty"`

	// Provider is the name of the cloud provider.
	Provider string `json:"provider"`

	// Warnings are problems that do not degrade the state, sorted. A warning about the setup holds
	// for the life of the Manager, and Run logs it when it begins: metrics are not registered,
	// leader election is off, or the certificate of the API server is not verified.
	Warnings []string `json:"warnings,omitempty"`

	// Troubles are the problems that the provider has reported with [ProviderEnv].ReportTrouble,
	// and those of the four cloud controllers: rights that they or the events lack, routes that
	// cannot be listed, created or deleted, or whose conditions cannot be written, and informers
	// that cannot list or watch any more. They are sorted by subject.
	Troubles []TroubleStatus `json:"troubles,omitempty"`

	Election    election.Status    `json:"election"`
	Controllers []ControllerStatus `json:"controllers"`

	// Terms are the last 10 terms, newest first. The first one may not have ended.
	Terms []TermStatus `json:"terms,omitempty"`

	// LoadBalancers are the load balancers of the open term, worst first, if the provider is an
	// [ObjectReporter].
	LoadBalancers []LoadBalancerStatus `json:"loadBalancers,omitempty"`

	// Nodes are the nodes that wait for their initialization, and those that cannot be updated,
	// looked up or deleted, oldest first. The entries of a provider that is an [ObjectReporter]
	// replace those of the node controllers, except of nodes that cannot be written.
	Nodes []NodeStatus `json:"nodes,omitempty"`

	// Running are the unfinished goroutines and calls of all terms, including terms that exceeded
	// their drain timeout.
	Running []Activity `json:"running,omitempty"`
}

// TermStatus is the course of one term.
type TermStatus struct {
	// Number is that of [Term.Number].
	Number uint64    `json:"number"`
	Began  time.Time `json:"began"`

	// Opened is when the term became ready. It is zero if the term ended before.
	Opened time.Time `json:"opened,omitzero"`

	// DrainBegan is when the drain began, and Reason says why.
	DrainBegan time.Time `json:"drainBegan,omitzero"`
	Reason     string    `json:"reason,omitempty"`

	// Ended is when the drain ended or timed out.
	Ended time.Time `json:"ended,omitzero"`

	// End is how the term ended: "stopped", "lost", "failed" or "drain_timeout", as in the metric
	// fxccm_terms_ended_total. It is empty until then.
	End string `json:"end,omitempty"`
}

// ControllerState is the state of a controller.
type ControllerState string

// The states of a controller.
const (
	// ControllerDisabled: left out by --controllers.
	ControllerDisabled ControllerState = "disabled"
	// ControllerWaiting: enabled, but there is no open term.
	ControllerWaiting ControllerState = "waiting"
	// ControllerSkipped: the controller has no work in this term; Reason explains it.
	ControllerSkipped ControllerState = "skipped"
	// ControllerRunning: the controller's Run is running.
	ControllerRunning ControllerState = "running"
	// ControllerFailed: New failed, or Run returned early; Reason has the error. If RetryAt is set,
	// the controller is built again then, otherwise its term ends.
	ControllerFailed ControllerState = "failed"
	// ControllerStopped: ended with its term.
	ControllerStopped ControllerState = "stopped"
)

// ControllerStatus is a snapshot of one controller.
type ControllerStatus struct {
	Name   string          `json:"name"`
	State  ControllerState `json:"state"`
	Reason string          `json:"reason,omitempty"`

	// RetryAt is when a failed controller restarts within its term.
	RetryAt time.Time `json:"retryAt,omitzero"`

	// Restarts counts how often the controller was restarted within its term.
	Restarts int `json:"restarts,omitempty"`
}

// termStatus collects the state of a term. It is safe for concurrent use.
type termStatus struct {
	mu      sync.Mutex
	phase   State
	step    string
	isReady bool
	// view are the term's informers after their start.
	view *informerview.View
	// objects is set while the term is open, if the provider reports its objects. unregister ends
	// their metrics.
	objects     *objects
	unregister  func()
	controllers map[string]ControllerStatus
	runnables   map[string]Runnable
}

func newTermStatus() *termStatus {
	return &termStatus{
		phase:       StateLeading,
		controllers: map[string]ControllerStatus{},
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
	if s.phase != StateLeading {
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
	s.phase, s.step, s.view, s.isReady = StateDraining, "", nil, false
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
	s.controllers[name] = ControllerStatus{
		Name: name, State: ControllerRunning, Restarts: s.controllers[name].Restarts,
	}
}

func (s *termStatus) controller(name string, state ControllerState, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := ControllerStatus{Name: name, State: state, Restarts: s.controllers[name].Restarts}
	if reason != nil {
		status.Reason = explain(reason)
	}
	s.controllers[name] = status
	delete(s.runnables, name)
}

// retrying records that a controller has failed and restarts at a time.
func (s *termStatus) retrying(name string, reason error, at time.Time) {
	s.controller(name, ControllerFailed, reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.controllers[name]
	status.RetryAt = at
	status.Restarts++
	s.controllers[name] = status
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
func (s *termStatus) fill(status *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status.State, status.Step, status.Ready = s.phase, s.step, s.isReady
	if s.view == nil {
		return
	}
	failure := s.view.Failure
	if s.isReady {
		// An informer that has not synced then is why a controller has failed.
		failure = s.view.Stopped
	}
	if err := failure(); err != nil {
		status.State, status.Reason = StateDegraded, explain(err)
	}
}

// fillControllers adds the states of the term's controllers to a snapshot.
func (s *termStatus) fillControllers(status *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range status.Controllers {
		if own, ok := s.controllers[c.Name]; ok {
			status.Controllers[i] = own
		}
	}
}
