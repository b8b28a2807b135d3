package events

import (
	"fmt"
	"strings"
)

// row is an event of any part of fxccm.
type row struct{ object, kind, reason, when, advice string }

// others are the events that other packages and upstream's controllers write.
func others() []row {
	return []row{
		{
			"Service", "Normal", "EnsuringLoadBalancer",
			"The service controller begins to serve the Service.", nothing,
		},
		{
			"Service", "Normal", "EnsuredLoadBalancer", "The load balancer serves the Service.",
			nothing,
		},
		{
			"Service", "Normal", "UpdatedLoadBalancer", "The members follow a change of the nodes.",
			nothing,
		},
		{
			"Service", "Normal", "DeletingLoadBalancer",
			"The service controller begins to delete the load balancer.", nothing,
		},
		{"Service", "Normal", "DeletedLoadBalancer", "The load balancer is gone.", nothing},
		{
			"Service", "Warning", "SyncLoadBalancerFailed",
			"A call to the cloud failed; the service controller retries with a growing pause.",
			readAnswer,
		},
		{
			"Service", "Warning", "UpdateLoadBalancerFailed",
			"The members could not follow a change of the nodes; the service controller retries.",
			readAnswer,
		},
		{
			"Service", "Warning", "UnAvailableLoadBalancer",
			"The cluster has no node that can be a member.",
			"Check that nodes are ready and not excluded from load balancers by label.",
		},
		{"Node", "Normal", "Synced", "The node is initialised.", nothing},
		{
			"Node", "Normal", "DeletingNode",
			"The node is deleted because its server no longer exists.", nothing,
		},
		{
			"Node", "Warning", "DeletingNodeFailed",
			"The node of a deleted server could not be deleted; the lifecycle controller retries.",
			"Read the message: it has the API server's answer.",
		},
		{
			"Node", "Warning", "FailedToCreateRoute",
			"The route to the node's pods could not be created; the route controller retries.",
			readAnswer,
		},
		{
			"PersistentVolume", "Warning", "LabelingFailed",
			"The labels of the volume cannot be read from the cloud.", readAnswer,
		},
		{"Lease", "Normal", "LeaderElection", "A replica began or stopped to lead.", nothing},
		{
			"Lease", "Warning", "ProviderPanicked",
			"A call of the cloud provider panicked and failed.",
			"Report it to the provider's authors; the stack is in the log.",
		},
		{
			"Lease", "Warning", "ProviderStartTimeout",
			"The cloud provider did not start in time. The term ends, and another replica may lead.", "Check that the provider reaches its cloud.",
		},
	}
}

const readAnswer = "Read the message: it has the cloud's answer."

const states = `
## In conditions and in the status, by the OpenStack provider

A Service that is not served has the condition ` + "`fxccm.dev/LoadBalancerReady`" + ` with the status False.
Its reason is that of an event on the Service, or one of the table below, and its message has the cause.
fxccm removes the condition when the Service is served. It writes LoadBalancerWaiting and RequestFailed after 30 seconds.

The status of the Manager has the same reasons, and those of nodes that wait for their initialization.

| reason | when | what to do |
|---|---|---|
`

// Page is the reference of all events.
func Page() string {
	var out strings.Builder
	out.WriteString(`# Events

<!-- Generated from provider/openstack/internal/events; change it there and run: go generate ./provider/openstack/internal/events -->

A message names the object, the cause, and the next step. The same event is written once, and again when its message changes.

## On Services, by the OpenStack provider

| reason | when | what to do |
|---|---|---|
`)
	write := func(all []Event) {
		for _, e := range all {
			fmt.Fprintf(&out, "| `%s` | %s | %s |\n", e.Reason, e.When, e.Advice)
		}
	}
	write(OfServices())
	out.WriteString(
		"\n## On Nodes, by the OpenStack provider\n\n| reason | when | what to do |\n|---|---|---|\n")
	write(OfNodes())
	out.WriteString(states)
	write(OfStates())
	out.WriteString("\n## By the controllers and the Manager, with any provider\n\n" +
		"| object | type | reason | when | what to do |\n|---|---|---|---|---|\n")
	for _, r := range others() {
		fmt.Fprintf(&out, "| %s | %s | `%s` | %s | %s |\n", r.object, r.kind, r.reason, r.when,
			r.advice)
	}
	return out.String()
}
