package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/tracing"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// find reads the settings of the Service, and finds its load balancer.
func (r *reconciler) find(ctx context.Context) (err error) {
	ctx, span := tracing.Start(ctx, "find")
	defer func() { span.End(err) }()
	if err := r.identify(ctx); err != nil {
		return err
	}
	problems := r.readSettings()
	if r.settings.LoadBalancerID == r.state.left {
		r.settings.LoadBalancerID = ""
	} else {
		// The informer shows that the annotation was removed.
		r.state.left = ""
	}
	if err := r.lookUp(ctx); err != nil {
		return err
	}
	if lb := r.namedStranger(); lb != nil {
		return r.aboutStranger(*lb) // lookUp has written the event
	}
	if err := r.rejectSharing(); err != nil {
		return err
	}
	if err := r.rejectFatal(problems); err != nil {
		return err
	}
	return r.share(ctx)
}

// rejectSharing refuses a load balancer of another owner that the operator does not allow, and one
// that Services share by a name that is not the Service's. The deletion of the Service's parts in
// it is not refused.
func (r *reconciler) rejectSharing() error {
	lb := r.found.balancer
	if r.settings.LoadBalancerID == "" || lb == nil || r.found.role != plan.Guest {
		return nil
	}
	switch isShared := desired.IsShared(lb.Tags); {
	case isShared && !r.mayJoin(lb) && !r.isTagged(lb):
		return r.notes.refuse(aboutIdentity, events.Refuse(events.NotAllowed,
			"load balancer %s, named by annotation %s, is only for Services that share it by "+
				"annotation %s, which the Service must not; remove the annotation",
			lb.ID, settings.AnnotationLoadBalancerID, settings.AnnotationShareAs))
	case isShared || r.settings.MayShare:
		return nil
	}
	return r.notes.refuse(aboutIdentity, events.Refuse(events.NotAllowed,
		"load balancer %s, named by annotation %s, was not created for the Service, and "+
			"allowed-annotations of cloud.conf does not list load-balancer-id; remove the "+
			"annotation, or list it there",
		r.settings.LoadBalancerID, settings.AnnotationLoadBalancerID))
}

func (r *reconciler) identify(ctx context.Context) error {
	uid := r.deletedCluster
	if uid == "" {
		var err error
		if uid, err = r.of.config.ClusterUID(ctx); err != nil {
			return err
		}
		if uid == "" {
			return errors.New("the UID of this cluster is empty")
		}
	}
	r.identity = identity(r.cluster, uid, r.service)
	r.identity.LastAddress = cmp.Or(r.identity.LastAddress, r.state.address)
	r.identity.Owner, r.identity.MarkRequired = r.of.config.Owner, r.of.config.RequireOwnerMark
	r.identity.OwnerRequired = r.deletedCluster != ""
	return nil
}

// removedRegion is the region of the load balancer if cloud.conf no longer has it, or "".
func (r *reconciler) removedRegion() string {
	return r.of.config.Defaults.Regions.Removed(r.service)
}

func invalid(problem settings.Problem) *events.Notice {
	return events.Refuse(events.InvalidAnnotation, "%s", problem)
}

func (r *reconciler) readSettings() []settings.Problem {
	var problems []settings.Problem
	r.settings, problems = settings.Of(r.service, r.of.config.Defaults)
	list := make([]events.Notice, 0, len(problems))
	for _, problem := range append(slices.Clone(problems), settings.Unknown(r.service)...) {
		list = append(list, *invalid(problem))
	}
	r.notes.tell(aboutSettings, list...)
	return problems
}

// rejectFatal rejects settings that cannot be served. A setting that only counts at creation does
// not stop the updates of a load balancer that exists; but it must not be recreated with it.
func (r *reconciler) rejectFatal(problems []settings.Problem) error {
	for _, problem := range settings.Fatal(problems) {
		if r.found.balancer == nil || !problem.AtCreation {
			return invalid(problem)
		}
		r.settings.Recreate = false
	}
	return nil
}

// lookUp finds the load balancer and locks it. It does not use a list from before the creation,
// because the load balancer would be missing there and be created twice.
func (r *reconciler) lookUp(ctx context.Context) error {
	var err error
	if r.found.apiMinor, err = r.of.config.Octavia.Version(ctx); err != nil {
		return err
	}
	if lb := r.state.creation.pending(r.of.config.Clock.Now(), r.settings.LoadBalancerID,
		r.mode); lb != nil {
		r.found.claim = claim{balancer: lb, role: plan.Owner}
		return nil
	}
	// An older list shows whether Octavia has finished, but not the latest writes of fxccm.
	age := r.listAge()
	begun, err := r.findInList(ctx, age)
	isMissing := r.found.balancer == nil && r.found.deleting == nil &&
		(r.settings.LoadBalancerID != "" || wasServed(r.service))
	// Octavia may have finished since the old list.
	isWork := r.age > 0 && r.found.balancer != nil && r.found.balancer.Status != octavia.Active
	isOld := isWork || r.of.cache().WrittenSince(r.identity.UID, begun)
	if age > 0 && (err != nil || isMissing || isOld) {
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

// lockFound locks the load balancer, and finds it again if another Service has written to it after
// the list was begun.
func (r *reconciler) lockFound(ctx context.Context, begun time.Time) error {
	id := r.found.balancer.ID
	unlock, ok := r.of.locks.TryLock("load balancer " + id)
	if !ok {
		return errBusy
	}
	var err error
	if r.of.cache().WrittenSince(id, begun) {
		_, err = r.findInList(ctx, 0)
	}
	if r.found.balancer == nil {
		// Other Services need it, and this one may join the load balancer again, which locks it.
		unlock()
	} else {
		r.unlock = append(r.unlock, unlock)
	}
	return err
}

// findInList finds the load balancer in a list of at most this age, and returns when the list was
// begun.
func (r *reconciler) findInList(
	ctx context.Context, age time.Duration,
) (begun time.Time, err error) {
	all, err := r.of.config.Octavia.LoadBalancers(ctx, age)
	if err != nil {
		return time.Time{}, err
	}
	candidates := all.All()
	if r.deletedCluster != "" {
		candidates = taggedFor(r.identity, candidates)
	}
	r.found.ownerLeft = false
	if r.found.strangers, err = r.strangersAmong(ctx, candidates); err != nil {
		return all.Begun, err
	}
	named := r.settings.LoadBalancerID
	if r.namedStranger() != nil {
		named = "" // a deletion removes what the Service has beside the stranger
	}
	r.found.claim, err = claimOf(r.identity, r.service, named,
		except(candidates, r.found.strangers), r.found.hasTags())
	if err != nil {
		return all.Begun, err
	}
	if r.found.ownerLeft {
		r.found.claim = claim{balancer: r.found.balancer, role: plan.Guest}
	}
	r.found.portUser = ""
	if other := atPort(r.settings.PortID, candidates); other != nil &&
		!isOwn(r.identity, *other, r.found.hasTags()) {
		r.found.portUser = other.ID
	}
	return all.Begun, r.found.admitGuest(r.identity, r.settings.MaxShared)
}

// atPort returns the load balancer that has its VIP at the port; nil for none.
func atPort(port string, all []octavia.LoadBalancer) *octavia.LoadBalancer {
	i := slices.IndexFunc(all, func(lb octavia.LoadBalancer) bool {
		isAt := func(vip octavia.VIP) bool { return vip.PortID == port }
		return port != "" && !lb.Status.Gone() &&
			(isAt(lb.VIP) || slices.ContainsFunc(lb.AdditionalVIPs, isAt))
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

func (r *reconciler) tellFound(err error) error {
	var refused *events.Notice
	switch {
	case errors.As(err, &refused):
		return r.notes.refuse(aboutIdentity, refused)
	case err == nil:
		notes := r.aboutStrangers()
		if r.found.lost && r.removedRegion() == "" {
			notes = append(notes, events.Notice{
				Reason: events.Lost, Warning: true,
				Message: fmt.Sprintf("load balancer %s no longer exists; creating a new one",
					r.settings.LoadBalancerID),
			})
		}
		r.notes.tell(aboutIdentity, notes...)
	}
	return err
}

// claim is the load balancer that a Service uses.
type claim struct {
	// balancer may be nil.
	balancer *octavia.LoadBalancer
	role     plan.Role
	// duplicates were created for the Service, too. A creation in flight of a replaced leader may
	// succeed after its successor has read the list.
	duplicates []octavia.LoadBalancer
	// deleting is a load balancer of the Service whose deletion is not complete; nil for none.
	deleting *octavia.LoadBalancer
	// lost: the Service was served by a load balancer that no longer exists.
	lost bool
	// whyLeaves is why the Service may no longer share the load balancer and gets another one, as a
	// clause; "" if it stays.
	whyLeaves string
}

// clockSkew is how far the clock of the API server may be ahead of Octavia's.
const clockSkew = time.Minute

// claimOf finds the load balancer of a Service among all of the project. named is the ID in the
// Service's annotation; "" for none.
//
// A load balancer is the Service's own if the tags show it. It also is if it is exactly as OCCM
// creates it, has no tags of another Service, and is no stranger's ([reconciler.strangersAmong]): a
// name alone proves nothing. Without the annotation, which OCCM writes after the first success, the
// load balancer must also be younger than the Service.
func claimOf(
	id desired.Identity, service *v1.Service, named string, all []octavia.LoadBalancer,
	tagged bool,
) (claim, error) {
	if id.MarkRequired && !tagged {
		return claim{}, events.Refuse(events.Unsupported, "the operator requires marks of owners, "+
			"and this version of Octavia has no tags for them; update Octavia, or turn off "+
			"require-owner-mark")
	}
	if lb := withOtherMark(id, all); lb != nil {
		why := "but not the mark of this cluster, which the operator requires"
		if id.HasOtherMark(lb.Tags) {
			why = "but the mark of another cluster of the fleet"
		}
		return claim{}, events.Refuse(events.OfOtherCluster, "load balancer %s (%s) has the UIDs "+
			"of this cluster and Service, %s; it stays as it is", lb.ID, lb.Name, why)
	}
	if named != "" {
		return claimNamed(id, service, named, all, tagged)
	}
	return claimUnnamed(id, service, all, tagged), nil
}

// withOtherMark returns a load balancer whose tags have the UIDs of cluster and Service, which the
// cluster's API server reports, but another owner's mark; nil if none exists. The cluster copies
// the UIDs of another one, or its name in the fleet has changed: in both cases a second load
// balancer would be wrong.
func withOtherMark(id desired.Identity, all []octavia.LoadBalancer) *octavia.LoadBalancer {
	i := slices.IndexFunc(all, func(lb octavia.LoadBalancer) bool {
		// Also the load balancer of a user has no mark, but another name.
		isOthers := id.HasOtherMark(lb.Tags) || id.LacksMark(lb.Tags) && isNamedFor(id, lb)
		return isOthers && !id.IsGuestCluster(lb.Tags) && !lb.Status.Gone() &&
			slices.Contains(lb.Tags, id.ClusterTag()) && slices.Contains(lb.Tags, id.ServiceTag())
	})
	if i < 0 {
		return nil
	}
	return &all[i]
}

func claimNamed(
	id desired.Identity, service *v1.Service, named string, all []octavia.LoadBalancer,
	tagged bool,
) (claim, error) {
	i := slices.IndexFunc(all, func(lb octavia.LoadBalancer) bool { return lb.ID == named })
	if i < 0 || all[i].Status == octavia.Deleted {
		c := claimUnnamed(id, service, all, tagged)
		if c.balancer == nil && c.deleting == nil {
			if !wasServed(service) {
				return claim{}, events.Refuse(events.NotFound,
					"load balancer %s, named by annotation %s, does not exist; correct or remove "+
						"the annotation", named, settings.AnnotationLoadBalancerID)
			}
			c.lost = true
		}
		return c, nil
	}
	lb := all[i]
	if !isOwn(id, lb, tagged) && !isOwnBesideGuests(id, lb, tagged) {
		if lb.Status.Gone() {
			return claim{deleting: &lb}, nil
		}
		return claim{balancer: &lb, role: plan.Guest}, nil
	}
	duplicates := others(all, i,
		func(other octavia.LoadBalancer) bool { return isTaggedOwn(id, other) })
	return claimOwn(id, append([]octavia.LoadBalancer{lb}, duplicates...)), nil
}

func others(
	all []octavia.LoadBalancer, except int, are func(octavia.LoadBalancer) bool,
) []octavia.LoadBalancer {
	var found []octavia.LoadBalancer
	for i, lb := range all {
		if i != except && are(lb) {
			found = append(found, lb)
		}
	}
	return oldestFirst(found)
}

func claimUnnamed(
	id desired.Identity, service *v1.Service, all []octavia.LoadBalancer, tagged bool,
) claim {
	// Tags come before names, because another cluster's load balancer may have the same name.
	for _, are := range []func(octavia.LoadBalancer) bool{
		func(lb octavia.LoadBalancer) bool { return isTaggedOwn(id, lb) },
		func(lb octavia.LoadBalancer) bool { return isNamedAsOwn(id, service, lb, tagged) },
	} {
		if own := others(all, -1, are); len(own) > 0 {
			return claimOwn(id, own)
		}
	}
	// The Service is a guest whose annotation was lost.
	guest := others(all, -1, func(lb octavia.LoadBalancer) bool {
		isHere := slices.Contains(lb.Tags, id.ClusterTag()) || len(id.OtherClusters(lb.Tags)) == 0
		return slices.Contains(lb.Tags, id.ServiceTag()) && isHere && !lb.Status.Gone()
	})
	if len(guest) > 0 {
		return claim{balancer: &guest[0], role: plan.Guest}
	}
	return claim{}
}

// claimOwn chooses the first one that is not being deleted. Only those whose tags show that they
// were created for the Service are duplicates.
func claimOwn(id desired.Identity, own []octavia.LoadBalancer) claim {
	c := claim{role: plan.Owner}
	for _, lb := range own {
		switch {
		case lb.Status == octavia.Deleted:
		case lb.Status == octavia.PendingDelete:
			if c.deleting == nil {
				c.deleting = &lb
			}
		case c.balancer == nil:
			c.balancer = &lb
		case isTaggedOwn(id, lb):
			c.duplicates = append(c.duplicates, lb)
		}
	}
	return c
}

func oldestFirst(lbs []octavia.LoadBalancer) []octavia.LoadBalancer {
	slices.SortFunc(lbs, func(a, b octavia.LoadBalancer) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	return lbs
}

// isOwn reports whether a load balancer was made for the Service: by fxccm, or by OCCM.
func isOwn(id desired.Identity, lb octavia.LoadBalancer, tagged bool) bool {
	if isTaggedOwn(id, lb) {
		return true
	}
	return desired.ClusterOf(lb.Tags) == "" && len(desired.ServicesOf(lb.Tags)) == 0 &&
		isMadeByOCCM(id, lb, tagged)
}

// isOwnBesideGuests reports whether OCCM created a load balancer for the Service, and fxccm has
// only added guests since. It is used if the Service's annotation names the load balancer.
func isOwnBesideGuests(id desired.Identity, lb octavia.LoadBalancer, tagged bool) bool {
	return desired.OnlyGuests(lb.Tags) && !slices.Contains(lb.Tags, id.ServiceTag()) &&
		isMadeByOCCM(id, lb, tagged)
}

func isMadeByOCCM(id desired.Identity, lb octavia.LoadBalancer, tagged bool) bool {
	if id.LacksMark(lb.Tags) {
		return false
	}
	switch lb.Name {
	case id.LegacyName():
		return true
	case id.LoadBalancerName():
		// OCCM tags its load balancers if the cloud supports tags.
		return !tagged || slices.Contains(lb.Tags, id.LoadBalancerName())
	}
	return false
}

// isTaggedOwn reports whether the tags show that a load balancer was created for the Service. A
// guest has the same tags, but the load balancer has another name. Only for a guest of another
// cluster may the name be equal, and then the guest tag shows it. If the cluster was renamed,
// OCCM's tag holds the previous name.
func isTaggedOwn(id desired.Identity, lb octavia.LoadBalancer) bool {
	if !slices.Contains(lb.Tags, id.ClusterTag()) || !slices.Contains(lb.Tags, id.ServiceTag()) ||
		id.IsGuestCluster(lb.Tags) || id.IsOthers(lb.Tags) {
		return false
	}
	return isNamedFor(id, lb)
}

// isNamedFor reports whether a load balancer has a name that is generated for the Service.
func isNamedFor(id desired.Identity, lb octavia.LoadBalancer) bool {
	renamed := strings.HasPrefix(lb.Name, desired.ServicePrefix) &&
		strings.HasSuffix(lb.Name, "_"+id.Namespace+"_"+id.Name) &&
		slices.Contains(lb.Tags, lb.Name)
	return lb.Name == id.LoadBalancerName() || lb.Name == id.LegacyName() || renamed
}

func isYounger(lb octavia.LoadBalancer, service *v1.Service) bool {
	return !lb.CreatedAt.Before(service.CreationTimestamp.Add(-clockSkew))
}

// wasServed reports whether the Service had a working load balancer. OCCM keeps its annotations
// when the Service's type changes.
func wasServed(service *v1.Service) bool {
	return len(service.Status.LoadBalancer.Ingress) > 0 ||
		service.Annotations[settings.AnnotationLoadBalancerAddress] != ""
}

// sharers returns the other Services that use the load balancer, according to the tags.
func sharers(id desired.Identity, lb *octavia.LoadBalancer) []string {
	var found []string
	for _, tag := range lb.Tags {
		if strings.HasPrefix(tag, desired.ServicePrefix) && tag != id.LoadBalancerName() &&
			tag != lb.Name {
			found = append(found, tag)
		}
	}
	if strings.HasPrefix(lb.Name, desired.ServicePrefix) && lb.Name != id.LoadBalancerName() &&
		slices.Contains(lb.Tags, lb.Name) {
		found = append(found, lb.Name)
	}
	return found
}

// found is the load balancer of the Service and its floating IPs.
type found struct {
	claim
	// strangers have the name of the Service's load balancer, but another cluster's nodes.
	strangers []octavia.LoadBalancer
	// ownerLeft: the load balancer that the annotation names has the Service's name, but no part of
	// an owner, only guests.
	ownerLeft bool
	// apiMinor is the minor version of Octavia's API.
	apiMinor int
	// portUser is another's load balancer at the port that the settings name; "" for none.
	portUser string
	// portNetwork is the network of that port, and portSubnet the subnet of its first IPv4 address,
	// before the load balancer is there.
	portNetwork, portSubnet string
	floatingIPs             []neutron.FloatingIP
}

func (f found) hasTags() bool { return f.apiMinor >= 5 }

// query selects the floating IPs of the load balancer, or of the port that the settings name for
// it, those tagged as the Service's, and the requested one. On a cloud that keeps no tags, the last
// address of the Service and the description identify the floating IP while the load balancer is
// recreated.
func (f found) query(id desired.Identity, s settings.Settings) neutron.FloatingIPQuery {
	query := neutron.FloatingIPQuery{
		Tag:             id.ServiceTag(),
		DetachedAddress: id.LastAddress, Description: id.FloatingIPDescription(),
	}
	switch {
	case f.balancer != nil:
		query.PortID = f.balancer.VIP.PortID
	case !s.Internal:
		query.PortID = s.PortID
	}
	if !s.Internal {
		query.Address, query.ID, query.PoolTag = s.Address, s.FloatingIPID, s.FloatingIPTag
	}
	return query
}

// lastAddress is the address at which the Service was last served; "" for none. The annotation with
// the address does not count, because a user may write another cluster's address there.
func lastAddress(service *v1.Service) string {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		if ingress.IP != "" {
			return ingress.IP
		}
	}
	return ""
}

// hasFloatingIP reports whether a floating IP points to the load balancer or can be attached to it:
// one with the tag of the Service, or the requested one. None is created if the settings choose an
// existing one.
func (f found) hasFloatingIP(tag string, s settings.Settings) bool {
	return s.FloatingIPBy() != "" ||
		slices.ContainsFunc(f.floatingIPs, func(ip neutron.FloatingIP) bool {
			return f.leadsHere(ip) || ip.PortID == "" &&
				(slices.Contains(ip.Tags, tag) || ip.Address == s.Address)
		})
}

func (f found) leadsHere(ip neutron.FloatingIP) bool {
	return f.balancer != nil && ip.PortID != "" && ip.PortID == f.balancer.VIP.PortID
}

// address returns the address of the floating IP, or else of the VIP.
func (f found) address(internal bool) string {
	isVIP := internal && f.role == plan.Guest
	for _, ip := range f.floatingIPs {
		if f.leadsHere(ip) && !isVIP {
			return ip.Address
		}
	}
	return f.balancer.VIP.Address
}

// addresses returns the addresses at which clients reach the load balancer.
func (f found) addresses(internal bool) []string {
	addresses := []string{f.address(internal)}
	for _, vip := range f.balancer.AdditionalVIPs {
		addresses = append(addresses, vip.Address)
	}
	return addresses
}

// lastChange returns when the load balancer last changed, or the creation of the Service if no load
// balancer exists.
func (f found) lastChange(service *v1.Service) time.Time {
	lb := cmp.Or(f.balancer, f.deleting)
	switch {
	case lb == nil:
		return service.CreationTimestamp.Time
	case lb.UpdatedAt.After(lb.CreatedAt):
		return lb.UpdatedAt
	}
	return lb.CreatedAt
}

// lostTags returns the Service's tags that the load balancer lacks. A cluster that read the tags
// before this one wrote them removes them, because a write replaces all tags.
func (f found) lostTags(id desired.Identity) []string {
	if !f.hasTags() {
		return nil
	}
	return slices.DeleteFunc(id.Tags(), func(tag string) bool {
		isOwners := tag == id.OwnerTag() && f.role == plan.Guest
		return isOwners || slices.Contains(f.balancer.Tags, tag)
	})
}

// admitGuest enforces the limit of Services that share a load balancer by its ID. It does not count
// where all of them agree to share by name.
func (f found) admitGuest(id desired.Identity, maxShared int) error {
	lb := f.balancer
	if lb == nil || f.role != plan.Guest {
		return nil
	}
	if !f.hasTags() {
		return events.Refuse(events.NotShared,
			"load balancer %s cannot be shared: Octavia API 2.%d has no tags, which mark the owner "+
				"of each part; name no other load balancer, or upgrade Octavia", lb.ID, f.apiMinor)
	}
	if desired.IsShared(lb.Tags) {
		return nil
	}
	// Services of OCCM have only names, and Services of two clusters may have the same name.
	others := max(len(sharers(id, lb)), len(desired.ServicesOf(lb.Tags)))
	if !id.HasJoined(lb.Tags) && others+1 > maxShared {
		return events.Refuse(events.NotShared,
			"load balancer %s is already shared by %d other Services, and max-shared-lb allows "+
				"%d; name another load balancer, or raise max-shared-lb in cloud.conf",
			lb.ID, others, maxShared)
	}
	return nil
}

// adopt records the objects that a run has created or deleted.
func (f *found) adopt(done plan.Result) {
	f.balancer = done.LoadBalancer
	for _, id := range done.Released {
		f.dropFloatingIP(id)
	}
	if ip := done.FloatingIP; ip != nil {
		f.dropFloatingIP(ip.ID)
		f.floatingIPs = append(f.floatingIPs, *ip)
	}
}

func (f *found) dropFloatingIP(id string) {
	f.floatingIPs = slices.DeleteFunc(slices.Clone(f.floatingIPs),
		func(ip neutron.FloatingIP) bool { return ip.ID == id })
}
