// Package status has the values of a Manager's status, as ccm.Manager.Status returns them and
// /statusz and fxccm status show them: the state of its leadership, controllers, load balancers
// and nodes. They are snapshots, have no secrets, and are plain data in JSON.
package status

import (
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm/election"
)

// State is the state of a Manager.
type State string

// The states of a Manager.
const (
	// Stopped: Run is not running.
	Stopped State = "stopped"
	// Standby: campaigning while another process leads.
	Standby State = "standby"
	// Leading: a term is open. It is ready when Manager.Ready is true.
	Leading State = "leading"
	// Draining: a term is ending.
	Draining State = "draining"
	// Degraded: an operation failed and is retried; Manager.Reason has the error.
	Degraded State = "degraded"
)

// Manager is a snapshot of a ccm.Manager.
type Manager struct {
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

	// Troubles are the problems that the provider has reported with ReportTrouble of its
	// ccm.ProviderEnv, and those of the four cloud controllers: rights that they or the events
	// lack, routes that cannot be listed, created or deleted, or whose conditions cannot be
	// written, and informers that cannot list or watch any more. They are sorted by subject.
	Troubles []Trouble `json:"troubles,omitempty"`

	Election    election.Status `json:"election"`
	Controllers []Controller    `json:"controllers"`

	// Terms are the last 10 terms, newest first. The first one may not have ended.
	Terms []Term `json:"terms,omitempty"`

	// LoadBalancers are the load balancers of the open term, worst first, if the provider is a
	// ccm.ObjectReporter.
	LoadBalancers []LoadBalancer `json:"loadBalancers,omitempty"`

	// Nodes are the nodes that wait for their initialization, and those that cannot be updated,
	// looked up or deleted, oldest first. The entries of a provider that is a ccm.ObjectReporter
	// replace those of the node controllers, except of nodes that cannot be written.
	Nodes []Node `json:"nodes,omitempty"`

	// Running are the unfinished goroutines and calls of all terms, including terms that exceeded
	// their drain timeout.
	Running []Activity `json:"running,omitempty"`
}

// Term is the course of one term.
type Term struct {
	// Number counts the terms of the process.
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

// Controller is a snapshot of one controller.
type Controller struct {
	Name   string          `json:"name"`
	State  ControllerState `json:"state"`
	Reason string          `json:"reason,omitempty"`

	// RetryAt is when a failed controller restarts within its term.
	RetryAt time.Time `json:"retryAt,omitzero"`

	// Restarts counts how often the controller was restarted within its term.
	Restarts int `json:"restarts,omitempty"`
}

// Trouble is a problem of the cloud that a provider has reported, such as a failed login, or one of
// the four cloud controllers.
type Trouble struct {
	// Subject is a short, constant name of the affected part, such as "Keystone" or "quota".
	Subject string `json:"subject"`
	// Since has the time of the first report.
	Since time.Time `json:"since"`
	// Reason is the text of the last reported error.
	Reason string `json:"reason"`
}

// Activity is a call or a goroutine of a term that has not ended: a call to the cloud, a mutating
// request to the API server, or a goroutine that runs a controller's or a provider's code.
type Activity struct {
	// Name is "call LoadBalancer.EnsureLoadBalancer", "call PATCH /api/v1/nodes/a", "controller
	// mine", "start provider", and so on.
	Name string `json:"name"`

	// Object is the object of a call, such as "default/web" or a node's name. It may be empty.
	Object string `json:"object,omitempty"`

	// Since has the time at which the activity began.
	Since time.Time `json:"since"`

	// MayAct reports whether the activity can still change the cluster or the cloud after the term.
	MayAct bool `json:"mayAct,omitempty"`
}

// String is Name and Object.
func (a Activity) String() string { return strings.TrimSpace(a.Name + " " + a.Object) }
