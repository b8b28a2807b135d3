// Package apply carries out plans: it takes their steps one after another, and waits where Octavia
// needs it.
//
// Octavia changes one thing of a load balancer at a time, and refuses the next change until then.
// So each step on the load balancer first waits for the end of its predecessor, which takes from a
// second to minutes. Steps with Neutron wait for nothing, and no caller waits after the last step.
//
// After its timeout a run ends with a [PendingError], and the rest of its plan is forgotten: the
// next plan starts from what exists then. So nothing is ever undone, and no step depends on earlier
// runs.
package apply

import (
	"context"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/trouble"
)

// Octavia is what is needed of package octavia.
type Octavia interface {
	Get(ctx context.Context, id string) (octavia.LoadBalancer, error)
	Settled(ctx context.Context, id string, limit time.Duration) (octavia.LoadBalancer, error)

	CreateLoadBalancer(ctx context.Context, lb octavia.LoadBalancer,
		ports []octavia.Port) (octavia.LoadBalancer, error)
	UpdateLoadBalancer(ctx context.Context, id string, tags []string) error
	DeleteLoadBalancer(ctx context.Context, id string, cascade bool) error
	FailoverLoadBalancer(ctx context.Context, id string) error

	CreateListener(ctx context.Context, loadBalancerID string, listener octavia.Listener,
		poolID string) (id string, err error)
	UpdateListener(ctx context.Context, id string, listener octavia.Listener, poolID string) error
	DeleteListener(ctx context.Context, id string) error

	CreatePool(ctx context.Context, loadBalancerID, listenerID string,
		pool octavia.Pool) (id string, err error)
	UpdatePool(ctx context.Context, id string, pool octavia.Pool) error
	DeletePool(ctx context.Context, id string) error

	CreateMonitor(ctx context.Context, poolID string, monitor octavia.Monitor) error
	UpdateMonitor(ctx context.Context, id string, monitor octavia.Monitor) error
	DeleteMonitor(ctx context.Context, id string) error

	SetMembers(ctx context.Context, poolID string, members []octavia.Member) error
	CreateMember(ctx context.Context, poolID string, member octavia.Member) (id string, err error)
	UpdateMember(ctx context.Context, poolID, id string, member octavia.Member) error
	DeleteMember(ctx context.Context, poolID, id string) error

	Contents(ctx context.Context, id string, depth octavia.Depth,
		updated time.Time) (octavia.Contents, error)
}

// Neutron is what is needed of package neutron.
type Neutron interface {
	CreateFloatingIP(ctx context.Context, wanted neutron.WantedFloatingIP, subnetID,
		portID string) (neutron.FloatingIP, error)
	AttachFloatingIP(ctx context.Context, id, portID string) error
	DetachFloatingIP(ctx context.Context, id string) error
	DeleteFloatingIP(ctx context.Context, id string) error
	TagFloatingIP(ctx context.Context, id string, tags []string) error

	CreateSecurityGroup(ctx context.Context, group neutron.SecurityGroup) (neutron.SecurityGroup,
		error)
	TagSecurityGroup(ctx context.Context, id string, tags []string) error
	DeleteSecurityGroup(ctx context.Context, id string) error
	CreateRule(ctx context.Context, groupID string, rule neutron.Rule) error
	DeleteRule(ctx context.Context, id string) error
	AddGroup(ctx context.Context, port neutron.NodePort, groupID string) error
	RemoveGroup(ctx context.Context, port neutron.NodePort, groupID string) error
}

// Config is what [New] needs.
type Config struct {
	Octavia Octavia
	Neutron Neutron
	// Clock is what timeouts go by. Default: the real one.
	Clock clock.Clock
	// Logger tells each step that is done.
	Logger logr.Logger
	// Trouble receives the outcome of creations. It may be nil.
	Trouble *trouble.Report
}

// Executor carries out plans, many at a time. It keeps nothing between them. The caller never runs
// two plans for one load balancer at a time.
type Executor struct {
	octavia Octavia
	neutron Neutron
	clock   clock.Clock
	logger  logr.Logger
	trouble *trouble.Report
	// making has an entry for each creation of a load balancer that Octavia has been asked for and
	// has not answered.
	making chan struct{}
}

// maxMaking limits concurrent creations. Octavia holds the quota of the project until all of a load
// balancer is in its database, so it creates one after the other. A creation whose response is lost
// in a longer queue may be duplicated.
const maxMaking = 4

// New makes no request.
func New(config Config) *Executor {
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	return &Executor{
		octavia: config.Octavia, neutron: config.Neutron, clock: config.Clock,
		logger: config.Logger, trouble: config.Trouble,
		making: make(chan struct{}, maxMaking),
	}
}

// State is what a run begins with.
type State struct {
	// LoadBalancer is what the plan was made for, as last seen: its ID, VIP, status and tags count.
	// It may be nil.
	LoadBalancer *octavia.LoadBalancer
	// Timeout is how long the run may wait for Octavia, in all. 0: it takes the steps that need no
	// waiting.
	Timeout time.Duration
}

// Result is what a run has done, whatever its error.
type Result struct {
	// LoadBalancer is the created one, or the one that the run began with, as last seen. Its status
	// is PENDING after a step that changed it. It may be nil.
	LoadBalancer *octavia.LoadBalancer
	// FloatingIP is the one that was made, or attached. Of one that was attached only ID, Address
	// and PortID are known. Nil: none was.
	FloatingIP *neutron.FloatingIP
	// Done are the steps that were taken. A [plan.CreateMember] among them has the ID of the
	// member.
	Done []plan.Step
	// Complete tells whether those were all.
	Complete bool
}

// Run takes the steps of a plan until one fails. Its errors are all a [StepError], and have in
// their chain, where the caller can act on it:
//
//   - [PendingError]: Octavia is at work, and the timeout is over.
//   - [ErrQueued]: no creation was requested, because others are in flight.
//   - [ErrFailed]: the load balancer is in ERROR, and the step does not repair that.
//   - [ErrGone]: the object of the step no longer exists.
//   - [ErrChanged]: the tags of the load balancer changed, and the step would replace them or
//     delete the load balancer. A plan with such a step then does nothing at all.
//   - [ErrNotDeleted]: Octavia still shows something after its deletion.
//   - the error of ctx. The request in flight may have been carried out.
func (e *Executor) Run(ctx context.Context, p plan.Plan, start State) (Result, error) {
	r := &run{Executor: e, end: e.clock.Now().Add(start.Timeout), made: map[thing]string{}}
	if start.LoadBalancer != nil {
		lb := *start.LoadBalancer
		r.result.LoadBalancer = &lb
		r.tags = lb.Tags
	}
	for i, step := range p.Steps {
		r.step = step
		err := context.Cause(ctx)
		if err == nil && i == 0 && !isFinal(step) && slices.ContainsFunc(p.Steps, isFinal) {
			err = r.seeTagsAhead(ctx)
		}
		if err == nil {
			err = r.take(ctx, step)
			e.reportCreation(step, err)
		}
		if err != nil {
			return r.result, &StepError{Step: step, Number: i + 1, Of: len(p.Steps), err: err}
		}
		r.result.Done = append(r.result.Done, r.step)
		did := "Changed the load balancer"
		if _, looks := step.(plan.SeeDeleted); looks {
			did = "Looked at the load balancer"
		}
		e.logger.Info(did, "step", step.String(), "loadBalancer", r.id())
	}
	r.result.Complete = true
	return r.result, nil
}
