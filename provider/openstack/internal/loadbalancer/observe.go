package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
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
		query.PortID == "" && r.settings.FloatingIPBy() == "" && r.settings.LoadBalancerID == "" {
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

// observeFound returns what find has read.
func (r *reconciler) observeFound() plan.Observed {
	return plan.Observed{
		LoadBalancer: r.found.balancer, Role: r.found.role, FloatingIPs: r.found.floatingIPs,
	}
}

// observeBeside reads the floating IPs and the security group of the Service.
func (r *reconciler) observeBeside(ctx context.Context) (plan.Observed, error) {
	if err := r.readAllFloatingIPs(ctx); err != nil {
		return plan.Observed{}, err
	}
	is := r.observeFound()
	return is, r.group(ctx, desired.State{}, &is)
}

func (r *reconciler) readAllFloatingIPs(ctx context.Context) (err error) {
	since := r.of.cache().LastWrite(r.identity.UID, r.of.config.Clock.Now().Add(-r.listAge()))
	query := r.found.query(r.identity, r.settings)
	// An existing one that the Service chooses is only the Service's while it is attached.
	query.ID, query.PoolTag = "", ""
	if r.found.balancer == nil {
		query.PortID = ""
	}
	r.found.floatingIPs, err = r.of.config.Neutron.FloatingIPsOf(ctx, query, since)
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

// observe reads the objects that find has not read, except those that are known to be unchanged.
// complete: contents that are not known to be as desired are read in all fields.
func (r *reconciler) observe(
	ctx context.Context, want desired.State, complete bool,
) (observed, error) {
	lb := r.found.balancer
	is := observed{hash: want.Hash(), Observed: r.observeFound()}
	if lb == nil {
		return is, r.wantedGroup(ctx, want, &is)
	}
	is.NeverServed = len(r.service.Status.LoadBalancer.Ingress) == 0 && r.found.role == plan.Owner
	is.known = r.of.cache().Lookup(lb, r.identity.UID)
	unchanged := is.known.Current && is.known.State.Hash == is.hash &&
		(!r.deep || is.known.State.Compared)
	var err error
	switch contents := is.known.Contents; {
	// Which unverified members are desired depends on the contents.
	case unchanged && contents == nil && len(want.Unverified) == 0:
		now := plan.AsWanted(want, lb)
		is.Listeners, is.Pools = now.Listeners, now.Pools
	case contents != nil && (unchanged || !r.repair && !complete):
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
	return is, r.wantedGroup(ctx, want, &is)
}

// comparable returns the part of the desired state that can be compared.
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
		// Another client has changed the load balancer.
		depth = octavia.Full
	}
	// A drift repair uses no list from before it.
	upTo := lb.UpdatedAt
	if r.repair {
		upTo = time.Time{}
	}
	begun := r.of.config.Clock.Now()
	contents, err := r.of.config.Octavia.Contents(ctx, lb.ID, depth, upTo)
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
	last := o.known.State.Omitted
	switch {
	case !inPart:
	case last != "" && last != omitted(want):
		return false
	case last == "" && drains(want):
		// The term before may have ended before it changed the weight.
		return false
	}
	return !slices.ContainsFunc(todo.Steps, func(step plan.Step) bool {
		// A cached state may lack parts of other Services. A change of the monitor changes the
		// monitored port of members, which a status tree omits.
		return o.readAt.IsZero() && plan.DeletesLoadBalancer(step) ||
			inPart && plan.ChangesMonitor(step)
	})
}

// drains reports whether a member gets no new connections.
func drains(d desired.State) bool {
	return slices.ContainsFunc(d.Ports, func(port octavia.Port) bool {
		return slices.ContainsFunc(port.Pool.Members,
			func(m octavia.Member) bool { return m.Weight == 0 })
	})
}

// omitted returns the values, each once, of the fields of members and monitors that a status tree
// omits. A status tree suffices to compare two desired states with equal values.
func omitted(d desired.State) string {
	var values []string
	monitors, members := octavia.FieldsOf[octavia.Monitor](), octavia.FieldsOf[octavia.Member]()
	for _, port := range d.Ports {
		if m := port.Pool.Monitor; m != nil {
			values = append(values, fmt.Sprint(port.Name, " monitor ", monitors.Texts(*m)))
		}
		for _, m := range port.Pool.Members {
			at := ""
			if m.Weight != 1 {
				at = m.Address
			}
			m.Name = ""
			values = append(values, fmt.Sprint(port.Name, at, m.SubnetID, members.Texts(m)))
		}
	}
	slices.Sort(values)
	return strings.Join(slices.Compact(values), ";") + "."
}

// wantedGroup reads the security group if it is desired. A repair reads it in any case, because the
// option may have been turned off.
func (r *reconciler) wantedGroup(ctx context.Context, want desired.State, is *observed) error {
	if want.SecurityGroup == nil && !r.repair {
		return nil
	}
	return r.group(ctx, want, &is.Observed)
}

// group reads the Service's security group, and the ports that have it or should have it.
func (r *reconciler) group(ctx context.Context, want desired.State, is *plan.Observed) error {
	read := r.of.config.Neutron.SecurityGroup
	if !r.of.config.Defaults.LoadBalancer.ManageSecurityGroups {
		read = r.of.config.Neutron.LeftSecurityGroup
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
	is.NodePorts, err = r.of.config.Neutron.NodePorts(ctx, servers, id)
	return err
}

// allContents reads the contents even of a load balancer that is deleted as a whole: its listeners
// show a guest even if another client removed the tags of the guest. Known contents are not read
// again if Octavia shows the same parts.
func (r *reconciler) allContents(ctx context.Context, is *plan.Observed) error {
	lb := is.LoadBalancer
	if lb == nil {
		return nil
	}
	known := r.of.cache().Lookup(lb, r.identity.UID).Contents
	if known.Are(lb) && !lb.ReportsEarly() {
		is.Listeners, is.Pools = known.Listeners, known.Pools
		return nil
	}
	contents, err := r.of.config.Octavia.Contents(ctx, lb.ID, octavia.InPart, time.Time{})
	if errors.Is(err, octavia.ErrNotFound) {
		is.LoadBalancer = nil
		return nil
	}
	is.Listeners, is.Pools = contents.Listeners, contents.Pools
	return err
}
