package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
)

// locate finds the load balancer. A list from before the last one was made would not show it, and another would be made.
func (p *pass) locate(ctx context.Context) error {
	var err error
	if p.minor, err = p.config.Octavia.Version(ctx); err != nil {
		return fmt.Errorf("learn the version of Octavia's API: %w", err)
	}
	// An older list serves to see whether Octavia is done, but not what is from before the last change that was made here.
	age := listMaxAge
	if p.repair {
		age = 0
	}
	begun, err := p.find(ctx, age)
	switch {
	case age == 0:
	case !p.memory.waiting.IsZero() && p.changes.since(p.memory.balancer, begun):
		// Too early: what is waited for was begun after the list. There will be another in a moment, for all who wait.
		return p.waitOn()
	case err != nil || p.claim.balancer == nil || p.memory.balancer != "" && p.claim.balancer.ID != p.memory.balancer:
		begun, err = p.find(ctx, 0)
	}
	if err == nil && p.claim.balancer != nil {
		err = p.lockFound(ctx, begun)
	}
	return p.tellWhich(err)
}

// lockFound takes the lock of the load balancer, and looks again if somebody else has held it since the list was begun.
func (p *pass) lockFound(ctx context.Context, begun time.Time) error {
	id := p.claim.balancer.ID
	unlock, waited, err := p.locks.lock(ctx, "load balancer "+id)
	if err != nil {
		return err
	}
	p.unlock = unlock
	if waited || p.changes.since(id, begun) {
		_, err = p.find(ctx, 0)
	}
	return err
}

// find locates the load balancer in a list of that age at most, and tells when the list was begun.
func (p *pass) find(ctx context.Context, age time.Duration) (begun time.Time, err error) {
	all, err := p.config.Octavia.LoadBalancers(ctx, age)
	if err != nil {
		return time.Time{}, err
	}
	if p.claim, err = locate(p.identity, p.service, p.settings.LoadBalancerID, all.All(), p.minor >= 5); err != nil {
		return all.Begun, err
	}
	return all.Begun, p.admitGuest()
}

// tellWhich says what is to be said of the load balancer that was found, or refused.
func (p *pass) tellWhich(err error) error {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		p.say(aboutIdentity, notice{reason: refused.reason, message: refused.message, warning: true})
	case err != nil:
	case p.claim.lost:
		p.say(aboutIdentity, notice{
			reason: "LoadBalancerLost", warning: true,
			message: fmt.Sprintf("load balancer %s no longer exists; creating a new one", p.settings.LoadBalancerID),
		})
	default:
		p.say(aboutIdentity)
	}
	return err
}

// admitGuest keeps a load balancer from being shared by more Services than the operator allows.
func (p *pass) admitGuest() error {
	lb := p.claim.balancer
	if lb == nil || p.claim.role != balancer.Guest {
		return nil
	}
	if p.minor < 5 {
		return &refusal{"LoadBalancerNotShared", fmt.Sprintf(
			"load balancer %s cannot be shared: Octavia API 2.%d has no tags, which mark the owner of each part", lb.ID, p.minor)}
	}
	others := sharers(p.identity, lb)
	if !slices.Contains(lb.Tags, p.identity.LoadBalancerName()) && len(others)+1 > p.settings.MaxShared {
		return &refusal{"LoadBalancerNotShared", fmt.Sprintf(
			"load balancer %s is already shared by %d other Services; [LoadBalancer] max-shared-lb allows %d", lb.ID, len(others), p.settings.MaxShared)}
	}
	return nil
}
