package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/apply"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/places"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// pass is one look at a Service, and what follows from it. It holds the lock of its Service and, as soon as that is known, of its
// load balancer.
type pass struct {
	*LoadBalancers
	request
	memory *memory

	identity balancer.Identity
	settings settings.Settings
	problems []settings.Problem
	minor    int
	features balancer.Features
	claim    claim
	floating []balancer.FloatingIP
	desired  balancer.Desired
	wish     string
	observed balancer.Observed
	// contents are those that were read, now or earlier; nil: none were. looked: they were read now.
	contents *contents
	looked   bool
	// closely: all fields are read, whatever is remembered.
	closely bool
	unlock  func()
	// heard is what a silent pass has to say.
	heard []notice
}

func (p *pass) release() {
	if p.unlock != nil {
		p.unlock()
	}
}

// run looks, decides and acts. Its order is the story of a Service.
func (p *pass) run(ctx context.Context) (*v1.LoadBalancerStatus, error) {
	for _, step := range []func(context.Context) error{p.identify, p.read, p.locate, p.admit, p.await, p.decide} {
		if err := step(ctx); err != nil {
			return nil, p.explain(err)
		}
	}
	if err := p.carryOut(ctx); err != nil {
		return nil, p.explain(err)
	}
	if err := p.dropDuplicates(ctx); err != nil {
		return nil, p.explain(err)
	}
	p.memory.waiting = time.Time{}
	p.say(aboutWaiting)
	return p.status(), nil
}

// explain makes of an error what upstream's service controller does the right thing with: what only needs time, or the user, comes back
// without a Warning each time, and all else with one, after a pause that grows.
func (p *pass) explain(err error) error {
	var refused *refusal
	if errors.As(err, &refused) {
		return later(complaint, "%s", refused.message)
	}
	return err
}

func later(pause time.Duration, format string, arguments ...any) error {
	return api.NewRetryError(fmt.Sprintf(format, arguments...), pause)
}

// wait hands the pass back, and says once what for.
func (p *pass) wait(format string, arguments ...any) error {
	message := fmt.Sprintf(format, arguments...)
	if p.memory.waiting.IsZero() {
		p.memory.waiting = p.config.Clock.Now()
	}
	p.notices.say(p.service, aboutWaiting, notice{reason: "LoadBalancerWaiting", message: message})
	p.memory.waitsFor = message
	return p.waitOn()
}

// waitOn hands the pass back for the same reason as the last one.
func (p *pass) waitOn() error {
	waited := p.config.Clock.Since(p.memory.waiting)
	return later(min(max(waited/10, shortestPause), longestPause), "%s", p.memory.waitsFor)
}

// say tells whoever made the Service what there is to say about a topic.
func (p *pass) say(about topic, now ...notice) {
	if p.silent {
		p.heard = append(p.heard, now...)
		return
	}
	p.notices.say(p.service, about, now...)
}

// refuse says once what the user must change.
func (p *pass) refuse(about topic, refused *refusal) error {
	p.say(about, notice{reason: refused.reason, message: refused.message, warning: true})
	return refused
}

func (p *pass) identify(ctx context.Context) error {
	uid, err := p.config.ClusterUID(ctx)
	if err != nil {
		return err
	}
	p.identity = identity(p.cluster, uid, p.service)
	return nil
}

func (p *pass) read(context.Context) error {
	p.settings, p.problems = settings.Of(p.service, p.config.Defaults)
	said := make([]notice, 0, len(p.problems))
	for _, problem := range append(slices.Clone(p.problems), settings.Unknown(p.service)...) {
		said = append(said, notice{reason: "InvalidAnnotation", message: problem.String(), warning: true})
	}
	p.say(aboutSettings, said...)
	return nil
}

// admit refuses a Service that cannot be served as it says. What only counts when a load balancer is made does not keep one from being
// served that has one; nor is that made anew for something that is wrong.
func (p *pass) admit(context.Context) error {
	for _, problem := range settings.Fatal(p.problems) {
		if p.claim.balancer == nil || !problem.AtCreation {
			return &refusal{"InvalidAnnotation", problem.String()}
		}
		p.settings.Recreate = false
	}
	return nil
}

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

// await hands the pass back while Octavia is at work.
func (p *pass) await(ctx context.Context) error {
	if lb := p.claim.balancer; lb != nil && lb.Status.Pending() {
		if err := p.introduce(ctx); err != nil {
			return err
		}
		return p.wait("load balancer %s is %s", lb.ID, lb.Status)
	}
	if lb := p.claim.deleting; lb != nil && p.claim.balancer == nil {
		return p.wait("load balancer %s is being deleted; another is made when it is gone", lb.ID)
	}
	if p.claim.balancer == nil && !p.create {
		return fmt.Errorf("service %s/%s has no load balancer yet", p.service.Namespace, p.service.Name)
	}
	return nil
}

// introduce writes to the Service which load balancer it has, as OCCM does, but as early as it can be known.
func (p *pass) introduce(ctx context.Context) error {
	return p.annotate(ctx, p.service, map[string]*string{settings.AnnotationLoadBalancerID: &p.claim.balancer.ID})
}

// decide tells what there should be.
func (p *pass) decide(ctx context.Context) error {
	provider := p.settings.Provider
	if p.claim.balancer != nil {
		provider = p.claim.balancer.Provider
	}
	p.features = balancer.FeaturesOf(provider, p.minor, p.settings.Serial)
	if err := p.readFloatingIPs(ctx); err != nil {
		return err
	}
	if err := p.checkCertificate(ctx); err != nil {
		return err
	}
	input := desired.Input{
		Identity: p.identity,
		Service:  p.service,
		Nodes:    desired.Candidates(p.nodes),
		Settings: p.settings,
		Features: p.features,

		Guest:         p.claim.role == balancer.Guest,
		HasFloatingIP: p.hasFloatingIP(),
	}
	if p.claim.balancer != nil {
		input.LoadBalancerName = p.claim.balancer.Name
	}
	var notes []desired.Notice
	var err error
	input.Places, notes, err = places.Resolve(ctx, p.config.Neutron, places.Input{
		Settings: p.settings, Service: p.service, Nodes: p.nodes, Features: p.features,
		Existing: p.claim.balancer, Guest: p.claim.role == balancer.Guest, HasFloatingIP: p.hasFloatingIP(),
	})
	var noNode *places.NoNodeError
	var impossible *places.ImpossibleError
	switch {
	case errors.As(err, &noNode):
		return p.wait("%v", noNode)
	case errors.As(err, &impossible):
		return p.refuse(aboutPlaces, &refusal{"LoadBalancerImpossible", impossible.Message})
	case err != nil:
		return err
	}
	p.say(aboutPlaces, said(notes)...)
	var cannot error
	p.desired, notes, cannot = desired.Build(input)
	if cannot != nil {
		notes = append(notes, desired.Notice{Reason: "LoadBalancerImpossible", Message: cannot.Error(), Warning: true})
	}
	p.say(aboutDesired, said(notes)...)
	if cannot != nil {
		return &refusal{"LoadBalancerImpossible", cannot.Error()}
	}
	p.wish = desired.Hash(below(p.desired))
	// Other nodes are put in when it is looked at again; these need not be kept until then.
	input.Nodes = nil
	p.memory.input = &input
	return nil
}

func said(notes []desired.Notice) []notice {
	list := make([]notice, 0, len(notes))
	for _, n := range notes {
		list = append(list, notice{reason: n.Reason, message: n.Message, warning: n.Warning})
	}
	return list
}

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
	p.config.Logger.V(2).Info("Plan for a load balancer", "service", p.service.Namespace+"/"+p.service.Name, "plan", todo.String())
	created := p.claim.balancer == nil
	done, err := p.executor.Run(ctx, todo, apply.State{LoadBalancer: p.claim.balancer, Patience: patience})
	p.adopt(done)
	p.remember(todo, done, created, err)
	p.memory.bequeathed = bequeathed(p.memory.bequeathed, todo, done, err)
	if len(done.Done) > 0 {
		// It goes on, so the pause grows no longer: a plan of many steps takes many passes.
		p.memory.waiting = time.Time{}
	}
	if told := p.announce(ctx); told != nil {
		err = errors.Join(err, told)
	}
	if err != nil {
		return p.handBack(err)
	}
	if p.claim.balancer.Status == balancer.PendingDelete {
		p.memory.unsettle()
		return p.wait("load balancer %s is being deleted; another is made when it is gone", p.claim.balancer.ID)
	}
	return p.seeDone(ctx, created)
}

// bequeathed is where the load balancer is to be that takes the place of one that was deleted, whose address it is to have; nil if none is waited
// for. Octavia deletes one for longer than a pass waits, and then it may be others' turn: before is what the last pass has kept.
func bequeathed(before *balancer.VIP, todo plan.Plan, done apply.Result, err error) *balancer.VIP {
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
	vip, from := &p.desired.LoadBalancer.VIP, p.memory.bequeathed
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
		return p.wait("its load balancer is not begun yet: %v", apply.ErrQueued)
	case errors.Is(err, apply.ErrGone):
		return later(shortestPause, "%v", err)
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
	is, err := p.config.Octavia.Settled(ctx, lb.ID, patience)
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
