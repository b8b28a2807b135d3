package plan

import (
	"context"
	"slices"
)

// Step is one change, with one request unless its doc comment states otherwise. All that is to be
// known about a step is declared with its type: below, and in the interfaces that a step may
// implement besides.
type Step interface {
	// String is for people: one line that begins with a verb.
	String() string
	// take takes the step.
	take(ctx context.Context, r *run) error
	// predict changes the contents of the load balancer as the step does. It returns false if the
	// result is unknown.
	predict(c *predicted) bool
}

// These are what only some steps have.
type (
	// detailed has a line for each object that the step creates.
	detailed interface{ details() []string }
	// counted counts against a quota of the project, of objects with this name.
	counted interface{ quota() string }
	// choosing has values in its request that the configuration chooses, or that a lookup chooses
	// for want of a setting.
	choosing interface{ chosen() []string }
	// tagging reports whether the step changes only tags.
	tagging interface{ onlyTags() bool }
	// deleting deletes a listener or a pool, and returns its ID.
	deleting interface{ deleted() string }
	// final changes the whole load balancer irreversibly: a tag write replaces the whole list. Tags
	// of other clients since the last read would be lost, and the load balancer may be another
	// cluster's by now.
	final interface{ isFinal() }
	// onFloatingIP changes a floating IP.
	onFloatingIP interface{ changesFloatingIP() }
	// attaching attaches an existing floating IP, and describes its network for people.
	attaching interface{ network() string }
	// onMonitor changes the health monitor of a pool.
	onMonitor interface{ changesMonitor() }
)

// QuotaOf returns the name of the objects whose quota a step counts against; "" for none.
func QuotaOf(step Step) string {
	if s, ok := step.(counted); ok {
		return s.quota()
	}
	return ""
}

// ChosenIn returns the values of a step's request that the configuration chooses, or that a lookup
// chooses for want of a setting.
func ChosenIn(step Step) []string {
	if s, ok := step.(choosing); ok {
		return s.chosen()
	}
	return nil
}

// ChangesFloatingIP reports whether a step changes a floating IP.
func ChangesFloatingIP(step Step) bool { return is[onFloatingIP](step) }

// NetworkOf describes the network of the existing floating IP that a step attaches; "" if it
// attaches none.
func NetworkOf(step Step) string {
	if s, ok := step.(attaching); ok {
		return s.network()
	}
	return ""
}

// ChangesMonitor reports whether a step changes the health monitor of a pool.
func ChangesMonitor(step Step) bool { return is[onMonitor](step) }

// DeletesLoadBalancer reports whether a step deletes the load balancer.
func DeletesLoadBalancer(step Step) bool { return is[DeleteLoadBalancer](step) }

func isFinal(step Step) bool { return is[final](step) }

// is reports whether a step is of a type, or implements an interface.
func is[T any](step Step) bool {
	_, ok := step.(T)
	return ok
}

// TagsOnly reports whether all steps change only tags.
func (p Plan) TagsOnly() bool {
	return !slices.ContainsFunc(p.Steps, func(step Step) bool {
		s, tags := step.(tagging)
		return !tags || !s.onlyTags()
	})
}

// Ref names an object that exists, or that an earlier step of the plan creates.
type Ref struct {
	// ID identifies an existing object.
	ID string
	// Made is the name of an object that an earlier step creates; it is used if ID is empty.
	Made string
}

// LoadBalancerRef refers to the load balancer of an earlier CreateLoadBalancer. A Ref to a new
// listener or pool holds its name.
func LoadBalancerRef() Ref { return Ref{Made: "load balancer"} }

// GroupRef refers to the security group of an earlier CreateSecurityGroup.
func GroupRef() Ref { return Ref{Made: "security group"} }

// String returns the ID, or the name of what an earlier step creates.
func (r Ref) String() string {
	if r.ID != "" {
		return r.ID
	}
	return "the new " + r.Made
}
