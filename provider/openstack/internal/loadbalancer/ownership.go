package loadbalancer

import (
	"cmp"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

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
}

// clockSkew is how far the clock of the API server may be ahead of Octavia's.
const clockSkew = time.Minute

// claimOf finds the load balancer of a Service among all of the project. named is the ID in the
// Service's annotation; "" for none.
//
// A load balancer is the Service's own if the tags show it. It also is if it is exactly as OCCM
// creates it, and has no tags of another Service. A name alone proves nothing: clusters of the same
// name have load balancers of the same names in one project. Without the annotation, which OCCM
// writes after the first success, the load balancer must also be younger than the Service.
func claimOf(
	id desired.Identity, service *v1.Service, named string, all []octavia.LoadBalancer,
	tagged bool,
) (claim, error) {
	if named != "" {
		return claimNamed(id, service, named, all, tagged)
	}
	return claimUnnamed(id, service, all, tagged), nil
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
				return claim{}, newRefusal(events.NotFound,
					"load balancer %s, named by annotation %s, does not exist", named,
					settings.AnnotationLoadBalancerID)
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
	twins := others(all, i,
		func(other octavia.LoadBalancer) bool { return isTaggedOwn(id, other) })
	return claimOwn(id, append([]octavia.LoadBalancer{lb}, twins...)), nil
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
		func(lb octavia.LoadBalancer) bool {
			return isOwn(id, lb, tagged) && (lb.Name == id.LegacyName() || isYounger(lb, service))
		},
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
		id.IsGuestCluster(lb.Tags) {
		return false
	}
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
