package loadbalancer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// CleanUp deletes the objects with the tags of a deleted cluster, as if all of its Services were
// deleted, and returns the remaining ones. The tags must have the cluster's UID and the mark of its
// owner. Floating IPs are detached and kept. From a load balancer
// that other clusters use, only the Services of this cluster are removed. CleanUp needs no API
// server.
//
// Calls may be repeated: each reads from OpenStack what remains.
func (l *LoadBalancers) CleanUp(
	ctx context.Context, clusterUID string,
) (left []string, err error) {
	if clusterUID == "" || l.config.Owner == "" {
		return nil, errors.New("the UID of the cluster, and its name in a fleet, are required")
	}
	minor, err := l.config.Octavia.Version(ctx)
	if err != nil {
		return nil, events.Explain(err)
	}
	if minor < 5 {
		return nil, fmt.Errorf("API version 2.%d of Octavia has no tags, by which fxccm finds the "+
			"load balancers of a cluster", minor)
	}
	services, _, err := l.remainsOf(ctx, clusterUID)
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, service := range services {
		if err := l.deleteWithoutCluster(ctx, service); err != nil && !isWait(err) {
			errs = append(errs, fmt.Errorf("load balancer of service %s/%s (%s): %w",
				service.Namespace, service.Name, service.UID, events.Explain(err)))
		}
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
	}
	_, left, err = l.remainsOf(ctx, clusterUID)
	return left, errors.Join(append(errs, events.Explain(err))...)
}

// deleteWithoutCluster is EnsureLoadBalancerDeleted for a Service whose cluster no longer exists.
func (l *LoadBalancers) deleteWithoutCluster(ctx context.Context, id desired.Identity) error {
	now := metav1.NewTime(l.config.Clock.Now())
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: id.Namespace, Name: id.Name, UID: types.UID(id.UID),
			DeletionTimestamp: &now,
			// The annotation of the Service is lost.
			Annotations: map[string]string{settings.AnnotationKeepFloatingIP: "true"},
		},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer},
	}
	r, err := l.begin(ctx, request{
		cluster: id.ClusterName, service: service, deletedCluster: id.ClusterUID,
	}, true)
	if err != nil {
		return err
	}
	defer r.close()
	return r.delete(ctx)
}

// taggedFor returns the load balancers with the tag of the cluster.
func taggedFor(id desired.Identity, all []octavia.LoadBalancer) []octavia.LoadBalancer {
	return slices.DeleteFunc(slices.Clone(all), func(lb octavia.LoadBalancer) bool {
		return !slices.Contains(lb.Tags, id.ClusterTag())
	})
}

// unmarked ends the description of an object that is not deleted. Its tags have the cluster's UID,
// which the cluster's API server has reported, and so another cluster may have it.
const unmarked = ": it is not deleted, because it has the UID of the cluster without its mark; " +
	"delete it by hand if it is the cluster's"

// remainsOf returns the Services of a cluster that the tags in OpenStack name, and descriptions of
// the objects with the tag of the cluster.
func (l *LoadBalancers) remainsOf(
	ctx context.Context, clusterUID string,
) (services []desired.Identity, remains []string, err error) {
	cluster := desired.Identity{
		ClusterUID: clusterUID, Owner: l.config.Owner, OwnerRequired: true,
	}
	list, err := l.config.Octavia.LoadBalancers(ctx, 0)
	if err != nil {
		return nil, nil, err
	}
	found := map[string]desired.Identity{}
	for _, lb := range taggedFor(cluster, list.All()) {
		named, err := l.servicesOf(ctx, cluster, lb)
		if errors.Is(err, octavia.ErrNotFound) {
			continue // it was deleted after it was listed
		}
		if err != nil {
			return nil, nil, err
		}
		description := fmt.Sprintf("load balancer %s (%s)", lb.ID, lb.Name)
		switch {
		case len(named) > 0:
		case !cluster.HasMark(lb.Tags):
			description += unmarked
		default:
			description += ": its tags do not show which Services of the cluster use it"
		}
		remains = append(remains, description)
		for _, service := range named {
			found[service.UID] = service
		}
	}
	// A deletion that is interrupted may leave a security group.
	groups, err := l.config.Neutron.TaggedSecurityGroups(ctx, cluster.ClusterTag())
	if err != nil {
		return nil, nil, err
	}
	for _, group := range groups {
		description := fmt.Sprintf("security group %s (%s)", group.ID, group.Name)
		if cluster.IsOthers(group.Tags) {
			remains = append(remains, description+unmarked)
			continue
		}
		remains = append(remains, description)
		owner, ok := desired.OwnerOfSecurityGroup(group.Name, group.Description, group.Tags)
		if _, known := found[owner.UID]; ok && !known {
			found[owner.UID] = owner
		}
	}
	for _, service := range found {
		services = append(services, service)
	}
	slices.SortFunc(services, func(a, b desired.Identity) int {
		return cmp.Compare(a.UID, b.UID)
	})
	return services, remains, nil
}

// servicesOf returns the Services of a cluster that use a load balancer. A listener has the tags of
// one Service. A Service in the tags of the load balancer alone is left by an interrupted deletion,
// or is about to join.
func (l *LoadBalancers) servicesOf(
	ctx context.Context, cluster desired.Identity, lb octavia.LoadBalancer,
) ([]desired.Identity, error) {
	contents, err := l.config.Octavia.Contents(ctx, lb.ID, octavia.InPart, lb.UpdatedAt)
	if err != nil {
		return nil, err
	}
	others := cluster.OtherClusters(lb.Tags)
	var found []desired.Identity
	add := func(uid string, tags []string) bool {
		service, ok := nameOf(lb, tags)
		if ok {
			service.ClusterUID, service.UID = cluster.ClusterUID, uid
			found = append(found, service)
		}
		return ok
	}
	var shown []string // the tags of all listeners
	for _, listener := range contents.Listeners {
		shown = append(shown, listener.Tags...)
		services := desired.ServicesOf(listener.Tags)
		if slices.Contains(listener.Tags, cluster.ClusterTag()) && len(services) == 1 &&
			cluster.HasMark(listener.Tags) {
			add(services[0], listener.Tags)
		}
	}
	// A single Service without a listener belongs to this cluster if all other clusters have a
	// listener and this one has none, or if no other cluster uses the load balancer. A guest leaves
	// only tags, which it writes again if it is alive.
	rest := slices.DeleteFunc(slices.Clone(lb.Tags),
		func(tag string) bool { return slices.Contains(shown, tag) })
	isAlone := len(others) == 0 || slices.Contains(rest, cluster.ClusterTag())
	isAlone = isAlone && (cluster.HasMark(lb.Tags) || cluster.IsGuestCluster(lb.Tags))
	uids := desired.ServicesOf(rest)
	if len(uids) == 1 && isAlone && len(cluster.OtherClusters(rest)) == 0 {
		// Services of two clusters may have the same name.
		_ = add(uids[0], rest) || add(uids[0], lb.Tags)
	}
	return found, nil
}

// nameOf returns the one Service that the tags name. If the cluster was renamed, the name of the
// load balancer holds the earlier name, and the tags hold both.
func nameOf(lb octavia.LoadBalancer, tags []string) (desired.Identity, bool) {
	var found desired.Identity
	for _, tag := range tags {
		named, ok := desired.NamedBy(tag)
		switch {
		case !ok:
		case found.Name == "" || found.LoadBalancerName() == lb.Name &&
			found.Namespace == named.Namespace && found.Name == named.Name:
			found = named
		case tag == lb.Name && found.Namespace == named.Namespace && found.Name == named.Name:
		default:
			return desired.Identity{}, false
		}
	}
	return found, found.Name != ""
}
