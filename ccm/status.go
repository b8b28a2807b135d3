package ccm

import (
	"fmt"
	"sync"
	"time"

	"github.com/fxccm/fxccm/internal/informerview"
)

// State is what a [Manager] is doing.
type State string

// The states of a Manager.
const (
	// StateStopped: Run is not running.
	StateStopped State = "stopped"
	// StateStandby: campaigning; another process leads.
	StateStandby State = "standby"
	// StateLeading: a term is open. It is ready when Status.Ready is true.
	StateLeading State = "leading"
	// StateDraining: a term is ending.
	StateDraining State = "draining"
	// StateDegraded: something is wrong; Status.Reason says what, and it is tried again.
	StateDegraded State = "degraded"
)

// Status is a snapshot of a [Manager]. It holds nothing secret.
type Status struct {
	State State `json:"state"`

	// Reason says in an operator's words why the state is degraded, or why Run ended.
	Reason string `json:"reason,omitempty"`

	// RetryAt is when the next term is tried after one has failed.
	RetryAt time.Time `json:"retryAt,omitzero"`

	// Term is the number of the current term, or of the last one; 0 before the first.
	Term uint64 `json:"term"`

	// Ready tells that all informers of the term have synced and its controllers run.
	Ready bool `json:"ready"`

	// Step is what the opening of a term is at.
	Step string `json:"step,omitempty"`

	// Provider is the name of the cloud provider.
	Provider string `json:"provider"`

	// Warnings tells what an operator should know although the state is good, in stable order.
	Warnings []string `json:"warnings,omitempty"`

	// Troubles are the problems of the cloud that the provider has reported, by [ProviderEnv].ReportTrouble, sorted by subject.
	Troubles []TroubleStatus `json:"troubles,omitempty"`

	Election    ElectionStatus     `json:"election"`
	Controllers []ControllerStatus `json:"controllers"`

	// Running are the goroutines and the calls in flight of the terms, those included that did not end within the drain timeout.
	Running []Activity `json:"running,omitempty"`
}

// ControllerState is what a controller is doing.
type ControllerState string

// The states of a controller.
const (
	// ControllerDisabled: left out by --controllers.
	ControllerDisabled ControllerState = "disabled"
	// ControllerWaiting: enabled, but there is no term, or it is still opening.
	ControllerWaiting ControllerState = "waiting"
	// ControllerSkipped: there is nothing for it to do in this term; Reason says why.
	ControllerSkipped ControllerState = "skipped"
	// ControllerRunning: its Run runs.
	ControllerRunning ControllerState = "running"
	// ControllerFailed: it could not be built, or ended when it should not have; Reason says why. If RetryAt is set it is built
	// anew then, else its term ends.
	ControllerFailed ControllerState = "failed"
	// ControllerStopped: it has ended with its term.
	ControllerStopped ControllerState = "stopped"
)

// ControllerStatus is a snapshot of one controller.
type ControllerStatus struct {
	Name   string          `json:"name"`
	State  ControllerState `json:"state"`
	Reason string          `json:"reason,omitempty"`

	// RetryAt is when a controller that has failed is built anew within its term.
	RetryAt time.Time `json:"retryAt,omitzero"`

	// Restarts counts how often the controller was built anew within its term.
	Restarts int `json:"restarts,omitempty"`
}

// termStatus is what a term tells about itself. It is safe for concurrent use.
type termStatus struct {
	mu      sync.Mutex
	phase   State
	step    string
	isReady bool
	// view are the term's informers, once they have been started.
	view        *informerview.View
	controllers map[string]ControllerStatus
	runnables   map[string]Runnable
}

func newTermStatus() *termStatus {
	return &termStatus{phase: StateLeading, controllers: map[string]ControllerStatus{}, runnables: map[string]Runnable{}}
}

func (s *termStatus) opening(step string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step = step
}

// syncing lets fill tell what the informers are waiting for, or have come to.
func (s *termStatus) syncing(view *informerview.View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.step, s.view = "sync informers", view
}

// informers returns the term's, once they have been started.
func (s *termStatus) informers() *informerview.View {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.view
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
}

// running is said before a controller's goroutine begins, so that what is ready also runs.
func (s *termStatus) running(name string, r Runnable) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.runnables[name] = r
	s.controllers[name] = ControllerStatus{Name: name, State: ControllerRunning, Restarts: s.controllers[name].Restarts}
}

func (s *termStatus) controller(name string, state ControllerState, reason error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status := ControllerStatus{Name: name, State: state, Restarts: s.controllers[name].Restarts}
	if reason != nil {
		status.Reason = reason.Error()
	}
	s.controllers[name] = status
	delete(s.runnables, name)
}

// retrying tells that a controller has failed and is built anew at a time.
func (s *termStatus) retrying(name string, reason error, at time.Time) {
	s.controller(name, ControllerFailed, reason)
	s.mu.Lock()
	defer s.mu.Unlock()
	status := s.controllers[name]
	status.RetryAt = at
	status.Restarts++
	s.controllers[name] = status
}

// runnable returns the controller of a name, if it runs.
func (s *termStatus) runnable(name string) (Runnable, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, ok := s.runnables[name]
	return r, ok
}

// retries are sentences about controllers that have failed and are built anew.
func (s *termStatus) retries() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for _, c := range s.controllers {
		if !c.RetryAt.IsZero() {
			all = append(all, fmt.Sprintf("controller %s failed and is restarted: %s", c.Name, c.Reason))
		}
	}
	return all
}

// fill writes what the term knows into a snapshot.
func (s *termStatus) fill(status *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	status.State, status.Step, status.Ready = s.phase, s.step, s.isReady
	// Those that have synced fail no more, but for a host's that the host has stopped.
	if s.view != nil {
		if err := s.view.Failure(); err != nil {
			status.State, status.Reason = StateDegraded, explain(err)
		}
	}
}

// fillControllers writes what has become of the term's controllers into a snapshot.
func (s *termStatus) fillControllers(status *Status) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range status.Controllers {
		if own, ok := s.controllers[c.Name]; ok {
			status.Controllers[i] = own
		}
	}
}
