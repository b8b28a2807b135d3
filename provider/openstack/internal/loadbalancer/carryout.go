package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/apply"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// carryOut compares, and takes the steps. It returns nil if all is as it should be, and Octavia has done it.
func (p *pass) carryOut(ctx context.Context) error {
	now := p.config.Clock.Now()
	lb := p.claim.balancer
	if lb != nil && lb.Status == balancer.Active && p.memory.expected(lb) {
		p.memory.confirm(lb, now)
	}
	want, err := p.observe(ctx)
	if err != nil {
		return err
	}
	todo := plan.Change(want, p.observed)
	if lb != nil && p.needsMore(todo) {
		p.memory.unsettle()
		p.closely = true
		if want, err = p.observe(ctx); err != nil {
			return err
		}
		todo = plan.Change(want, p.observed)
	}
	blocks := p.tell(todo.Notices)
	if len(todo.Steps) > 0 {
		if err := p.execute(ctx, todo); err != nil {
			return err
		}
	} else if blocks == nil {
		if p.memory.settled != p.wish || p.memory.balancer != lb.ID {
			p.memory.settle(lb.ID, p.wish)
		}
		p.memory.confirm(lb, now)
		p.memory.compared = p.memory.compared || p.deep && p.memory.lasts(now)
		p.memory.contents = p.contents
		p.memory.hidden = hidden(p.desired)
		if err := p.announce(ctx); err != nil {
			return err
		}
	}
	return blocks
}

// tell says what cannot be done, and returns what keeps the Service from being served.
func (p *pass) tell(notes []plan.Notice) error {
	var blocks error
	list := make([]notice, 0, len(notes))
	for _, n := range notes {
		if n.Blocks && blocks == nil {
			blocks = &refusal{n.Reason, n.Message}
		}
		list = append(list, notice{reason: n.Reason, message: n.Message, warning: true})
	}
	p.say(aboutPlan, list...)
	return blocks
}

// execute takes the steps of a plan. What it makes becomes known to the Service, whatever comes of the rest.
func (p *pass) execute(ctx context.Context, todo plan.Plan) error {
	p.config.Logger.V(4).Info("Load balancer plan", "service", p.service.Namespace+"/"+p.service.Name, "plan", todo.String())
	created := p.claim.balancer == nil
	done, err := p.executor.Run(ctx, todo, apply.State{LoadBalancer: p.claim.balancer, Timeout: reconcileTimeout})
	p.adopt(done)
	p.remember(todo, done, created, err)
	p.memory.inheritedVIP = inheritedVIP(p.memory.inheritedVIP, todo, done, err)
	if len(done.Done) > 0 {
		// It goes on, so the pause grows no longer: a plan of many steps takes many passes.
		p.memory.waiting = time.Time{}
	}
	if errors.Is(err, apply.ErrChanged) && len(done.Done) == 0 {
		// It may not be the Service's any more.
		return p.handBack(err)
	}
	if told := p.announce(ctx); told != nil {
		err = errors.Join(err, told)
	}
	if err != nil {
		return p.handBack(err)
	}
	if p.claim.balancer.Status == balancer.PendingDelete {
		p.memory.unsettle()
		return p.wait("deleting load balancer %s; a new one is created after that", p.claim.balancer.ID)
	}
	return p.seeDone(ctx, created)
}

// inheritedVIP is where the load balancer is to be that takes the place of one that was deleted, whose address it is to have; nil if none is waited
// for. Octavia deletes one for longer than a pass waits, and then it may be others' turn: before is what the last pass has kept.
func inheritedVIP(before *balancer.VIP, todo plan.Plan, done apply.Result, err error) *balancer.VIP {
	deleted := slices.ContainsFunc(done.Done, func(step plan.Step) bool { _, is := step.(plan.DeleteLoadBalancer); return is })
	deleting := done.LoadBalancer != nil && done.LoadBalancer.Status == balancer.PendingDelete
	queued := errors.Is(err, apply.ErrQueued)
	for _, step := range todo.Steps[len(done.Done):] {
		create, is := step.(plan.CreateLoadBalancer)
		switch {
		case is && deleted && (deleting || queued):
			return &create.LoadBalancer.VIP
		case is && queued:
			// Its address may be a wish that the user takes back before it is made.
			return before
		}
	}
	return nil
}

// inherit has a new load balancer made with the address of the one that it replaces, if it is to be where that was.
func (p *pass) inherit() {
	vip, from := &p.desired.LoadBalancer.VIP, p.memory.inheritedVIP
	if from != nil && vip.Address == "" && vip.PortID == "" && vip.SubnetID == from.SubnetID && vip.NetworkID == from.NetworkID {
		vip.Address = from.Address
	}
}

// remember keeps what is known after a run, also if it has only come as far as Octavia's pace let it.
func (p *pass) remember(todo plan.Plan, done apply.Result, created bool, err error) {
	p.memory.unsettle()
	// Also a request that failed may have been carried out.
	now := p.config.Clock.Now()
	p.changes.note(p.identity.UID, now)
	lb := p.claim.balancer
	if lb != nil {
		p.changes.note(lb.ID, now)
	}
	var pending *apply.PendingError
	if lb == nil || err != nil && !errors.As(err, &pending) {
		return
	}
	if err == nil {
		p.memory.settle(lb.ID, p.wish)
		p.memory.hidden = hidden(p.desired)
	}
	switch {
	case created && len(todo.Steps) > 0 && !p.features.Serial:
		p.memory.contents = made(p.desired, lb.Made)
	case !created:
		p.memory.contents = p.contents.after(done.Done)
	}
}

// needsMore tells whether a plan hangs on what has not been read, or not now.
func (p *pass) needsMore(todo plan.Plan) bool {
	if p.closely {
		return false
	}
	inPart := slices.ContainsFunc(p.observed.Pools, func(pool balancer.Pool) bool { return pool.MembersInPart || pool.MonitorInPart })
	if inPart && p.memory.hidden != "" && p.memory.hidden != hidden(p.desired) {
		return true
	}
	return slices.ContainsFunc(todo.Steps, func(step plan.Step) bool {
		switch step.(type) {
		case plan.DeleteLoadBalancer:
			// What is only remembered may lack something of others'.
			return !p.looked
		case plan.CreateMonitor, plan.UpdateMonitor, plan.DeleteMonitor:
			// With the monitor changes which port of a member is looked at, which a status tree does not show.
			return inPart
		}
		return false
	})
}

// handBack makes a wait of an error that only says that Octavia is still at work, or that there is something new to be seen.
func (p *pass) handBack(err error) error {
	var pending *apply.PendingError
	switch {
	case errors.As(err, &pending):
		return p.wait("load balancer %s is %s", pending.LoadBalancerID, pending.Status)
	case errors.Is(err, apply.ErrQueued):
		return p.wait("the load balancer is %v", apply.ErrQueued)
	case errors.Is(err, apply.ErrGone), errors.Is(err, apply.ErrChanged):
		return later(minRetryDelay, "%v", err)
	}
	return err
}

// seeDone returns nil if Octavia has done all. A creation takes long: who waits for it here would keep others from beginning theirs.
func (p *pass) seeDone(ctx context.Context, created bool) error {
	lb := p.claim.balancer
	if created {
		return p.wait("load balancer %s is %s", lb.ID, lb.Status)
	}
	if !lb.Status.Pending() {
		return nil
	}
	is, err := p.config.Octavia.Settled(ctx, lb.ID, reconcileTimeout)
	switch {
	case errors.Is(err, octavia.ErrPending):
		return p.wait("load balancer %s is %s", lb.ID, is.Status)
	case err != nil:
		return err
	case is.Status != balancer.Active:
		return fmt.Errorf("load balancer %s is %s after it was changed", lb.ID, is.Status)
	}
	p.claim.balancer = &is
	p.memory.confirm(&is, p.config.Clock.Now())
	return nil
}
