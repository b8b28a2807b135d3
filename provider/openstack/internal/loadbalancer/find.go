package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
)

// locate finds the load balancer. A list from before the last one was made would not show it, and another would be made.
func (p *pass) locate(ctx context.Context) error {
	var err error
	if p.minor, err = p.config.Octavia.Version(ctx); err != nil {
		return fmt.Errorf("learn the version of Octavia's API: %w", err)
	}
	// An older list serves to see whether Octavia is done, but not what is from before the last change that was made here.
	age := tick
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
	p.listed = age == 0
	if p.claim, err = locate(p.identity, p.service, p.settings.LoadBalancerID, all.All(), p.minor >= 5); err != nil {
		return all.Begun, err
	}
	return all.Begun, p.admitGuest()
}

// checkTags hands the pass back if the load balancer's tags are not what the list from before the pass shows. It is for who deletes it, or writes its
// tags, which replaces all of them: it may be another cluster's since, and what others have put there would be lost.
func (p *pass) checkTags(ctx context.Context) error {
	lb := p.claim.balancer
	if lb == nil || p.listed {
		return nil
	}
	now, err := p.config.Octavia.Get(ctx, lb.ID)
	if errors.Is(err, octavia.ErrNotFound) || err == nil && !sameTags(now.Tags, lb.Tags) {
		// As after a change of one's own, older lists do not serve.
		p.changes.note(lb.ID, p.config.Clock.Now())
		return later(shortestPause, "load balancer %s has just been changed by somebody else", lb.ID)
	}
	return err
}

// sameTags does not go by their order, in which Octavia has no part.
func sameTags(a, b []string) bool {
	return slices.Equal(slices.Sorted(slices.Values(a)), slices.Sorted(slices.Values(b)))
}

// checkMissingTags is checkTags for a load balancer that lacks tags of the Service.
func (p *pass) checkMissingTags(ctx context.Context) error {
	lb := p.claim.balancer
	if lb == nil || lb.Status.Pending() || p.minor < 5 || !slices.ContainsFunc(p.identity.Tags(), func(tag string) bool { return !slices.Contains(lb.Tags, tag) }) {
		return nil
	}
	return p.checkTags(ctx)
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
			message: fmt.Sprintf("load balancer %s does not exist any more; another is made", p.settings.LoadBalancerID),
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
			"load balancer %s cannot be shared: this Octavia (API 2.%d) has no tags to tell whose is what", lb.ID, p.minor)}
	}
	others := sharers(p.identity, lb)
	if !slices.Contains(lb.Tags, p.identity.LoadBalancerName()) && len(others)+1 > p.settings.MaxShared {
		return &refusal{"LoadBalancerNotShared", fmt.Sprintf(
			"load balancer %s is shared by %d Services already; [LoadBalancer] max-shared-lb allows %d", lb.ID, len(others), p.settings.MaxShared)}
	}
	return nil
}
