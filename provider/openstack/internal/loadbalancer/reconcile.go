package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/tracing"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// request is the input of a reconcile.
type request struct {
	cluster string
	service *v1.Service
	nodes   []*v1.Node
	// endpoints of the Service are nil if the caller has none to give.
	endpoints *endpoints
	// deletedCluster is the UID of a cluster without an API server, whose Service is deleted. Only
	// objects with its tag count. "": the cluster of the term.
	deletedCluster string
	mode
}

// mode limits what a reconcile may do, and how much it reads.
type mode struct {
	// create a load balancer if it does not exist.
	create bool
	// nodes: only nodes have changed.
	nodes bool
	// repair: the load balancer may have drifted although nothing in Kubernetes has changed.
	repair bool
	// deep: compare all fields, also those that a status tree omits.
	deep bool
	// age is how old the lists may be for a repair. If a repair is needed, the reconcile ends with
	// errOld.
	age time.Duration
}

// listAge is how old a list may be that shows Octavia's progress.
func (r *reconciler) listAge() time.Duration {
	if r.repair {
		return r.age
	}
	return r.of.config.Octavia.ListMaxAge()
}

// reconciler is one reconcile of one Service. It holds the lock of the Service and, once the load
// balancer is found, the lock of that.
type reconciler struct {
	request
	of       *LoadBalancers
	state    *serviceState
	unlock   []func()
	identity desired.Identity
	settings settings.Settings
	found    found
	notes    *notifier
	// annotated is the digest of the annotations after one was written; nil for none.
	annotated *digest
	// arePlaced: placeNodes was called. Then nodes are those in the region, unplaced are those
	// whose region is unknown, and addresses are those of the servers of both; nil if each node has
	// what it reports.
	arePlaced bool
	unplaced  []*v1.Node
	addresses map[string][]v1.NodeAddress
}

// begin locks the Service. The caller closes the reconciler. A silent one writes only events about
// waiting.
func (l *LoadBalancers) begin(ctx context.Context, of request, silent bool) (*reconciler, error) {
	unlock, err := l.locks.Lock(ctx, "service "+string(of.service.UID))
	if err != nil {
		return nil, err
	}
	state := l.states.get(of.service.UID)
	if state == nil {
		state = newServiceState()
	}
	r := l.reconciler(of, state, silent)
	r.unlock = append(r.unlock, unlock)
	return r, nil
}

func (l *LoadBalancers) reconciler(of request, state *serviceState, silent bool) *reconciler {
	return &reconciler{of: l, request: of, state: state, notes: &notifier{
		service: of.service, recorder: l.config.Recorder, written: state.events,
		clock: l.config.Clock, silent: silent,
	}}
}

func (r *reconciler) close() {
	for _, unlock := range r.unlock {
		unlock()
	}
}

// reconcile finds the load balancer, decides its desired state, compares and applies.
func (r *reconciler) reconcile(ctx context.Context) (*v1.LoadBalancerStatus, error) {
	err := r.awaiting(ctx, "Octavia", r.find)
	if err == nil {
		err = r.waitWhilePending(ctx)
	}
	if err == nil && r.found.whyLeaves != "" {
		err = r.leave(ctx)
	}
	if err == nil {
		err = r.awaiting(ctx, "Nova", func(ctx context.Context) error {
			r.placeNodes(ctx)
			return nil
		})
	}
	var want desired.State
	if err == nil {
		err = r.awaiting(ctx, r.placesFrom(), func(ctx context.Context) (err error) {
			ctx, span := tracing.Start(ctx, "decide")
			defer func() { span.End(err) }()
			want, err = r.decide(ctx)
			return err
		})
	}
	if err == nil {
		err = r.converge(ctx, want)
	}
	if err == nil {
		err = r.deleteDuplicates(ctx)
	}
	if errors.Is(err, errOld) {
		return nil, err
	}
	err = r.refused(err)
	if isWait(err) {
		r.state.floatingIPs.extend(r.of.config.Clock.Now(), r.mode)
	}
	if err == nil {
		r.notes.tell(aboutRefusal)
		r.notes.tell(aboutWaiting)
	}
	r.report(ctx, err)
	if err != nil {
		return nil, r.explain(err)
	}
	return r.status(), nil
}

// placeNodes leaves out the nodes of other regions, and reads the addresses of the others' servers,
// once.
func (r *reconciler) placeNodes(ctx context.Context) {
	if r.arePlaced {
		return
	}
	r.arePlaced = true
	r.nodes = r.of.objects.Load().nodesOr(r.nodes)
	if sort := r.of.config.SortNodes; sort != nil {
		r.nodes, r.unplaced = sort(ctx, r.nodes)
	}
	if read := r.of.config.Addresses; read != nil {
		r.addresses = read(ctx, slices.Concat(r.nodes, r.unplaced))
	}
}

// waitWhilePending ends the reconcile while Octavia is at work.
func (r *reconciler) waitWhilePending(ctx context.Context) error {
	lb := r.found.balancer
	switch {
	case lb == nil && r.found.deleting != nil:
		return r.waitFor(r.found.deleting,
			"is being deleted; a new one is created after that")
	case lb == nil && !r.create:
		return fmt.Errorf("service %s/%s has no load balancer yet", r.service.Namespace,
			r.service.Name)
	case lb == nil || !lb.Status.Pending():
		return nil
	}
	if r.isByName() || r.found.role == plan.Guest && !r.isTagged(lb) {
		return r.waitFor(lb, "is %s", lb.Status)
	}
	// OCCM writes the ID at the end. Written earlier, it survives a restart.
	if err := r.of.Annotate(ctx, r.service,
		map[string]*string{settings.AnnotationLoadBalancerID: &lb.ID}); err != nil {
		return err
	}
	return r.waitFor(lb, "is %s", lb.Status)
}

// converge takes the steps to the desired state. It returns nil if Octavia has completed all of
// them.
func (r *reconciler) converge(ctx context.Context, want desired.State) error {
	if lb := r.found.balancer; lb == nil {
		r.inherit(&want)
	} else if lb.Status == octavia.Active {
		r.of.cache().Confirm(lb, r.of.config.Clock.Now())
	}
	want, is, todo, err := r.diff(ctx, want, false)
	if err == nil {
		err = r.waitForParts(is.Observed)
	}
	if err != nil {
		return err
	}
	if r.found.whyLeaves = r.collision(is.Listeners); r.found.whyLeaves != "" {
		return r.leave(ctx)
	}
	if r.age > 0 && (len(todo.Steps) > 0 || len(r.found.duplicates) > 0) {
		return errOld
	}
	if r.isRecreatedTooSoon(todo) {
		return r.refuseRecreation()
	}
	r.reportDifferences(todo)
	blocked := r.notes.tellPlan(todo.Notices)
	switch {
	case len(todo.Steps) > 0:
		err = r.apply(ctx, want, is, todo)
	case blocked == nil:
		err = r.finish(ctx, want, is)
	}
	if blocked != nil {
		// The requested floating IP, or one of the pool, may be released at any time.
		r.state.floatingIPs = knownFloatingIPs{}
	}
	if err != nil {
		return err
	}
	return blocked
}

// partsTimeout is how long a load balancer may be unchanged while Octavia shows work on one of its
// parts. Such a part is then taken as it is: Octavia does not finish it.
const partsTimeout = 5 * time.Minute

// waitForParts ends the reconcile while the provider is at work although the load balancer is
// ACTIVE.
func (r *reconciler) waitForParts(is plan.Observed) error {
	lb := is.LoadBalancer
	if lb == nil || !lb.ReportsEarly() || r.of.config.Clock.Since(lb.UpdatedAt) > partsTimeout {
		return nil
	}
	contents := octavia.Contents{Listeners: is.Listeners, Pools: is.Pools}
	if part := contents.Unfinished(); part != "" {
		return r.waitFor(lb, "is %s, and its %s", lb.Status, part)
	}
	return nil
}

// diff compares. If the plan depends on fields that were not read just now, all are read first. It
// returns the desired state without the members that must wait for their servers.
func (r *reconciler) diff(
	ctx context.Context, want desired.State, complete bool,
) (desired.State, observed, plan.Plan, error) {
	var is observed
	if err := tracing.Do(ctx, "observe", func(ctx context.Context) (err error) {
		is, err = r.observe(ctx, want, complete)
		return err
	}); err != nil {
		return desired.State{}, observed{}, plan.Plan{}, err
	}
	verified, without := want.Verified(is.Pools)
	todo := planChange(ctx, verified, is)
	if complete || r.found.balancer == nil || is.suffices(verified, todo) {
		r.noteUnverified(without)
		return verified, is, todo, nil
	}
	r.of.cache().Invalidate(r.found.balancer.ID, r.identity.UID)
	return r.diff(ctx, want, true)
}

// noteUnverified notes the nodes that must wait for their servers. The text names one of them, so
// that it stays the same while others become known. It names none that may be in another region:
// these need no action.
func (r *reconciler) noteUnverified(nodes []string) {
	r.state.isUnverified.Store(len(nodes) > 0)
	nodes = slices.DeleteFunc(nodes, func(name string) bool {
		return slices.ContainsFunc(r.unplaced, func(n *v1.Node) bool { return n.Name == name })
	})
	if len(nodes) == 0 {
		r.notes.tell(aboutMembers)
		return
	}
	which := "node " + nodes[0] + " is"
	if len(nodes) > 1 {
		which = "node " + nodes[0] + " and others are"
	}
	r.notes.tell(aboutMembers, events.Notice{
		Reason: events.NodeAddressForeign, Warning: true,
		Message: which + " not a member yet, because OpenStack has not shown a server of the node " +
			"with its address; retrying. Exclude a node without a server by the label " +
			v1.LabelNodeExcludeBalancers,
	})
}

// planChange plans in a span.
func planChange(ctx context.Context, want desired.State, is observed) (todo plan.Plan) {
	_, span := tracing.Start(ctx, "plan")
	err := errPanicked // until the plan is there
	defer func() { span.End(err, slog.Int(tracing.Steps, len(todo.Steps))) }()
	todo, err = plan.Change(is.comparable(want), is.Observed), nil
	return todo
}

var errPanicked = errors.New("panic")

// decide returns the desired state.
func (r *reconciler) decide(ctx context.Context) (desired.State, error) {
	if err := r.readFloatingIPs(ctx); err != nil {
		return desired.State{}, err
	}
	if err := r.checkPort(ctx); err != nil {
		return desired.State{}, err
	}
	if err := r.checkCertificate(ctx); err != nil {
		return desired.State{}, err
	}
	r.placeNodes(ctx)
	input := desired.Input{
		Identity: r.identity,
		Service:  r.service,
		Nodes: desired.Candidates(r.nodes, r.unplaced, r.of.config.RemovalTaints,
			r.addresses),
		Settings: r.settings,

		Guest:                r.found.role == plan.Guest,
		HasFloatingIP:        r.found.hasFloatingIP(r.identity.ServiceTag(), r.settings),
		IsFloatingIPAttached: slices.ContainsFunc(r.found.floatingIPs, r.found.leadsHere),
		PortNetworkID:        r.found.portNetwork,
		PortSubnetID:         r.found.portSubnet,
	}
	provider := r.settings.Provider
	if lb := r.found.balancer; lb != nil {
		input.LoadBalancerName, provider = lb.Name, lb.Provider
	}
	input.Features = desired.FeaturesOf(provider, r.found.apiMinor, r.settings.Serial)
	var err error
	if input.Pods, err = r.pods(input.Features); err != nil {
		return desired.State{}, err
	}
	var notes []events.Notice
	notes, err = r.resolve(ctx, &input)
	var impossible *events.Notice
	var unseen *desired.UnseenSubnetError
	var unrouted *desired.UnroutedPodsError
	switch {
	case errors.As(err, &unrouted):
		return desired.State{}, r.notes.refuse(aboutPlaces, events.Refuse(events.Unsupported,
			"%s is pod, but %v; correct the gateway or the host routes of the subnet, choose "+
				"another one (subnet-id), or set member-target to node; if another router leads "+
				"to the pods, list their ranges in pod-ranges of [LoadBalancer]",
			r.nameOf("member-target"), unrouted))
	case errors.As(err, &unseen):
		return desired.State{}, r.notes.refuse(aboutPlaces, events.ValueRefused.Notice(
			unseen.Error(), cmp.Or(r.settingWith(unseen.ID), "the subnet of the nodes")))
	case errors.Is(err, desired.ErrNoNode):
		return desired.State{}, r.wait(r.found.lastChange(r.service), "%v", err)
	case errors.As(err, &impossible):
		return desired.State{}, r.notes.refuse(aboutPlaces, impossible)
	case err != nil:
		return desired.State{}, err
	}
	r.notes.tell(aboutPlaces, notes...)
	want, notes, unsupported := desired.Build(input)
	if unsupported != nil {
		refused := events.Refuse(events.Unsupported, "%v", unsupported)
		r.notes.tell(aboutDesired, append(notes, *refused)...)
		return desired.State{}, refused
	}
	r.notes.tell(aboutDesired, notes...)
	return want, nil
}

// resolve sets the places. If the router of the pods does not lead to the load balancer, or no pod
// can be a member, nodes are the members with the target auto.
func (r *reconciler) resolve(
	ctx context.Context, input *desired.Input,
) (notes []events.Notice, err error) {
	isAuto := r.settings.MemberTarget == settings.TargetAuto
	if isAuto && input.Pods != nil && input.ReachesNoPod() {
		input.Pods = nil
	}
	input.Places, notes, err = desired.Resolve(ctx, r.of.config.Neutron, *input, r.found.balancer)
	var unrouted *desired.UnroutedPodsError
	if isAuto && errors.As(err, &unrouted) {
		input.Pods = nil
		return r.resolve(ctx, input)
	}
	return notes, err
}

// placesFrom names the services that decide reads from.
func (r *reconciler) placesFrom() string {
	if r.settings.TLSContainer != "" {
		return "Neutron or Barbican"
	}
	return "Neutron"
}

// checkPort refuses a port that belongs to a server, a router or another load balancer: its traffic
// and its floating IP would become the Service's. The port of the existing load balancer is not
// read again.
func (r *reconciler) checkPort(ctx context.Context) error {
	id, lb := r.settings.PortID, r.found.balancer
	if id == "" || r.found.role == plan.Guest || lb != nil && lb.VIP.PortID == id {
		return nil
	}
	port, err := r.of.config.Neutron.Port(ctx, id)
	isMissing := errors.Is(err, neutron.ErrNotFound)
	if err != nil && !isMissing {
		return err
	}
	if isMissing {
		return r.notes.refuse(aboutPlaces, events.ValueRefused.Notice(
			"Neutron: port "+id+" does not exist", r.nameOf("port-id")))
	}
	isUsed := r.found.portUser != "" || port.DeviceOwner != "" || port.DeviceID != ""
	if isUsed || !port.OfProject {
		return r.notes.refuse(aboutPlaces, events.Refuse(events.NotAllowed, "port %s is not an "+
			"unused port of the project: annotation port-id needs one without a device, a device "+
			"owner and another load balancer; name another port", id))
	}
	r.found.portNetwork = port.NetworkID
	isIPv4 := func(a neutron.Address) bool {
		address, err := netip.ParseAddr(a.IP)
		return err == nil && address.Is4()
	}
	if i := slices.IndexFunc(port.Addresses, isIPv4); i >= 0 {
		r.found.portSubnet = port.Addresses[i].SubnetID
	}
	return nil
}

func (r *reconciler) checkCertificate(ctx context.Context) error {
	if r.settings.TLSContainer == "" || !r.settings.CheckCertificates {
		return nil
	}
	err := r.of.config.Neutron.CheckCertificate(ctx, r.settings.TLSContainer)
	cause := ""
	if f := failure.Of(err); f != nil && f.Status == http.StatusForbidden {
		cause = f.Cause()
	} else if errors.Is(err, neutron.ErrNoCertificate) {
		cause = err.Error()
	}
	if cause == "" {
		return err
	}
	return r.notes.refuse(aboutPlaces, events.Refuse(events.CertificateNotFound,
		"%s (%s); correct it, or give the user of cloud.conf access", cause,
		r.nameOf("default-tls-container-ref")))
}

// apply takes the steps of a plan. It announces a created load balancer even after a failure.
func (r *reconciler) apply(
	ctx context.Context, want desired.State, is observed, todo plan.Plan,
) error {
	r.of.config.Logger.V(4).Info("Load balancer plan", "service",
		r.service.Namespace+"/"+r.service.Name, "plan", todo.String())
	created := r.found.balancer == nil
	var done plan.Result
	apply := func(ctx context.Context) (err error) {
		done, err = r.of.runner.Run(ctx, todo, r.found.balancer, reconcileTimeout)
		return err
	}
	var err error
	if created {
		// No step waits for the end of another one.
		err = r.awaiting(ctx, "Octavia or Neutron", apply)
	} else {
		err = apply(ctx)
	}
	r.found.adopt(done)
	if ip := done.FloatingIP; ip != nil {
		r.state.address = ip.Address
	}
	r.reportCreations(done, err)
	r.remember(want, is, todo, done, err)
	r.state.inheritedVIP = inheritedVIP(r.state.inheritedVIP, todo, done, err)
	since := r.found.lastChange(r.service)
	if len(done.Done) > 0 {
		// A plan of many steps takes many reconciles: after progress the pause starts over.
		since = r.of.config.Clock.Now()
	}
	if errors.Is(err, plan.ErrChanged) && len(done.Done) == 0 {
		// The load balancer may no longer be the Service's, and no floating IP of a pool unused.
		r.state.floatingIPs = knownFloatingIPs{}
		return r.retry(err, since)
	}
	r.noteCreation(created, todo, err)
	if announced := r.announce(ctx); announced != nil {
		err = errors.Join(err, announced)
	}
	if err != nil {
		return r.retry(err, since)
	}
	lb := r.found.balancer
	switch {
	case lb.Status == octavia.PendingDelete:
		r.of.cache().Invalidate(lb.ID, r.identity.UID)
		return r.waitFor(lb, "is being deleted; a new one is created after that")
	case created:
		// A creation takes long: waiting for it here would keep other Services waiting.
		return r.waitFor(lb, "is %s", lb.Status)
	}
	return r.waitUntilActive(ctx)
}

// reportCreations reports which creations succeeded, and which one a quota prevents.
func (r *reconciler) reportCreations(done plan.Result, err error) {
	report := func(step plan.Step, err error) {
		if counted := plan.QuotaOf(step); counted != "" {
			r.of.config.Trouble.Creation(counted, r.service.UID, err)
		}
	}
	for _, step := range done.Done {
		report(step, nil)
	}
	var failed *plan.StepError
	if errors.As(err, &failed) {
		report(failed.Step, err)
	}
}

// noteCreation remembers a created load balancer, so that the next reconciles need not read it.
func (r *reconciler) noteCreation(created bool, todo plan.Plan, err error) {
	r.state.creation = freshCreation{}
	if slices.ContainsFunc(todo.Steps, plan.ChangesFloatingIP) {
		r.state.floatingIPs = knownFloatingIPs{}
	}
	if created && err == nil {
		r.state.creation.loadBalancer = r.found.balancer
		r.state.floatingIPs = knownFloatingIPs{
			query: r.found.query(r.identity, r.settings), all: r.found.floatingIPs,
		}
		r.state.floatingIPs.extend(r.of.config.Clock.Now(), r.mode)
	}
}

// remember caches the state after a run, also after one that ended because Octavia is at work.
func (r *reconciler) remember(
	want desired.State, is observed, todo plan.Plan, done plan.Result, err error,
) {
	lb := r.found.balancer
	r.noteWrite(lb, done, err)
	if lb == nil {
		return
	}
	state, contents := octavia.AppliedState{}, (*octavia.Contents)(nil)
	if lb.ReportsEarly() {
		// The status of the parts must be read.
		r.of.cache().Written(lb.ID, nil, r.identity.UID, state)
		return
	}
	if err == nil || errors.Is(err, octavia.ErrPending) {
		switch {
		case is.LoadBalancer != nil:
			contents = plan.After(is.contents, done.Done)
		case len(todo.Steps) > 0 && !want.Features.Serial:
			contents = plan.AfterCreation(want, lb.Made)
		}
	}
	if err == nil {
		state = octavia.AppliedState{Hash: is.hash, Omitted: omitted(want)}
	}
	r.of.cache().Written(lb.ID, contents, r.identity.UID, state)
}

// noteWrite discards lists from before the run's last change. After a failure it discards all lists
// from before its end, because a request that failed may have been carried out, or another client
// may have changed something.
func (r *reconciler) noteWrite(lb *octavia.LoadBalancer, done plan.Result, err error) {
	at := done.WroteAt
	if err != nil && !errors.Is(err, octavia.ErrPending) {
		at = r.of.config.Clock.Now()
	}
	if at.IsZero() {
		return
	}
	r.of.cache().NoteWrite(r.identity.UID, at)
	if lb != nil {
		r.of.cache().NoteWrite(lb.ID, at)
	}
}

// finish caches the state of a load balancer that is as desired, and announces it.
func (r *reconciler) finish(ctx context.Context, want desired.State, is observed) error {
	lb := r.found.balancer
	state := octavia.AppliedState{Hash: is.hash, Compared: r.deep, Omitted: omitted(want)}
	at := is.readAt
	if at.IsZero() {
		at = r.of.config.Clock.Now()
	}
	r.of.cache().Store(lb, is.contents, r.identity.UID, state, at)
	return r.announce(ctx)
}

// inheritedVIP returns the VIP of a load balancer that is to be recreated with its address; nil for
// none. Octavia deletes for longer than a reconcile waits, and then other creations may come first.
// So before, the VIP that the last reconcile returned, is kept.
func inheritedVIP(
	before *octavia.VIP, todo plan.Plan, done plan.Result, err error,
) *octavia.VIP {
	deleted := slices.ContainsFunc(done.Done, plan.DeletesLoadBalancer)
	deleting := done.LoadBalancer != nil && done.LoadBalancer.Status == octavia.PendingDelete
	queued := errors.Is(err, plan.ErrQueued)
	for _, step := range todo.Steps[len(done.Done):] {
		create, is := step.(plan.CreateLoadBalancer)
		switch {
		case is && deleted && (deleting || queued):
			return &create.LoadBalancer.VIP
		case is && queued:
			// The address in this step may be one that the user withdraws before the creation.
			return before
		}
	}
	return nil
}

// inherit sets the address of the replaced load balancer for the new one, if both are in the same
// place.
func (r *reconciler) inherit(want *desired.State) {
	vip, from := &want.LoadBalancer.VIP, r.state.inheritedVIP
	if from != nil && vip.Address == "" && vip.PortID == "" && vip.SubnetID == from.SubnetID &&
		vip.NetworkID == from.NetworkID {
		vip.Address = from.Address
	}
}

// waitUntilActive returns nil when the load balancer is ACTIVE.
func (r *reconciler) waitUntilActive(ctx context.Context) error {
	lb := r.found.balancer
	if !lb.Status.Pending() {
		return nil
	}
	is, err := r.of.config.Octavia.Settled(ctx, lb.ID, lb.Status, reconcileTimeout)
	switch {
	case errors.Is(err, octavia.ErrPending):
		return r.waitFor(lb, "is %s", is.Status)
	case err != nil:
		return err
	case is.Status != octavia.Active:
		return fmt.Errorf("the load balancer is %s after it was changed", is.Status)
	}
	r.found.balancer = &is
	if changes := r.found.lostTags(r.identity); len(changes) > 0 {
		return retryAfter(minRetryDelay, "load balancer %s: %v: it lost %s", lb.ID, plan.ErrChanged,
			strings.Join(changes, ", "))
	}
	r.of.cache().Confirm(&is, r.of.config.Clock.Now())
	return nil
}
