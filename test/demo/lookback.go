package main

import (
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// lookBack checks the records of the API server and of the clouds.
func lookBack(_ context.Context, c *cluster) (string, error) {
	requests := 0
	for _, account := range []string{leaseName, hostAccount} {
		made, err := c.requestsOf(account)
		if err != nil {
			return "", err
		}
		requests += made
	}
	if err := c.expectDeletedNodes(lostNode); err != nil {
		return "", err
	}
	// There was one hand-over, so a third turn means that a replica called without leading.
	if turns := c.openStack.turns(c.replicas); len(turns) != len(c.replicas) {
		return "",
			fmt.Errorf("OpenStack was called by %v in this order: want each replica once",
				turns)
	}
	if overlaps := c.fake.ConcurrentCalls(); len(overlaps) > 0 {
		return "",
			fmt.Errorf("two terms changed the fake cloud at the same time %d times, such as: %+v",
				len(overlaps), overlaps[0])
	}
	return fmt.Sprintf(
		"%d requests to the API server under the rules of rbac.yaml, %d to OpenStack, %d to the fake cloud; the only deleted node is %s",
		requests, c.openStack.calls().total(), len(c.fake.Calls()), lostNode), nil
}

// requestsOf counts the requests of an account. It is an error without requests, or if one was
// forbidden.
func (c *cluster) requestsOf(account string) (int, error) {
	user := controlplane.ByUser(controlplane.ServiceAccountUser(metav1.NamespaceSystem, account))
	all, err := c.controlPlane.Audit().All(user)
	if err != nil {
		return 0, err
	}
	if len(all) == 0 {
		return 0,
			fmt.Errorf(
				"the audit log has no request of %s: the processes had another identity",
				account)
	}
	denied, err := c.controlPlane.Audit().All(user, controlplane.Denied())
	if err != nil {
		return 0, err
	}
	if len(denied) > 0 {
		record := denied[0]
		return 0,
			fmt.Errorf(
				"%d requests of %s were forbidden by the rules in rbac.yaml, such as: %s %s %s",
				len(denied), account, record.Verb, record.ResourcePath(), record.Name)
	}
	return len(all), nil
}

// expectDeletedNodes is an error unless cloud controller managers have deleted exactly these nodes.
func (c *cluster) expectDeletedNodes(want ...string) error {
	deletions, err := c.controlPlane.Audit().All(
		controlplane.ByUser(
			controlplane.ServiceAccountUser(metav1.NamespaceSystem, leaseName),
			controlplane.ServiceAccountUser(metav1.NamespaceSystem, hostAccount),
		),
		controlplane.ByVerb("delete", "deletecollection"), controlplane.ByResource("", "nodes"),
	)
	if err != nil {
		return err
	}
	var deleted []string
	for _, record := range deletions {
		deleted = append(deleted, record.Name)
	}
	if !slices.Equal(deleted, want) {
		return fmt.Errorf("the nodes %v were deleted, want just %v", deleted, want)
	}
	return nil
}
