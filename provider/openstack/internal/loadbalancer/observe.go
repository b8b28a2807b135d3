package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

func (l *LoadBalancers) cache() *octavia.Cache { return l.config.Octavia.Cache() }

// find finds the load balancer and locks it. A list from before it was created would not show it,
// and it would be created twice.
func (r *reconciler) find(ctx context.Context) error {
	var err error
	if r.found.apiMinor, err = r.config.Octavia.Version(ctx); err != nil {
		return fmt.Errorf("learn the version of Octavia's API: %w", err)
	}
	if lb := r.state.creation.pending(r); lb != nil {
		r.found.claim = claim{balancer: lb, role: plan.Owner}
		return nil
	}
	// An older list tells whether Octavia is done, but not what fxccm has written since.
	age := listMaxAge
	if r.repair {
		age = 0
	}
	begun, err := r.findInList(ctx, age)
	isMissing := r.found.balancer == nil &&
		(r.found.deleting != nil || r.settings.LoadBalancerID != "" || wasServed(r.service))
	if age > 0 && (err != nil || isMissing || r.cache().WrittenSince(r.identity.UID, begun)) {
		begun, err = r.findInList(ctx, 0)
	}
	if lb := r.found.balancer; lb == nil || lb.Status != octavia.PendingCreate {
		r.state.creation.loadBalancer = nil
	}
	if err == nil && r.found.balancer != nil {
		err = r.lockFound(ctx, begun)
	}
	return r.tellFound(err)
}

// lockFound locks the load balancer, and looks again if another Service may have written to it
// since the list was begun.
func (r *reconciler) lockFound(ctx context.Context, begun time.Time) error {
	id := r.found.balancer.ID
	unlock, waited, err := r.locks.lock(ctx, "load balancer "+id)
	if err != nil {
		return err
	}
	r.found.unlock = unlock
	if waited || r.cache().WrittenSince(id, begun) {
		_, err = r.findInList(ctx, 0)
	}
	return err
}

// findInList finds the load balancer in a list of at most this age, and returns when it was begun.
func (r *reconciler) findInList(
	ctx context.Context, age time.Duration,
) (begun time.Time, err error) {
	all, err := r.config.Octavia.LoadBalancers(ctx, age)
	if err != nil {
		return time.Time{}, err
	}
	r.found.claim, err = claimOf(r.identity, r.service, r.settings.LoadBalancerID, all.All(),
		r.found.apiMinor >= 5)
	if err != nil {
		return all.Begun, err
	}
	return all.Begun, r.admitGuest()
}

func (r *reconciler) tellFound(err error) error {
	var refused *refusal
	switch {
	case errors.As(err, &refused):
		return r.refuse(aboutIdentity, refused)
	case err != nil:
	case r.found.lost:
		r.tell(aboutIdentity, desired.Notice{
			Reason: events.Lost, Warning: true,
			Message: fmt.Sprintf("load balancer %s no longer exists; creating a new one",
				r.settings.LoadBalancerID),
		})
	default:
		r.tell(aboutIdentity)
	}
	return err
}

// admitGuest enforces the limit of Services that share a load balancer.
func (r *reconciler) admitGuest() error {
	lb := r.found.balancer
	if lb == nil || r.found.role != plan.Guest {
		return nil
	}
	if r.found.apiMinor < 5 {
		return &refusal{events.NotShared, fmt.Sprintf(
			"load balancer %s cannot be shared: Octavia API 2.%d has no tags, which mark the owner of each part", lb.ID, r.found.apiMinor)}
	}
	// Services of OCCM have only names, and Services of two clusters may have the same name.
	others := max(len(sharers(r.identity, lb)), len(desired.ServicesOf(lb.Tags)))
	if !r.identity.HasJoined(lb.Tags) && others+1 > r.settings.MaxShared {
		return &refusal{events.NotShared, fmt.Sprintf(
			"load balancer %s is already shared by %d other Services; [LoadBalancer] max-shared-lb allows %d", lb.ID, others, r.settings.MaxShared)}
	}
	return nil
}

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
	var since time.Time
	if lb != nil && !r.repair {
		since = r.cache().LastWrite(r.identity.UID, r.config.Clock.Now().Add(-listMaxAge))
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

// observed is what there is.
type observed struct {
	plan.Observed
	// contents were read, now or earlier; nil: none were, because they are as wanted.
	contents *octavia.Contents
	// known is what the cache knew.
	known octavia.Known
	// read: the contents were read now. complete: they were read to the last field, if not known to
	// be as wanted.
	read, complete bool
	// withoutGroup: the security group was not read, because nothing has changed.
	withoutGroup bool
}

// thoroughness of a read.
type thoroughness bool

const (
	cached   thoroughness = false
	complete thoroughness = true
)

// observe reads what exists, but not what is known to be unchanged.
func (r *reconciler) observe(ctx context.Context, want wanted, how thoroughness) (observed, error) {
	lb := r.found.balancer
	is := observed{complete: bool(how)}
	is.Observed = plan.Observed{
		LoadBalancer: lb, Role: r.found.role,
		FloatingIPs: r.found.floatingIPs,
	}
	if lb == nil {
		return is, r.observeWantedGroup(ctx, want, &is)
	}
	is.OtherServices = sharers(r.identity, lb)
	is.NeverServed = len(r.service.Status.LoadBalancer.Ingress) == 0 &&
		r.found.role == plan.Owner
	is.known = r.cache().Lookup(lb, r.identity.UID)
	unchanged := is.known.Current && is.known.State.Hash == want.hash &&
		(!r.deep || is.known.State.Compared)
	if err := r.observeContents(ctx, want, unchanged, &is); err != nil {
		return observed{}, err
	}
	if unchanged && !r.repair {
		is.withoutGroup = true
		return is, nil
	}
	return is, r.observeWantedGroup(ctx, want, &is)
}

// comparable is what of the desired state is to be compared.
func (o observed) comparable(want wanted) desired.State {
	if o.withoutGroup {
		want.SecurityGroup = nil
	}
	return want.State
}

// observeContents makes no request if the contents are known.
func (r *reconciler) observeContents(
	ctx context.Context, want wanted, unchanged bool, is *observed,
) error {
	lb, known := r.found.balancer, is.known
	switch {
	case unchanged && known.Contents == nil:
		now := plan.AsWanted(want.State)
		is.Listeners, is.Pools = now.Listeners, now.Pools
		return nil
	case unchanged, known.Contents != nil && !r.repair && !is.complete:
		is.contents = known.Contents
	default:
		depth := octavia.InPart
		if r.deep || is.complete || r.repair && known.State.Hash != "" {
			// Another client has changed something.
			depth = octavia.Full
		}
		// A drift repair trusts no list from before it.
		upTo := lb.UpdatedAt
		if r.repair {
			upTo = time.Time{}
		}
		contents, err := r.config.Octavia.Contents(ctx, lb.ID, depth, upTo)
		if err != nil {
			return err
		}
		is.contents, is.read = &contents, true
	}
	is.Listeners, is.Pools = is.contents.Listeners, is.contents.Pools
	return nil
}

// suffices tells whether a plan hangs on nothing that was not read.
func (o observed) suffices(want wanted, todo plan.Plan) bool {
	inPart := slices.ContainsFunc(o.Pools, func(pool octavia.Pool) bool {
		return pool.MembersInPart || pool.MonitorInPart
	})
	if last := o.known.State.Omitted; inPart && last != "" && last != omitted(want.State) {
		return false
	}
	return !slices.ContainsFunc(todo.Steps, func(step plan.Step) bool {
		switch step.(type) {
		case plan.DeleteLoadBalancer:
			// A cached state may lack parts of other Services.
			return !o.read
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
func (r *reconciler) observeWantedGroup(ctx context.Context, want wanted, is *observed) error {
	if want.SecurityGroup == nil && !r.repair {
		return nil
	}
	return r.observeGroup(ctx, want.State, &is.Observed)
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
