package servicelb_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/pagetest"
	"github.com/fxccm/fxccm/internal/servicelb"
)

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage .

func TestPage_IsUpToDate(t *testing.T) {
	pagetest.Check(t, "../../docs/reference/service-controller.md", page())
}

func page() string {
	var b strings.Builder
	fmt.Fprintf(&b, `# The service-lb-controller

It keeps a load balancer for each Service of type LoadBalancer, with whatever provider. It has the name, flags, events, metrics and finalizer of the controller in
`+"`k8s.io/cloud-provider`"+` (below: upstream's), so dashboards, alerts and RBAC rules for that one hold. It is fxccm's own, because upstream's has faults
that a program around it cannot mend.

## Rules

* For one Service at most one call of the provider is in flight. Each call gets the Service and the nodes as they are at that moment.
* A provider that has not finished (an `+"`api.RetryError`"+`) is asked again after the time that it names. The controller records no event then, and uses no worker between the calls.
* After a failure the provider is asked again after 5 seconds, a pause that doubles up to 5 minutes. A change of the Service starts an attempt at once.
  While a change fails, the load balancer still gets its nodes. A failure that stays is one line of the log, and a Warning at most every 30 minutes.
* Each load balancer is updated when a node becomes a member or no longer is one, and when its addresses, provider ID, labels or taints change. Annotations, and taints that
  begin with `+"`node.kubernetes.io/`"+`, do not count. The first update is at once, and later ones are at most one a second.
* The controller does not pass a node that has the label `+"`node.kubernetes.io/exclude-from-external-load-balancers`"+` with a value other than `+"`false`"+`, that is being deleted,
  that has the cluster autoscaler's taint `+"`ToBeDeletedByClusterAutoscaler`"+` or Karpenter's `+"`karpenter.sh/disrupted`"+`, that has the taint `+"`node.cloudprovider.kubernetes.io/shutdown`"+`
  because its instance is shut down, or that is not ready and has the condition `+"`NetworkUnavailable`"+` or has not been ready since it registered. Other nodes that are not ready stay
  members, so that connections can drain. The OpenStack provider keeps a node that is shut down or about to be removed [with weight 0](../explanation/openstack-load-balancers.md#which-nodes-get-connections).
  A provider may leave out further nodes, such as those with the taints that `+"`removal-taints`"+` of cloud.conf or `+"`removalTaints`"+` of Huawei Cloud names.
* `+"`--concurrent-service-syncs`"+` is how many calls for Services may be in flight, and besides these how many updates after changes of nodes.
* A provider may forward to the endpoints of a Service instead of its nodes (`+"`ccm.EndpointBalancer`"+`). It then gets the EndpointSlices of the Service with the nodes. A change of
  the endpoints, of the `+"`podCIDRs`"+` of a node, or of the condition that it has no route, leads to one update, and then to at most one in 2 seconds. EndpointSlices are listed and watched from the first such Service on, and only what the provider gets
  is kept of them. A Manager that may not read them serves the other Services. A Warning and the status report the cause.
* A status that another client changes, and a finalizer that another client removes, are written again after 5 seconds. If the provider has returned
  no address, another component may write it.

## Clean-up

The annotation `+"`%[1]s`"+` is set with the finalizer. Its value is the class for which the Service is served, empty for a Service
without a class. The API server removes the class of a Service that changes its type, so the Service itself does not show which Manager has served it.

When a Service is deleted, changes its type or goes to another class, the load balancer, the finalizer, the annotation and the address are removed

* by the Manager that serves the class in the annotation, also after a restart;
* without the annotation, which Services of earlier versions and of other cloud controller managers lack: by a Manager that serves the Service's class, and, if the
  type is not LoadBalancer any more, by the Manager with `+"`--default-load-balancer`"+`, provided that its cloud has a load balancer of the Service.
  If it has none, the finalizer is kept, and the event `+"`LoadBalancerFinalizerKept`"+` reports it.

Until then another Manager does not serve the Service, because both may find the same load balancer in one cloud. If the clean-up takes longer than 5 seconds, the Warning
`+"`SyncLoadBalancerFailed`"+` names the class. If no Manager serves that class any more, delete the load balancer and remove the annotation.

Other controllers do not wait. The old address is removed before the load balancer. If the Service has another address when the load balancer is deleted, such a controller serves it, and finalizer and address stay. If it has no address yet,
the other controller sets the finalizer again at its next look.

## Behaviors

A test runs each line against both controllers, except where they are not comparable. The right column says where upstream's differs, or names the public report: the test of upstream's
has to fail there with the error that shows the difference.

| fxccm's controller | upstream's |
|---|---|
`, servicelb.ServedClass)
	for _, behavior := range behaviors {
		b.WriteString(pagetest.Behavior(behavior.does, behavior.report))
	}
	return b.String()
}
