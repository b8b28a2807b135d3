package plan

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// Steps with Octavia wait until the load balancer has finished the previous one.
type (
	// CreateLoadBalancer creates a load balancer with all its ports, unless Bare. If the plan has
	// deleted one before, the step waits until that is gone: the new one may take over its address.
	CreateLoadBalancer struct {
		LoadBalancer octavia.LoadBalancer
		Ports        []octavia.Port
		// Bare: later steps create the ports.
		Bare bool
	}
	// UpdateLoadBalancer replaces its tags. Its other fields never change.
	UpdateLoadBalancer struct {
		ID, Name string
		Tags     []string
		// Changes are for people, such as "tag a added".
		Changes []string
	}
	// DeleteLoadBalancer also deletes its children if Cascade.
	DeleteLoadBalancer struct {
		ID, Name string
		Cascade  bool
		// Why is a clause for people.
		Why string
	}
	// FailoverLoadBalancer makes Octavia rebuild it behind its address. By default only
	// administrators may.
	FailoverLoadBalancer struct{ ID, Name string }
	// SeeDeleted changes nothing. It reads the parts of the load balancer, and fails if a deleted
	// one still exists: a part that Octavia could not delete is in ERROR, although the load
	// balancer is ACTIVE.
	SeeDeleted struct {
		LoadBalancerID string
		// IDs are the IDs of listeners and pools.
		IDs []string
	}
)

func (s CreateLoadBalancer) String() string {
	text := fmt.Sprintf("create load balancer %s at %s", s.LoadBalancer.Name,
		textOf(s.LoadBalancer.VIP))
	if s.Bare {
		return text + " without ports"
	}
	var ports []string
	for _, p := range s.Ports {
		ports = append(ports, p.Name)
	}
	return text + " with ports " + strings.Join(ports, ", ")
}

func (s CreateLoadBalancer) details() []string {
	lb := s.LoadBalancer
	lines := []string{"description " + lb.Description}
	for _, at := range []struct{ what, value string }{
		{"provider", lb.Provider},
		{"flavor", lb.FlavorID},
		{"availability zone", lb.AvailabilityZone},
	} {
		if at.value != "" {
			lines = append(lines, at.what+" "+at.value)
		}
	}
	for _, vip := range lb.AdditionalVIPs {
		lines = append(lines, "additional address at "+textOf(vip))
	}
	lines = append(lines, tagDetails(lb.Tags)...)
	if s.Bare {
		return lines
	}
	for _, port := range s.Ports {
		lines = append(lines, "listener "+listenerText(port.Listener))
		for _, detail := range append(listenerDetails(port.Listener), poolDetails(port.Pool)...) {
			lines = append(lines, "  "+detail)
		}
	}
	return lines
}

func (s CreateLoadBalancer) quota() string { return "load balancers" }

func (s CreateLoadBalancer) chosen() []string {
	chosen := append(octavia.Chosen(s.LoadBalancer),
		octavia.Chosen(s.LoadBalancer.AdditionalVIPs...)...)
	for _, port := range s.Ports {
		chosen = append(chosen, octavia.Chosen(port.Listener)...)
		chosen = append(chosen, octavia.Chosen(port.Pool)...)
		chosen = append(chosen, chosenForMonitor(port.Pool.Monitor)...)
		chosen = append(chosen, octavia.Chosen(port.Pool.Members...)...)
	}
	return chosen
}

func (s CreateLoadBalancer) predict(*predicted) bool { return false }

// take first waits until a load balancer that is being replaced is gone, because the new one may
// have its address.
func (s CreateLoadBalancer) take(ctx context.Context, r *run) error {
	if r.status() == octavia.PendingDelete {
		switch err := r.settle(ctx, false); {
		case errors.Is(err, octavia.ErrNotFound):
			r.result.LoadBalancer = nil
		case err != nil:
			return err
		default:
			return fmt.Errorf("load balancer %s is %s after its deletion", r.id(), r.status())
		}
	}
	ports := s.Ports
	if s.Bare {
		ports = nil
	}
	if err := r.queue(ctx); err != nil {
		return err
	}
	defer func() { <-r.making }()
	made, err := r.Octavia.CreateLoadBalancer(ctx, s.LoadBalancer, ports)
	r.result.WroteAt = r.Clock.Now()
	if err != nil {
		return err
	}
	r.result.LoadBalancer, r.tags = &made, made.Tags
	if made.Status == octavia.InError {
		return fmt.Errorf("the load balancer is %w", ErrFailed)
	}
	r.made[LoadBalancerRef().Made] = made.ID
	r.begun(made.Status)
	return nil
}

func (s UpdateLoadBalancer) String() string {
	return update("load balancer", s.ID, s.Name, s.Changes)
}

func (s UpdateLoadBalancer) onlyTags() bool { return true }

func (s UpdateLoadBalancer) isFinal() {}

func (s UpdateLoadBalancer) predict(*predicted) bool { return true }

func (s UpdateLoadBalancer) take(ctx context.Context, r *run) error {
	err := r.change(ctx, func() error {
		// The new tags exist already if an earlier request succeeded and its response was lost.
		if err := r.seeTags(ctx, s.Tags); err != nil {
			return err
		}
		return r.Octavia.UpdateLoadBalancer(ctx, s.ID, s.Tags)
	})
	if err == nil {
		r.tags, r.written = s.Tags, s.Tags
	}
	return err
}

func (s DeleteLoadBalancer) String() string {
	all := ""
	if s.Cascade {
		all = " with all that is in it"
	}
	return fmt.Sprintf("delete load balancer %s (%s)%s%s", s.ID, s.Name, all, because(s.Why))
}

func (s DeleteLoadBalancer) isFinal() {}

func (s DeleteLoadBalancer) predict(*predicted) bool { return false }

// take succeeds if the load balancer is gone, or is about to be.
func (s DeleteLoadBalancer) take(ctx context.Context, r *run) error {
	if r.status().Gone() {
		return nil
	}
	err := r.repair(ctx, func() error {
		if err := r.seeTags(ctx); err != nil {
			return err
		}
		return r.Octavia.DeleteLoadBalancer(ctx, s.ID, s.Cascade)
	})
	var pending *PendingError
	switch {
	case err == nil:
		r.begun(octavia.PendingDelete)
	case errors.Is(err, ErrGone), errors.As(err, &pending) &&
		pending.Status == octavia.PendingDelete:
		r.mark(octavia.PendingDelete)
	default:
		return err
	}
	return nil
}

func (s FailoverLoadBalancer) String() string {
	return fmt.Sprintf("fail over load balancer %s (%s)", s.ID, s.Name)
}

func (s FailoverLoadBalancer) predict(*predicted) bool { return false }

func (s FailoverLoadBalancer) take(ctx context.Context, r *run) error {
	return r.repair(ctx, func() error { return r.Octavia.FailoverLoadBalancer(ctx, s.ID) })
}

func (s SeeDeleted) String() string {
	return fmt.Sprintf("verify deletions in load balancer %s: %s", s.LoadBalancerID,
		strings.Join(s.IDs, ", "))
}

func (s SeeDeleted) onlyTags() bool { return true }

func (s SeeDeleted) predict(*predicted) bool { return false }

// take waits until Octavia has finished, and verifies the deletions.
func (s SeeDeleted) take(ctx context.Context, r *run) error {
	err := r.settle(ctx, false)
	var is octavia.Contents
	if err == nil {
		is, err = r.Octavia.Contents(ctx, s.LoadBalancerID, octavia.InPart, time.Time{})
	}
	if errors.Is(err, octavia.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrGone, err)
	}
	var left []error
	for _, l := range is.Listeners {
		if slices.Contains(s.IDs, l.ID) {
			left = append(left,
				fmt.Errorf("listener %s (%s, %s) %w", l.ID, l.Name, l.Status, errNotDeleted))
		}
	}
	for _, p := range is.Pools {
		if slices.Contains(s.IDs, p.ID) {
			left = append(left,
				fmt.Errorf("pool %s (%s, %s) %w", p.ID, p.Name, p.Status, errNotDeleted))
		}
	}
	return errors.Join(append(left, err)...)
}
