// Package events is the table of the events that the OpenStack provider writes, from which the
// reference page is generated.
package events

import (
	"fmt"
	"slices"

	"github.com/fxccm/fxccm/internal/events/catalog"
	"github.com/fxccm/fxccm/internal/printable"
)

// Reason is the reason of an event. Only the constants of this package are used.
type Reason string

// The reasons of events.
const (
	AffinityIgnored          Reason = "LoadBalancerAffinityIgnored"
	AlgorithmIgnored         Reason = "LoadBalancerAlgorithmIgnored"
	AvailabilityZonesIgnored Reason = "LoadBalancerAvailabilityZonesIgnored"
	CertificateNotFound      Reason = "CertificateNotFound"
	EndpointsLeftOut         Reason = "LoadBalancerEndpointsLeftOut"
	FlavorIgnored            Reason = "LoadBalancerFlavorIgnored"
	FloatingIPSkipped        Reason = "LoadBalancerFloatingIPSkipped"
	FloatingIPUnavailable    Reason = "FloatingIPUnavailable"
	ForcedInternal           Reason = "LoadBalancerForcedInternal"
	Immutable                Reason = "LoadBalancerImmutable"
	InError                  Reason = "LoadBalancerInError"
	InstancesVanished        Reason = "InstancesVanished"
	InvalidAnnotation        Reason = "InvalidAnnotation"
	InvalidLabel             Reason = "InvalidLabelChanged"
	LookupFailed             Reason = "InstanceLookupFailed"
	LocalWithoutMonitor      Reason = "LoadBalancerLocalWithoutMonitor"
	Lost                     Reason = "LoadBalancerLost"
	MonitorIgnored           Reason = "LoadBalancerMonitorIgnored"
	NodeAddressForeign       Reason = "NodeAddressForeign"
	NodeIDTaken              Reason = "NodeProviderIDTaken"
	NodeIPMismatch           Reason = "NodeIPMismatch"
	NodesNotReady            Reason = "LoadBalancerNodesNotReady"
	NodesShareAddress        Reason = "LoadBalancerNodesShareAddress"
	NotAllowed               Reason = "NotAllowed"
	NotFound                 Reason = "LoadBalancerNotFound"
	NotShared                Reason = "LoadBalancerNotShared"
	OfOtherCluster           Reason = "LoadBalancerOfOtherCluster"
	Pending                  Reason = "LoadBalancerPending"
	PortInUse                Reason = "LoadBalancerPortInUse"
	QuotaExceeded            Reason = "QuotaExceeded"
	RequestDenied            Reason = "RequestDenied"
	ServerNotFound           Reason = "ServerNotFound"
	ServerReplaced           Reason = "ServerReplaced"
	SettingRefused           Reason = "LoadBalancerSettingRefused"
	SeveralServers           Reason = "SeveralServers"
	SingleStack              Reason = "LoadBalancerSingleStack"
	SourceRangesIgnored      Reason = "LoadBalancerSourceRangesIgnored"
	SourceRangesLeftOut      Reason = "LoadBalancerSourceRangesLeftOut"
	Unsupported              Reason = "UnsupportedConfiguration"
	UsedByOthers             Reason = "LoadBalancerUsedByOthers"
	Waiting                  Reason = "LoadBalancerWaiting"
	WithoutMembers           Reason = "LoadBalancerWithoutMembers"
)

// The reasons of states that are not events.
const (
	NodeWaiting   Reason = "NodeWaiting"
	RequestFailed Reason = "RequestFailed"
	Served        Reason = "Served"
)

// Notice is an event for the owner of a Service. As an error it means that a user must change the
// configuration before the Service can be served.
type Notice struct {
	Reason  Reason
	Message string
	// Warning is false for a notice without a problem.
	Warning bool
	// Blocks: the Service is not in its desired state, and a later reconcile checks it again.
	Blocks bool
}

func (n *Notice) Error() string { return n.Message }

// Refuse returns a warning as an error.
func Refuse(reason Reason, format string, arguments ...any) *Notice {
	return &Notice{Reason: reason, Message: fmt.Sprintf(format, arguments...), Warning: true}
}

// Event describes a reason for operators.
type Event struct {
	Reason Reason
	// When the provider writes it.
	When string
	// Advice is what the operator does about it.
	Advice string
}

// maxMessage limits a message in a status.
const maxMessage = 1024

// Shorten limits a message, which may contain the answer of a server, and makes it printable.
func Shorten(message string) string { return printable.Text(message, maxMessage) }

// OfServices are the events on Services.
func OfServices() []Event {
	return []Event{
		{
			AffinityIgnored,
			"The provider ovn ignores the Service's sessionAffinity: each connection of a client may reach another node.",
			"Remove sessionAffinity, or use another provider of Octavia.",
		},
		{
			AlgorithmIgnored,
			"The provider ovn supports only SOURCE_IP_PORT, so the requested lb-method is ignored.",
			"Remove the setting, or use another provider of Octavia.",
		},
		{
			AvailabilityZonesIgnored,
			"The requested availability zone is ignored: it needs Octavia API 2.14 and a provider other than ovn.",
			"Remove the setting, or upgrade Octavia.",
		},
		{
			CertificateNotFound,
			"The key manager has no container or secret with the reference, or denies access to it.",
			"Correct the annotation, or give the provider's user access to the secret.",
		},
		{
			EndpointsLeftOut,
			"Endpoints of the Service have addresses that the load balancer must not or cannot forward to.",
			"Correct pod-ranges in cloud.conf or --cluster-cidr, or the EndpointSlices.",
		},
		{
			FlavorIgnored,
			"The requested flavor is ignored: it needs Octavia API 2.6 and a provider other than ovn.",
			"Remove the setting, or upgrade Octavia.",
		},
		{
			FloatingIPSkipped,
			"The load balancer's address is IPv6, which has no floating IPs, or in an external network, so the address itself is published.",
			"Make the Service internal if that is not wanted.",
		},
		{
			FloatingIPUnavailable,
			"The requested floating IP does not exist, is in use by another port, or was moved; or no address of the network or of the pool is free.",
			"Detach the address from the other port, or request another one. If no address is free, release some, name another network, or add a floating IP with the tag to the pool.",
		},
		{
			ForcedInternal,
			"No external network was found for a floating IP, so the load balancer has only its internal address.",
			"Set floating-network-id in cloud.conf or by annotation, or make the Service internal.",
		},
		{
			Immutable,
			"The Service requests a change that Octavia cannot make in an existing load balancer.",
			"Revert the change, or set the annotation loadbalancer.openstack.org/recreate, which interrupts the traffic.",
		},
		{
			InError,
			"The load balancer is in ERROR: fxccm requests a failover, or recreates it if that loses no address. Or Neutron no longer has its port.",
			"Read the message: if it names no next step, repair or delete the load balancer in Octavia. If new load balancers end in ERROR, check the setting that the message names, and Octavia's workers.",
		},
		{
			InvalidAnnotation, "An annotation has an unknown name or an invalid value.",
			"Correct the annotation; the message has the allowed values.",
		},
		{
			LocalWithoutMonitor,
			"externalTrafficPolicy is Local, but members have no health monitor, or one for UDP that does not notice it, so nodes without an endpoint drop traffic.",
			"Enable the health monitor by annotation. For UDP use a provider other than ovn, and Octavia API 2.16 or newer.",
		},
		{
			Lost, "The load balancer no longer exists in Octavia; fxccm creates a new one.",
			"Check which client deleted it.",
		},
		{
			MonitorIgnored,
			"The provider ovn of Octavia supports no health monitor for SCTP, so the members of the port have none.",
			"Use another provider of Octavia if the port needs a health monitor.",
		},
		{
			NodesNotReady,
			"Nodes are not ready and may get new connections, because members have no health monitor.",
			"Enable the health monitor by annotation or by create-monitor in cloud.conf. Then Octavia leaves out nodes that do not answer.",
		},
		{
			NodesShareAddress, "Two nodes have the same address, so only one of them is a member.",
			"Correct the addresses of the nodes.",
		},
		{
			NodeAddressForeign,
			"A node reports an address that its server does not have, or that OpenStack has not shown yet. No new member gets the address.",
			"If the server has the address, wait: the servers are read again within --node-status-update-frequency, or when OpenStack answers. A node without a server in the project is no new member: exclude it from load balancers. Otherwise find out who changed the addresses of the Node: it may be an attempt to get traffic to another server.",
		},
		{
			NodeIDTaken, "Two nodes have the same provider ID. Only the older one is a member.",
			"Find out which node runs on the server, and delete the Node that does not: it may be an attempt to get the traffic of the server.",
		},
		{
			NotAllowed,
			"An annotation names an object of the cloud that the Service must not use: allowed-annotations of cloud.conf does not list the annotation, or the object is in use by others.",
			"Remove the annotation, or allow it for the class of the Service in allowed-annotations. That does not allow an object in use by others.",
		},
		{
			NotFound, "The load balancer that an annotation names does not exist.",
			"Correct the annotation.",
		},
		{
			NotShared,
			"This Octavia has no tags, so load balancers cannot be shared; or max-shared-lb Services already share the load balancer, which load-balancer-id names; or a Service with share-as gets another load balancer than others with that name.",
			"Read the message: it names the cause. Use another load balancer, let the Services agree in the load balancer and differ in their ports, or raise max-shared-lb or max-shared-listeners in cloud.conf.",
		},
		{
			OfOtherCluster, "The load balancer or its security group belongs to another cluster, or seems to: it has the name of the Service's, but neither a node of this cluster as a member nor the address in the Service's status.",
			"Use another load balancer, or remove the other cluster's tags if that cluster no longer exists. If only the name is known and the load balancer is the Service's, add the tags that the message names to it in Octavia.",
		},
		{
			Pending, "Octavia is changing the load balancer.",
			"The provider continues when Octavia has finished. If it does not finish, look at Octavia's workers.",
		},
		{
			PortInUse, "A listener of another owner has a port of the Service.",
			"Change the port of the Service, or ask the owner of the listener.",
		},
		{
			QuotaExceeded, "A quota of the project does not allow the creation of a part.",
			"Raise the quota, or delete what is no longer needed.",
		},
		{
			RequestDenied,
			"The policy of an OpenStack service does not allow the user of cloud.conf to send a request that the Service needs.",
			"Give the user the role for the request that the message names.",
		},
		{
			SettingRefused,
			"The cloud refuses a value of an annotation, a class or cloud.conf: it names an object that does not exist, that the project may not use, or that cannot be reached.",
			"Correct the setting that the message names.",
		},
		{
			SingleStack,
			"The Service requests two IP families, but the load balancer can serve only one.",
			"Read the message: it names the missing subnet or Octavia version.",
		},
		{
			SourceRangesIgnored,
			"Octavia cannot restrict clients, so every client may connect: API 2.12 is needed, or ovn with manage-security-groups.",
			"Upgrade Octavia, or restrict clients by other means.",
		},
		{
			SourceRangesLeftOut, "Some source ranges are not in an IP family of the load balancer.",
			"Remove these ranges, or give the load balancer the other family.",
		},
		{
			Unsupported, "This OpenStack cannot serve the configuration of the Service.",
			"Read the message: it names the setting and the cause.",
		},
		{
			UsedByOthers,
			"The load balancer has parts of other owners, so it is not deleted or not recreated.",
			"Delete the other parts if they are no longer needed.",
		},
		{
			Waiting, "The Service waits for Octavia, or for the first node with an address.",
			"If it lasts, read the message: it has the state of the load balancer, whose ID is in the annotation load-balancer-id.",
		},
		{
			WithoutMembers, "No node, and no pod of the Service, can be a member of the load balancer.",
			"Check the node selector, the node ports of the Service, and whether nodes have an address in the load balancer's IP family.",
		},
	}
}

// OfNodes are the events on Nodes.
func OfNodes() []Event {
	return []Event{
		{
			InstancesVanished,
			"Too many instances are absent at once, so the mass deletion guard keeps those of their nodes that are not marked for removal.",
			"Check the cloud. Delete the nodes if their servers are really gone.",
		},
		{
			InvalidLabel,
			"The name of the node's flavor is not a valid label value, so the label of the instance type has the ID of the flavor, as with OCCM.",
			catalog.NoAction,
		},
		{
			LookupFailed,
			"Requests for the server of a new node have failed for a minute; they are retried.",
			"Read the message: it has the cloud's answer, or what is wrong with the provider ID.",
		},
		{
			NodeIPMismatch,
			"The server of the node does not have the address that the kubelet reports with --node-ip.",
			"Correct the kubelet's --node-ip, or the network of the server.",
		},
		{
			ServerNotFound,
			"Nova has no server with the name of the node, and none with its system UUID and a similar name.",
			"Give the server the name of the node, or set --provider-id of the kubelet. Check the project in cloud.conf.",
		},
		{
			ServerReplaced,
			"Nova no longer has the server of the node's provider ID, but another one with the name of the node, or with its system UUID and a similar name.",
			"Delete the Node: the kubelet registers it again, and it gets the ID of its server.",
		},
		{
			SeveralServers,
			"Several servers of the project have the name of the node, and none of them has its system UUID as its ID.",
			"Rename the others, or set --provider-id of the kubelet.",
		},
	}
}

// AdviceOf returns the advice for an event on a Node.
func AdviceOf(reason Reason) string {
	all := OfNodes()
	i := slices.IndexFunc(all, func(e Event) bool { return e.Reason == reason })
	if i < 0 {
		return ""
	}
	return all[i].Advice
}

// OfStates are the further reasons of conditions of Services, and in the status of the Manager.
func OfStates() []Event {
	return []Event{
		{
			NodeWaiting, "The node controller has not initialized the node yet.",
			"If it lasts, read the log of the leader.",
		},
		{
			RequestFailed, "A request to the cloud or to the API server failed; it is retried.",
			catalog.ReadAnswer,
		},
		{Served, "The load balancer is as the Service requests it.", catalog.NoAction},
	}
}
