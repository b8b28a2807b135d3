package main

import (
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// lookBack checks the records of the API server and of the clouds.
func (c *cluster) lookBack(t *attempt.T) string {
	requests := c.requestsOf(t, metav1.NamespaceSystem, leaseName) +
		c.requestsOf(t, metav1.NamespaceSystem, hostAccount)
	deletions, err := c.controlPlane.Audit().All(
		controlplane.ByUser(
			controlplane.ServiceAccountUser(metav1.NamespaceSystem, leaseName),
			controlplane.ServiceAccountUser(metav1.NamespaceSystem, hostAccount),
		),
		controlplane.ByVerb("delete", "deletecollection"), controlplane.ByResource("", "nodes"),
	)
	t.Check(err)
	if len(deletions) != 1 || deletions[0].Name != lostNode {
		t.Fatalf("the nodes %v were deleted, want just %s", deletions, lostNode)
	}
	// There was one hand-over, so a third turn means that a replica called OpenStack without
	// leading.
	if turns := c.openStack.turns(c.replicas); len(turns) != len(c.replicas) {
		t.Fatalf("OpenStack was called by %v in this order: want each replica once", turns)
	}
	if overlaps := c.fake.ConcurrentCalls(); len(overlaps) > 0 {
		t.Fatalf("two terms changed the fake cloud at the same time %d times, such as: %+v",
			len(overlaps), overlaps[0])
	}
	return fmt.Sprintf(
		"%d requests to the API server under the rules of rbac.yaml, %d to OpenStack, %d to the fake cloud; the only deleted node is %s",
		requests, c.openStack.calls().total(), len(c.fake.Calls()), lostNode)
}
