package loadbalancer

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

func (l *LoadBalancers) cache() *octavia.Cache { return l.config.Octavia.Cache() }

// floatingIPQuery is for the floating IPs of the load balancer, those tagged as the Service's, and
// the requested one.
func (r *reconciler) floatingIPQuery() neutron.FloatingIPQuery {
	query := neutron.FloatingIPQuery{Tag: r.identity.ServiceTag()}
	if lb := r.found.balancer; lb != nil {
		query.PortID = lb.VIP.PortID
	}
	if !r.settings.Internal {
		query.Address = r.settings.Address
	}
	return query
}

func (r *reconciler) readFloatingIPs(ctx context.Context) (err error) {
	query, lb := r.floatingIPQuery(), r.found.balancer
	if known := &r.state.floatingIPs; known.suffices(r, query) {
		r.found.floatingIPs = known.all
		return nil
	}
	if lb == nil && !wasServed(r.service) && query.Address == "" &&
		r.settings.LoadBalancerID == "" {
		// A Service that never had a load balancer has no floating IP.
		return nil
	}
	age := listMaxAge
	if r.repair {
		age = r.age
	}
	var since time.Time
	if lb != nil && age > 0 {
		since = r.cache().LastWrite(r.identity.UID, r.config.Clock.Now().Add(-age))
	}
	r.found.floatingIPs, err = r.config.Neutron.FloatingIPsOf(ctx, query, since)
	r.state.floatingIPs = knownFloatingIPs{query: query, all: r.found.floatingIPs}
	return err
}

// hasFloatingIP tells whether a floating IP leads to the load balancer or can be attached to it.
func (r *reconciler) hasFloatingIP() bool {
	lb := r.found.balancer
	return slices.ContainsFunc(r.found.floatingIPs, func(ip neutron.FloatingIP) bool {
		own := slices.Contains(ip.Tags, r.identity.ServiceTag())
		requested := ip.Address == r.settings.Address
		return lb != nil && ip.PortID != "" && ip.PortID == lb.VIP.PortID || ip.PortID == "" &&
			(own || requested)
	})
}

// observed are the existing objects.
type observed struct {
	plan.Observed
	// contents were read, now or earlier; nil: none were, because they are as wanted.
	contents *octavia.Contents
	// known is what the cache knew, and hash that of the desired state.
	known octavia.Known
	hash  string
	// readAt is when the contents were read; the zero time: earlier than in this reconcile.
	readAt time.Time
	// withoutGroup: the security group was not read, because nothing has changed.
	withoutGroup bool
}

// observe reads what exists, but not what is known to be unchanged. complete: the contents are read
// to the last field, if they are not known to be as wanted.
func (r *reconciler) observe(
	ctx context.Context, want desired.State, complete bool,
) (observed, error) {
	lb := r.found.balancer
	is := observed{hash: want.Hash()}
	is.Observed = plan.Observed{
		LoadBalancer: lb, Role: r.found.role, FloatingIPs: r.found.floatingIPs,
	}
	if lb == nil {
		return is, r.observeWantedGroup(ctx, want, &is)
	}
	is.NeverServed = len(r.service.Status.LoadBalancer.Ingress) == 0 &&
		r.found.role == plan.Owner
	is.known = r.cache().Lookup(lb, r.identity.UID)
	unchanged := is.known.Current && is.known.State.Hash == is.hash &&
		(!r.deep || is.known.State.Compared)
	var err error
	switch contents := is.known.Contents; {
	case unchanged && contents == nil:
		now := plan.AsWanted(want)
		is.Listeners, is.Pools = now.Listeners, now.Pools
	case unchanged, contents != nil && !r.repair && !complete:
		is.use(contents)
	default:
		err = r.readContents(ctx, complete, &is)
	}
	if err != nil {
		return observed{}, err
	}
	if unchanged && !r.repair {
		is.withoutGroup = true
		return is, nil
	}
	return is, r.observeWantedGroup(ctx, want, &is)
}

// comparable is what of the desired state is to be compared.
func (o observed) comparable(want desired.State) desired.State {
	if o.withoutGroup {
		want.SecurityGroup = nil
	}
	return want
}

func (r *reconciler) readContents(ctx context.Context, complete bool, is *observed) error {
	lb := is.LoadBalancer
	depth := octavia.InPart
	if r.deep || complete || r.repair && is.known.State.Hash != "" {
		// Another client has changed something.
		depth = octavia.Full
	}
	// A drift repair trusts no list from before it.
	upTo := lb.UpdatedAt
	if r.repair {
		upTo = time.Time{}
	}
	begun := r.config.Clock.Now()
	contents, err := r.config.Octavia.Contents(ctx, lb.ID, depth, upTo)
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

// suffices tells whether a plan hangs on nothing that was not read.
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
			// With the monitor changes the monitored port of members, which a status tree omits.
			return inPart
		}
		return false
	})
}

// omitted are the values of the fields of members and monitors that a status tree omits, each once:
// two desired states with the same ones can be compared by a status tree.
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

// observeWantedGroup reads the security group if one is wanted and, in a repair, also if none is:
// the option may have been turned off.
func (r *reconciler) observeWantedGroup(
	ctx context.Context, want desired.State, is *observed,
) error {
	if want.SecurityGroup == nil && !r.repair {
		return nil
	}
	return r.observeGroup(ctx, want, &is.Observed)
}

// observeGroup reads the Service's security group and the ports that have it or should have it.
func (r *reconciler) observeGroup(
	ctx context.Context, want desired.State, is *plan.Observed,
) error {
	read := r.config.Neutron.SecurityGroup
	if !r.config.Defaults.LoadBalancer.ManageSecurityGroups {
		read = r.config.Neutron.LeftSecurityGroup
	}
	group, err := read(ctx, r.identity.SecurityGroupName())
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
	is.NodePorts, err = r.config.Neutron.NodePorts(ctx, servers, id)
	return err
}
