package desired

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Identity identifies the Service of a load balancer, and its cluster.
type Identity struct {
	// ClusterName is the CCM's --cluster-name. Many clusters may have the same.
	ClusterName string
	// ClusterUID is the UID of the cluster's namespace kube-system, which is unique.
	ClusterUID string
	Namespace  string
	Name       string
	// UID is the Service's UID.
	UID string
	// Created is when the Service was created; zero if unknown.
	Created time.Time
	// LastAddress is the address at which the Service was last served, as its status shows, or else
	// that of the floating IP that this term has attached last; "" for none. Only controllers may
	// write a status, but users write annotations.
	LastAddress string `json:"-"`

	// Owner is the cluster's name in the fleet that serves it, or "". The cluster's owner cannot
	// choose it, unlike the UIDs, which come from the cluster's API server.
	Owner string
	// OwnerRequired: an object without the mark of the owner is another's. Otherwise only an object
	// with another mark is: it may be older than the marks.
	OwnerRequired bool
	// MarkRequired: an object whose tags name a cluster or a Service without the mark of the owner
	// is another's. An object without such tags is not, because Neutron creates floating IPs and
	// security groups before it tags them.
	MarkRequired bool
}

// Names, descriptions and OCCM's tag are exactly as OCCM creates them
// (pkg/openstack/loadbalancer.go, loadbalancer_sg.go), so that each CCM finds the other's objects.

// ServicePrefix begins the names and the tags that OCCM derives from Services.
const ServicePrefix = "kube_service_"

// nameLimit is the most characters that Octavia and Neutron accept in a name.
const nameLimit = 255

// LoadBalancerName is the load balancer's name, and OCCM's tag on it and on its listeners.
func (i Identity) LoadBalancerName() string {
	return cut(fmt.Sprintf("%s%s_%s_%s", ServicePrefix, i.ClusterName, i.Namespace, i.Name))
}

// LegacyName is the name of a load balancer that was created before names included the cluster. It
// holds the UID of the Service.
func (i Identity) LegacyName() string {
	// k8s.io/cloud-provider does the same in DefaultLoadBalancerName: at most 32 characters.
	name := "a" + strings.ReplaceAll(i.UID, "-", "")
	return name[:min(len(name), 32)]
}

// LoadBalancerDescription is the load balancer's description.
func (i Identity) LoadBalancerDescription() string {
	return fmt.Sprintf("Kubernetes external service %s/%s from cluster %s", i.Namespace, i.Name,
		i.ClusterName)
}

// FloatingIPDescription is the description of a floating IP that is created for the Service.
func (i Identity) FloatingIPDescription() string {
	return "Floating IP for " + i.LoadBalancerDescription()
}

// SecurityGroupName is the name of the Service's security group.
func (i Identity) SecurityGroupName() string {
	return cut(fmt.Sprintf("lb-sg-%s-%s-%s", i.UID, i.Namespace, i.Name))
}

// SecurityGroupDescription is the description of the Service's security group.
func (i Identity) SecurityGroupDescription() string {
	return fmt.Sprintf("Security Group for %s/%s Service LoadBalancer in cluster %s", i.Namespace,
		i.Name, i.ClusterName)
}

// ListenerName is the name of the listener of the Service's port with this index.
func ListenerName(index int, loadBalancer string) string {
	return part("listener", index, loadBalancer)
}

// PoolName is the name of the pool of the Service's port with this index.
func PoolName(index int, loadBalancer string) string { return part("pool", index, loadBalancer) }

// MonitorName is the name of the health monitor of the Service's port with this index.
func MonitorName(index int, loadBalancer string) string {
	return part("monitor", index, loadBalancer)
}

// MemberName is the name of a member that is created alone. In a batch, a member has the name of
// its node.
func MemberName(node, address string, port int) string {
	return cut(fmt.Sprintf("member_%s_%s_%d", node, address, port))
}

func part(kind string, index int, loadBalancer string) string {
	return cut(fmt.Sprintf("%s_%d_%s", kind, index, loadBalancer))
}

func cut(name string) string { return name[:min(len(name), nameLimit)] }

// fxccm recognizes its own and adopted objects by these tags. They hold UIDs, which names do not.
// Neutron limited tags to 60 characters for a long time, and refuses a slash.
const (
	clusterTag = "fxccm-cluster="
	serviceTag = "fxccm-service="
	// guestTag is on a load balancer that another cluster was using when this cluster joined, or
	// that OCCM had created for another Service. Names cannot show this, because clusters may have
	// the same name.
	guestTag = "fxccm-guest="
	// ownerTag is on what the fleet's Manager of a cluster creates or adopts. On a load balancer it
	// is the mark of the cluster that is no guest there.
	ownerTag = "fxccm-owner="
	// poolTag is on a floating IP that a Service has taken from a pool. It is not deleted, because
	// fxccm did not create it.
	poolTag = "fxccm-pool="
	// shareTag is on a load balancer that was created for a Service with the annotation share-as.
	// Only Services with the same key join it.
	shareTag = "fxccm-share="
)

// ShareTag marks a load balancer that Services with the key share.
func ShareTag(key settings.ShareKey) string { return shareTag + key.Name + "." + key.Request }

// ShareTags returns the tags by which Services share a load balancer with these tags.
func ShareTags(tags []string) []string {
	return slices.DeleteFunc(slices.Clone(tags),
		func(tag string) bool { return !strings.HasPrefix(tag, shareTag) })
}

// IsShared reports whether Services share a load balancer with these tags by a name.
func IsShared(tags []string) bool { return len(ShareTags(tags)) > 0 }

// HasShareName reports whether Services share a load balancer with these tags by the name of the
// key, whatever they request of it.
func HasShareName(tags []string, key settings.ShareKey) bool {
	return slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(tag, shareTag+key.Name+".")
	})
}

// PoolTag marks a floating IP that a Service has taken from the pool with this tag. It has a hash,
// because the tag may be long. The Service keeps the floating IP if the operator removes the tag.
func PoolTag(tag string) string {
	sum := sha256.Sum256([]byte(tag))
	return fmt.Sprintf("%s%x", poolTag, sum[:16])
}

// IsPoolTag reports whether a tag marks a floating IP of a pool.
func IsPoolTag(tag string) bool { return strings.HasPrefix(tag, poolTag) }

// OwnerTag is the mark of the cluster's owner; "" without an owner. It holds a hash, because names
// may be longer than tags.
func (i Identity) OwnerTag() string {
	if i.Owner == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(i.Owner))
	return fmt.Sprintf("%s%x", ownerTag, sum[:16])
}

// HasOtherMark reports whether the tags have the mark of another owner. The tags of a load balancer
// that the cluster is a guest in have one, too. Without an owner all marks are accepted: a cluster
// that has left its fleet may be served by a Manager of its own.
func (i Identity) HasOtherMark(tags []string) bool {
	return i.Owner != "" && slices.ContainsFunc(tags, func(tag string) bool {
		return strings.HasPrefix(tag, ownerTag) && tag != i.OwnerTag()
	})
}

// LacksMark reports whether the mark of the owner is required, and the tags do not have it.
func (i Identity) LacksMark(tags []string) bool { return i.MarkRequired && !i.HasMark(tags) }

// isUnproven reports whether the tags name a cluster or Service without the required mark.
func (i Identity) isUnproven(tags []string) bool {
	return i.LacksMark(tags) && (ClusterOf(tags) != "" || len(ServicesOf(tags)) > 0)
}

// HasMark reports whether the tags have the mark of the owner.
func (i Identity) HasMark(tags []string) bool {
	return i.Owner != "" && slices.Contains(tags, i.OwnerTag())
}

// IsOthers reports whether the marks show another owner or, if one is required, not this one.
func (i Identity) IsOthers(tags []string) bool {
	return i.HasOtherMark(tags) || i.OwnerRequired && !i.HasMark(tags) || i.isUnproven(tags)
}

// IsMark reports whether a tag is one of fxccm's, or OCCM's for a Service.
func IsMark(tag string) bool {
	for _, prefix := range []string{
		clusterTag, serviceTag, guestTag, ownerTag, poolTag, shareTag, ServicePrefix,
	} {
		if strings.HasPrefix(tag, prefix) {
			return true
		}
	}
	return false
}

// IsControllersDescription reports whether a controller describes its floating IPs so: OCCM and the
// Octavia ingress controller ("Floating IP for Kubernetes ..."), or Cluster API's provider
// ("Created by cluster-api-provider-openstack ...").
func IsControllersDescription(text string) bool {
	return strings.HasPrefix(text, "Floating IP for Kubernetes ") ||
		strings.Contains(text, "cluster-api-provider-openstack")
}

// ClusterTag is on all objects of the cluster.
func (i Identity) ClusterTag() string { return clusterTag + i.ClusterUID }

// GuestTag marks the cluster as a guest in a load balancer of another cluster.
func (i Identity) GuestTag() string { return guestTag + i.ClusterUID }

// IsGuestCluster reports whether the tags mark the cluster as a guest.
func (i Identity) IsGuestCluster(tags []string) bool { return slices.Contains(tags, i.GuestTag()) }

// OnlyGuests reports whether the tags name clusters, and all of them are guests.
func OnlyGuests(tags []string) bool {
	clusters := 0
	for _, tag := range tags {
		if uid, ok := strings.CutPrefix(tag, clusterTag); ok {
			if !slices.Contains(tags, guestTag+uid) {
				return false
			}
			clusters++
		}
	}
	return clusters > 0
}

// OtherClusters returns the UIDs of the other clusters that use a load balancer with these tags.
func (i Identity) OtherClusters(tags []string) []string {
	var uids []string
	for _, tag := range tags {
		if uid, ok := strings.CutPrefix(tag, clusterTag); ok && uid != i.ClusterUID {
			uids = append(uids, uid)
		}
	}
	return uids
}

// HasJoined reports whether the tags of a load balancer name the Service. An equal name alone may
// be that of another cluster's Service.
func (i Identity) HasJoined(tags []string) bool {
	return slices.Contains(tags, i.ServiceTag()) ||
		slices.Contains(tags, i.LoadBalancerName()) && len(i.OtherClusters(tags)) == 0
}

// ServiceTag is on all objects of the Service.
func (i Identity) ServiceTag() string { return serviceTag + i.UID }

// Tags returns the tags of a load balancer and its listeners.
func (i Identity) Tags() []string {
	return append([]string{i.LoadBalancerName()}, i.NetworkTags()...)
}

// NetworkTags returns the tags of floating IPs and security groups.
func (i Identity) NetworkTags() []string {
	tags := []string{i.ClusterTag(), i.ServiceTag()}
	if owner := i.OwnerTag(); owner != "" {
		tags = append(tags, owner)
	}
	return tags
}

// ClusterOf returns the UID of the cluster that the tags name, "" for none.
func ClusterOf(tags []string) string { return valueOf(tags, clusterTag) }

// ServicesOf returns the UIDs of the Services that the tags name.
func ServicesOf(tags []string) []string {
	var uids []string
	for _, tag := range tags {
		if uid, ok := strings.CutPrefix(tag, serviceTag); ok {
			uids = append(uids, uid)
		}
	}
	return uids
}

func valueOf(tags []string, prefix string) string {
	i := slices.IndexFunc(tags, func(tag string) bool { return strings.HasPrefix(tag, prefix) })
	if i < 0 {
		return ""
	}
	return strings.TrimPrefix(tags[i], prefix)
}

// NamedBy returns the identity of the Service that OCCM's tag names, without UIDs; false if the tag
// is not OCCM's, or too long to hold the whole name.
func NamedBy(tag string) (Identity, bool) {
	rest, isName := strings.CutPrefix(tag, ServicePrefix)
	// The names of namespaces and Services hold no underscore, but a cluster's name may.
	last := strings.LastIndexByte(rest, '_')
	if !isName || last < 0 || len(tag) >= nameLimit {
		return Identity{}, false
	}
	middle := strings.LastIndexByte(rest[:last], '_')
	if middle < 0 {
		return Identity{}, false
	}
	return Identity{
		ClusterName: rest[:middle], Namespace: rest[middle+1 : last], Name: rest[last+1:],
	}, true
}

// OwnerOfSecurityGroup returns the identity of the Service for which a security group was created,
// from its tags, name and description; false if they contradict each other.
func OwnerOfSecurityGroup(name, description string, tags []string) (Identity, bool) {
	services := ServicesOf(tags)
	rest, isGroup := strings.CutPrefix(description, "Security Group for ")
	service, cluster, hasCluster := strings.Cut(rest, " Service LoadBalancer in cluster ")
	namespace, of, hasNamespace := strings.Cut(service, "/")
	if !isGroup || !hasCluster || !hasNamespace || len(services) != 1 {
		return Identity{}, false
	}
	owner := Identity{
		ClusterName: cluster, ClusterUID: ClusterOf(tags), Namespace: namespace, Name: of,
		UID: services[0],
	}
	return owner, owner.SecurityGroupName() == name
}
