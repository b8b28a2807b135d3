package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/balancer"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/places"
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
		return later(refusalRecheck, "%s", refused.message)
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
	p.notify(aboutWaiting, notice{reason: "LoadBalancerWaiting", message: message})
	p.memory.waitsFor = message
	return p.waitOn()
}

// waitOn hands the pass back for the same reason as the last one.
func (p *pass) waitOn() error {
	waited := p.config.Clock.Since(p.memory.waiting)
	return later(min(max(waited/10, minRetryDelay), maxRetryDelay), "%s", p.memory.waitsFor)
}

// say tells whoever made the Service what there is to say about a topic.
func (p *pass) say(about topic, now ...notice) {
	if p.silent {
		p.heard = append(p.heard, now...)
		return
	}
	p.notify(about, now...)
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

// await hands the pass back while Octavia is at work.
func (p *pass) await(ctx context.Context) error {
	if lb := p.claim.balancer; lb != nil && lb.Status.Pending() {
		if err := p.introduce(ctx); err != nil {
			return err
		}
		return p.wait("load balancer %s is %s", lb.ID, lb.Status)
	}
	if lb := p.claim.deleting; lb != nil && p.claim.balancer == nil {
		return p.wait("deleting load balancer %s; a new one is created after that", lb.ID)
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
		return p.refuse(aboutPlaces, &refusal{"UnsupportedConfiguration", impossible.Message})
	case err != nil:
		return err
	}
	p.say(aboutPlaces, said(notes)...)
	var cannot error
	p.desired, notes, cannot = desired.Build(input)
	if cannot != nil {
		notes = append(notes, desired.Notice{Reason: "UnsupportedConfiguration", Message: cannot.Error(), Warning: true})
	}
	p.say(aboutDesired, said(notes)...)
	if cannot != nil {
		return &refusal{"UnsupportedConfiguration", cannot.Error()}
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
