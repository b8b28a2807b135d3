// Package catalog is the table of the events that are written with any cloud provider, from which
// the reference page is generated.
package catalog

// Event describes an event for operators.
type Event struct {
	// Object is the kind of the event's object.
	Object string
	// Type is Normal or Warning.
	Type   string
	Reason string
	// When says when the event is written.
	When string
	// Advice says what the operator does about the event.
	Advice string
}

// The advice of several events.
const (
	NoAction   = "No action is needed."
	ReadAnswer = "Read the message: it has the cloud's answer."

	readRefusal = "Read the message: it has the API server's answer."
	readBoth    = "Read the message: it has the answer of the cloud or of the API server."
)

// All returns the events of the four controllers, of the controllers that a host can add, of the
// Manager and of the fleet.
func All() []Event {
	return []Event{
		{
			"Service", "Normal", "EnsuringLoadBalancer",
			"The service controller begins to serve the Service.",
			"If EnsuredLoadBalancer does not follow, read the Service's Warning events and conditions.",
		},
		{
			"Service", "Normal", "EnsuredLoadBalancer", "The load balancer serves the Service.",
			NoAction,
		},
		{
			"Service", "Normal", "UpdatedLoadBalancer", "The members follow a change of the nodes.",
			NoAction,
		},
		{
			"Service", "Normal", "DeletingLoadBalancer",
			"The service controller begins to delete the load balancer.",
			"If DeletedLoadBalancer does not follow, read the Service's Warning events.",
		},
		{
			"Service", "Normal", "DeletedLoadBalancer",
			"The load balancer is deleted because the Service is deleted or no longer requests one.",
			"If clients still need the address, check which client changed the Service.",
		},
		{
			"Service", "Warning", "SyncLoadBalancerFailed",
			"A request for the load balancer failed; the service controller retries with pauses that double from 5 seconds to 5 minutes.",
			readBoth,
		},
		{
			"Service", "Warning", "UpdateLoadBalancerFailed",
			"The members could not follow a change of the nodes; the service controller retries.",
			ReadAnswer,
		},
		{
			"Service", "Warning", "DeleteLoadBalancerFailed",
			"The Service was deleted without its finalizer, and its load balancer could not be deleted; the service controller retries.",
			ReadAnswer + " If another replica leads before it succeeds, delete the load balancer in the cloud.",
		},
		{
			"Service", "Warning", "UnAvailableLoadBalancer",
			"The cluster has no node that can be a member.",
			"Check that nodes are ready and not excluded from load balancers by label.",
		},
		{
			"Service", "Warning", "LoadBalancerFinalizerKept",
			"The Service requests no load balancer and the cloud has none, but the Service has the finalizer of service controllers. Another controller may have set the finalizer, so it stays.",
			"If no other controller serves the Service, remove the finalizer service.kubernetes.io/load-balancer-cleanup.",
		},
		{"Node", "Normal", "Synced", "The node is initialized.", NoAction},
		{
			"Node", "Warning", "InitializationFailed",
			"The node cannot be initialized for a minute, or for a reason that does not end by itself; the node controller retries with pauses of up to 30 seconds. The OpenStack provider writes more precise events about its lookups instead.",
			readBoth,
		},
		{
			"Node", "Warning", "InvalidLabelChanged",
			"The cloud's value of a label is invalid in Kubernetes, so fxccm makes it valid: each run of other characters becomes a dash, the value ends after 63 characters, and dashes, dots and underscores at its ends are removed.",
			NoAction,
		},
		{
			"Node", "Warning", "NodeUpdateFailed",
			"The labels, the addresses or the shutdown taint of an initialized node cannot be written, or its instance does not have the address of the kubelet's --node-ip any more. Or lookups of its instance have failed for half an hour, or for a minute while the node is not ready. The controller retries.",
			readBoth,
		},
		{
			"Node", "Normal", "DeletingNode",
			"The node is deleted because its server no longer exists.",
			"If the server should exist, check which client deleted it in the cloud.",
		},
		{
			"Node", "Warning", "DeletingNodeFailed",
			"The node of a deleted server could not be deleted; the lifecycle controller retries.",
			readRefusal,
		},
		{
			"Node", "Warning", "FailedToCreateRoute",
			"The route to the node's pods could not be created; the route controller retries after pauses of up to a minute.",
			ReadAnswer,
		},
		{
			"Node", "Warning", "CIDRNotAvailable",
			"The node needs a pod range, but no range is free, or the cloud has not assigned one yet.",
			"Read the message. If all ranges are in use, delete unused nodes or enlarge --cluster-cidr.",
		},
		{
			"Node", "Warning", "CIDRAssignmentFailed",
			"The pod range could not be written to the node; the node IPAM controller retries.",
			readBoth,
		},
		{
			"Node", "Warning", "CIDROutsideClusterCIDR",
			"The node has a pod range that no cluster CIDR contains; the node keeps it.",
			"Correct --cluster-cidr, or recreate the node.",
		},
		{
			"Node", "Warning", "CIDRShared", "Another node has the same pod range.",
			"Recreate one of the nodes, because the addresses of their pods may conflict.",
		},
		{
			"PersistentVolume", "Warning", "LabelingFailed",
			"The labels of the volume could not be read from the cloud or written; the controller retries.",
			readBoth,
		},
		{
			"Lease", "Normal", "LeaderElection", "A replica began or stopped to lead.",
			"No action after a restart or an update. If it repeats, the leader cannot renew the Lease in time: check the latency of the API server.",
		},
		{
			"Lease", "Warning", "ControllerFailed",
			"A controller cannot start, or has failed and is restarted. It is retried, and the other controllers run.",
			"Read the message: it names the controller, and the missing RBAC rule or the setting.",
		},
		{
			"Lease", "Warning", "ControllerProblem",
			"The cloud controllers cannot do a part of their work, because a right is missing, changes of objects do not arrive, or calls for routes fail again and again. They retry, and Status shows the problem until it ends.",
			"Read the message: it names the part and the cause.",
		},
		{
			"Lease", "Warning", "ProviderPanicked",
			"A call of the cloud provider panicked and failed.",
			"Report it to the provider's authors; the stack is in the log.",
		},
		{
			"Lease", "Warning", "ProviderStartTimeout",
			"The cloud provider did not start in time. The term ends, and another replica may lead.",
			"Check that the provider reaches its cloud.",
		},
		{
			"Cluster", "Normal", "DeletingLoadBalancers",
			"The Cluster is deleted and its API server is gone, so the fleet deletes its load balancers.",
			"If DeletedLoadBalancers does not follow, look at the cluster in the status of the fleet.",
		},
		{
			"Cluster", "Normal", "DeletedLoadBalancers",
			"No load balancer of the deleted cluster is left; the fleet removes its finalizer.",
			NoAction,
		},
		{
			"Cluster", "Warning", "KeepingLoadBalancers",
			"The Cluster is deleted, but the fleet cannot prove that its load balancers are unused, or its provider cannot delete them.",
			"Read the message. Delete the load balancers by hand if they are unused; then remove the finalizer that it names.",
		},
		{
			"Cluster", "Warning", "DisputedClusterUID",
			"The API server of the Cluster reports another UID of kube-system than before, or that of another Cluster. It may copy the UID to have the load balancers of that Cluster deleted.",
			"Find out which Cluster is genuine. Until the annotation that the message names is removed, the load balancers of both are kept.",
		},
	}
}
