package desired

import (
	"fmt"
	"slices"
	"strings"
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
)

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
	return []string{i.LoadBalancerName(), i.ClusterTag(), i.ServiceTag()}
}

// NetworkTags returns the tags of floating IPs and security groups.
func (i Identity) NetworkTags() []string { return []string{i.ClusterTag(), i.ServiceTag()} }

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
