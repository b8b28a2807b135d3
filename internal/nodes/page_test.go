package nodes_test

import (
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage .

func TestPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "../../docs/reference/node-controllers.md", page())
}

func page() string {
	var b strings.Builder
	b.WriteString(`# The node controllers

The cloud-node-controller initializes nodes and keeps their addresses; the cloud-node-lifecycle-controller deletes nodes whose instance is gone, and taints those whose
instance is shut down. They have the names, flags, events, taints, labels and metrics of the controllers in ` + "`k8s.io/cloud-provider`" + ` (below: upstream's), with whatever
provider. They are fxccm's own, because upstream's delete, skip or delay nodes in cases that people have reported, and a program around them cannot change that.

## Rules

* A node with the taint ` + "`node.cloudprovider.kubernetes.io/uninitialized`" + ` is looked up at once. After a failure it is looked up again after 1 second. The pause grows to 5 seconds
  in the first minute, and then to a tenth of the time for which the node has failed, at most 30 seconds. A provider gets at most 10 of these lookups a second, after a burst of 1,000.
  A change of its provider ID, labels, addresses or ` + "`--node-ip`" + ` starts a lookup at once. Other annotations and taints do not, because agents change them every few seconds.
* A node that has failed for a minute gets the event ` + "`InitializationFailed`" + `. It gets the event at once if only a person can end the failure, such as a missing right or an address of the kubelet's ` + "`--node-ip`" + ` that the instance does not have,
  and after 15 seconds if the provider serves no instances, because another cloud controller manager may initialize the node. ` + "`Status`" + ` has the cause of each node that waits, at once.
  The detail of readiness, ` + "`/readyz?verbose`" + `, has the number of the nodes that have failed.
  If an admission webhook or a policy denies a write, the node gets an event. This is not a missing right.
* An initialized node that cannot be written, or whose ` + "`--node-ip`" + ` is no address of its instance any more, gets the event ` + "`NodeUpdateFailed`" + `. It also gets the event if lookups of its instance have failed
  for a minute while it is not ready, or for half an hour otherwise: an outage of the cloud would cause an event of every node. ` + "`Status`" + ` lists such a node, with the cause, and the detail of readiness has the number.
  An event about a node comes again after half an hour, if its reason lasts.
* An instance that the provider leaves to another component (no metadata, or ` + "`ImplementedElsewhere`" + `) is looked up again every ` + "`--node-status-update-frequency`" + ` only.
* A node that has been initialized without an address is looked up again after a tenth of its age, from 1 second to ` + "`--node-status-update-frequency`" + `.
  With ` + "`--node-ip`" + ` of the kubelet it keeps the taint until the cloud reports an address.
* A node is written with patches that change only what they name, in the node with the UID that was looked up. A field that fxccm does not know survives.
* A label value that Kubernetes would refuse is made valid: each run of other characters becomes a dash, the value ends after 63 characters, and dashes, dots and underscores at its
  ends are removed. The event ` + "`InvalidLabelChanged`" + ` has both values.
* With ` + "`--update-node-labels`" + ` the labels of instance type, zone, region and those that the provider adds follow the instance. A label that the provider no longer has stays.
* If routes are off, because ` + "`--configure-cloud-routes`" + ` is false or the provider serves no routes, the condition ` + "`NetworkUnavailable`" + ` with the status True and the reason
  ` + "`NoRouteCreated`" + ` is removed from the provider's nodes, because no controller would update it and no pod would start there. Only route controllers write this reason.
  A node of another provider keeps the condition, and so does a node that gets it more than 10 s after the Manager began to lead: a route controller runs elsewhere then.
  If another program creates the routes, leave ` + "`--configure-cloud-routes`" + ` at true and deselect the controller (` + "`--controllers=*,-node-route-controller`" + `). The condition stays then.
* Only a node that is not ready is looked up for its deletion. A node younger than 5 minutes is deleted only if its instance has been seen: the cloud may not list it yet.
  The deletion is of the node with the UID that was looked up, unless that is ready by then.
* ` + "`--node-selector`" + ` leaves the other nodes alone: they are not looked up, initialized, written, tainted or deleted, they are no members of load balancers, and their routes are neither
  created nor deleted.

## Behaviors

A test runs each line against both controllers, except where they are not comparable. The right column says where upstream's differ, or names the public report: the test of upstream's
has to fail there with the error that shows the difference.

| fxccm's controllers | upstream's |
|---|---|
`)
	for _, behavior := range behaviors {
		b.WriteString(pagetest.Behavior(behavior.does, behavior.report))
	}
	return b.String()
}
