package nodeipam

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The reasons of the Warning events on nodes.
const (
	// reasonNotAvailable: no range is free, or the cloud has not assigned one.
	reasonNotAvailable = "CIDRNotAvailable"
	// reasonAssignmentFailed: the API server or the cloud has refused a request.
	reasonAssignmentFailed = "CIDRAssignmentFailed"
	// reasonOutside: the node has a range that no cluster CIDR contains.
	reasonOutside = "CIDROutsideClusterCIDR"
	// reasonShared: another node has the same range.
	reasonShared = "CIDRShared"
)

// repeatRefusal is the pause between two events with one message. The API server deletes events
// after an hour.
const repeatRefusal = 30 * time.Minute

// refuse returns the message as an error, and writes it as an event of the node unless it repeats
// a recent one.
func (c *controller) refuse(node *corev1.Node, reason, message string) error {
	if c.waiting.add(node.Name, message, time.Now()) {
		c.events.Event(node, corev1.EventTypeWarning, reason, message)
	}
	return errors.New(message)
}

// occupy records the ranges of a node, and warns of irregular ones.
func (c *controller) occupy(node *corev1.Node) {
	found := c.pool.occupy(node)
	if len(found.outside) > 0 {
		c.events.Event(node, corev1.EventTypeWarning, reasonOutside, fmt.Sprintf(
			"pod range %s is outside the cluster CIDR (--cluster-cidr); the node keeps it",
			strings.Join(found.outside, ", ")))
	}
	if len(found.shared) > 0 {
		c.events.Event(node, corev1.EventTypeWarning, reasonShared, fmt.Sprintf(
			"pod range %s is also in use by %s; recreate this node, because addresses may conflict",
			strings.Join(node.Spec.PodCIDRs, ", "), strings.Join(found.shared, ", ")))
	}
}

// waiting are the nodes whose last attempt failed, with the last event. It is safe for concurrent
// use.
type waiting struct {
	mu     sync.Mutex
	events map[string]refusal
}

type refusal struct {
	message string
	at      time.Time
}

// add returns whether the message is new for the node, or its last event is old.
func (w *waiting) add(node, message string, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if last, ok := w.events[node]; ok && last.message == message &&
		now.Sub(last.at) < repeatRefusal {
		return false
	}
	w.events[node] = refusal{message, now}
	return true
}

func (w *waiting) remove(node string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.events, node)
}

func (w *waiting) names() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.events))
}

func (w *waiting) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.events)
}
