package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

func (l *LoadBalancers) cache() *octavia.Cache { return l.config.Octavia.Cache() }

func (r *reconciler) readFloatingIPs(ctx context.Context) (err error) {
	query, lb := r.found.query(r.identity, r.settings), r.found.balancer
	if known := &r.state.floatingIPs; known.suffices(query, r.of.config.Clock.Now(), r.mode) {
		r.found.floatingIPs = known.all
		return nil
	}
	if lb == nil && !wasServed(r.service) && query.Address == "" &&
		r.settings.LoadBalancerID == "" {
		// A Service that never had a load balancer has no floating IP.
		return nil
	}
	age := r.listAge()
	var since time.Time
	if lb != nil && age > 0 {
		since = r.of.cache().LastWrite(r.identity.UID, r.of.config.Clock.Now().Add(-age))
	}
	r.found.floatingIPs, err = r.of.config.Neutron.FloatingIPsOf(ctx, query, since)
	r.state.floatingIPs = knownFloatingIPs{query: query, all: r.found.floatingIPs}
	return err
}

// observed are the existing objects.
type observed struct {
	plan.Observed
	// contents were read, now or earlier. They are nil if the cache shows that they are as desired.
	contents *octavia.Contents
	// known is the state in the cache, and hash is the hash of the desired state.
	known octavia.Known
	hash  string
	// readAt is when the contents were read; zero if that was before this reconcile.
	readAt time.Time
	// withoutGroup: the security group was not read, because the desired state has not changed.
	withoutGroup bool
}

// observer reads the existing objects of a Service, except those that are known to be unchanged.
type observer struct {
	octavia *octavia.API
	neutron *neutron.API
	clock   clock.Clock
	// manageGroups: security groups are created and updated, and not only removed.
	manageGroups bool
	identity     desired.Identity
	mode         mode
}

func (r *reconciler) observer() observer {
	c := r.of.config
	return observer{
		c.Octavia, c.Neutron, c.Clock, c.Defaults.LoadBalancer.ManageSecurityGroups, r.identity,
		r.mode,
	}
}

// observe reads the objects that found does not hold. complete: contents that are not known to be
// as desired are read in all fields. isServed: the Service has an address.
func (o observer) observe(
	ctx context.Context, found found, want desired.State, isServed, complete bool,
) (observed, error) {
	lb := found.balancer
	is := observed{hash: want.Hash()}
	is.Observed = plan.Observed{
		LoadBalancer: lb, Role: found.role, FloatingIPs: found.floatingIPs,
	}
	if lb == nil {
		return is, o.wantedGroup(ctx, want, &is)
	}
	is.NeverServed = !isServed && found.role == plan.Owner
	is.known = o.octavia.Cache().Lookup(lb, o.identity.UID)
	unchanged := is.known.Current && is.known.State.Hash == is.hash &&
		(!o.mode.deep || is.known.State.Compared)
	var err error
	switch contents := is.known.Contents; {
	case unchanged && contents == nil:
		now := plan.AsWanted(want)
		is.Listeners, is.Pools = now.Listeners, now.Pools
	case unchanged, contents != nil && !o.mode.repair && !complete:
		is.use(contents)
	default:
		err = o.readContents(ctx, complete, &is)
	}
	if err != nil {
		return observed{}, err
	}
	if unchanged && !o.mode.repair {
		is.withoutGroup = true
		return is, nil
	}
	return is, o.wantedGroup(ctx, want, &is)
}

// comparable returns the part of the desired state that can be compared.
func (o observed) comparable(want desired.State) desired.State {
	if o.withoutGroup {
		want.SecurityGroup = nil
	}
	return want
}

func (o observer) readContents(ctx context.Context, complete bool, is *observed) error {
	lb := is.LoadBalancer
	depth := octavia.InPart
	if o.mode.deep || complete || o.mode.repair && is.known.State.Hash != "" {
		// Another client has changed the load balancer.
		depth = octavia.Full
	}
	// A drift repair uses no list from before it.
	upTo := lb.UpdatedAt
	if o.mode.repair {
		upTo = time.Time{}
	}
	begun := o.clock.Now()
	contents, err := o.octavia.Contents(ctx, lb.ID, depth, upTo)
	if err != nil {
		return err
	}
	is.readAt = begun
	is.use(&contents)
	return nil
}

func (o *observed) use(contents *octavia.Contents) {
	o.contents, o.Listeners, o.Pools = contents, contents.Listeners, contents.Pools
}

// suffices reports whether a plan depends only on fields that were read.
func (o observed) suffices(want desired.State, todo plan.Plan) bool {
	inPart := slices.ContainsFunc(o.Pools, func(pool octavia.Pool) bool {
		return pool.MembersInPart || pool.MonitorInPart
	})
	if last := o.known.State.Omitted; inPart && last != "" && last != omitted(want) {
		return false
	}
	return !slices.ContainsFunc(todo.Steps, func(step plan.Step) bool {
		switch step.(type) {
		case plan.DeleteLoadBalancer:
			// A cached state may lack parts of other Services.
			return o.readAt.IsZero()
		case plan.CreateMonitor, plan.UpdateMonitor, plan.DeleteMonitor:
			// A change of the monitor changes the monitored port of members, which a status tree
			// omits.
			return inPart
		}
		return false
	})
}

// omitted returns the values, each once, of the fields of members and monitors that a status tree
// omits. A status tree suffices to compare two desired states with equal values.
func omitted(d desired.State) string {
	var values []string
	for _, port := range d.Ports {
		if m := port.Pool.Monitor; m != nil {
			values = append(values,
				fmt.Sprint(port.Name, " monitor ", m.Delay, m.Timeout, m.MaxRetries,
					m.MaxRetriesDown, m.HTTPMethod, m.URLPath, m.ExpectedCodes))
		}
		for _, m := range port.Pool.Members {
			values = append(values, fmt.Sprint(port.Name, m.MonitorPort, m.SubnetID))
			if m.Weight != 1 {
				values = append(values, fmt.Sprint(port.Name, m.Address, m.Weight))
			}
		}
	}
	slices.Sort(values)
	return strings.Join(slices.Compact(values), ";") + "."
}

// wantedGroup reads the security group if it is desired. A repair reads it in any case, because the
// option may have been turned off.
func (o observer) wantedGroup(
	ctx context.Context, want desired.State, is *observed,
) error {
	if want.SecurityGroup == nil && !o.mode.repair {
		return nil
	}
	return o.group(ctx, want, &is.Observed)
}

// group reads the Service's security group, and the ports that have it or should have it.
func (o observer) group(
	ctx context.Context, want desired.State, is *plan.Observed,
) error {
	read := o.neutron.SecurityGroup
	if !o.manageGroups {
		read = o.neutron.LeftSecurityGroup
	}
	group, err := read(ctx, o.identity.SecurityGroupName())
	if err != nil {
		return err
	}
	is.SecurityGroup = group
	if group == nil && want.SecurityGroup == nil {
		return nil
	}
	var servers []string
	for _, backend := range want.Backends {
		if backend.ServerID != "" && want.SecurityGroup != nil {
			servers = append(servers, backend.ServerID)
		}
	}
	id := ""
	if group != nil {
		id = group.ID
	}
	is.NodePorts, err = o.neutron.NodePorts(ctx, servers, id)
	return err
}

// allContents reads the contents even of a load balancer that is deleted as a whole: its listeners
// show a guest even if another client removed the tags of the guest. Known contents are not read
// again if Octavia shows the same parts.
func (o observer) allContents(
	ctx context.Context, is *plan.Observed, lb *octavia.LoadBalancer,
) error {
	if lb == nil {
		return nil
	}
	if known := o.octavia.Cache().Lookup(lb, o.identity.UID).Contents; known.Are(lb) {
		is.Listeners, is.Pools = known.Listeners, known.Pools
		return nil
	}
	contents, err := o.octavia.Contents(ctx, lb.ID, octavia.InPart, time.Time{})
	if errors.Is(err, octavia.ErrNotFound) {
		is.LoadBalancer = nil
		return nil
	}
	is.Listeners, is.Pools = contents.Listeners, contents.Pools
	return err
}
