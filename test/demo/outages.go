package main

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/attempt"
)

// Steps with outages of OpenStack. A CCM that trusts the answers deletes nodes whose machines run.

// failLogins makes Keystone fail and revokes the token in use, while fxccm looks up the machine of
// a silent node.
func (c *cluster) failLogins(t *attempt.T) string {
	before := c.nodeUIDs(t)
	since := c.openStack.calls()
	repair := c.openStack.server.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceIdentity,
		Status:  http.StatusInternalServerError,
	})
	defer repair()
	c.openStack.server.RevokeTokens()
	c.setReady(t, corev1.ConditionFalse, silentNode)
	c.awaitCalls(t, since, 1, "token_create")
	t.Check(c.expectNodes(t, before))
	repair()
	c.awaitCalls(t, c.openStack.calls(), 1, "server_get", "server_list")
	c.setReady(t, corev1.ConditionTrue, silentNode)
	t.Check(c.expectNodes(t, before))
	return fmt.Sprintf(
		"%s was silent and no login succeeded: all %d nodes exist, and it recovered by itself (%s)",
		silentNode, len(before), c.openStack.calls().since(since))
}

// hideMachines makes Nova find no server, while all nodes are silent. All machines move to another
// project, as if fxccm had logged in to a wrong one.
func (c *cluster) hideMachines(t *attempt.T) string {
	before := c.nodeUIDs(t)
	names := slices.Collect(maps.Keys(before))
	since := c.openStack.calls()
	t.Check(c.openStack.moveMachines(c.openStack.elsewhere))
	c.setReady(t, corev1.ConditionFalse, names...)
	c.until(t, func() error {
		return errors.Join(c.expectVanishedEvent(t), c.expectNodes(t, before))
	})
	// It is twice the time after which a second 404 counts.
	t.Check(sleep(t.Context(), 2*absenceConfirmation))
	t.Check(c.expectNodes(t, before))
	c.awaitSameBalanced(t)
	denied := c.openStack.calls().since(since)

	t.Check(c.openStack.moveMachines(c.openStack.ours))
	// The second list shows that all callers have received the first one.
	c.awaitCalls(t, c.openStack.calls(), 2, "server_list")
	c.setReady(t, corev1.ConditionTrue, names...)
	t.Check(c.expectNodes(t, before))
	return fmt.Sprintf(
		"all nodes were silent, and Nova found none of their machines (%s): all %d nodes still exist, are members, and have an event %s",
		denied, len(before), vanished)
}

// vanished is the reason of the event on nodes that the mass deletion guard keeps.
const vanished = "InstancesVanished"

func (c *cluster) expectVanishedEvent(t *attempt.T) error {
	events, err := c.client.CoreV1().Events(metav1.NamespaceDefault).List(t.Context(),
		metav1.ListOptions{FieldSelector: "reason=" + vanished})
	if err != nil {
		return err
	}
	return expectNot("the number of events "+vanished, len(events.Items), 0)
}

// awaitCalls waits until OpenStack has received as many calls of the operations.
func (c *cluster) awaitCalls(t *attempt.T, since tally, times int, operations ...string) {
	c.until(t, func() error {
		if calls := c.openStack.calls().since(since).only(operations...).total(); calls < times {
			return fmt.Errorf("OpenStack was called %d times for %v, want %d", calls, operations,
				times)
		}
		return nil
	})
}

// nodeUIDs returns the UIDs by the node's name.
func (c *cluster) nodeUIDs(t *attempt.T) map[string]types.UID {
	nodes, err := c.nodes(t.Context())
	t.Check(err)
	all := map[string]types.UID{}
	for _, node := range nodes {
		all[node.Name] = node.UID
	}
	return all
}

// expectNodes returns an error unless the nodes are the same as before.
func (c *cluster) expectNodes(t *attempt.T, before map[string]types.UID) error {
	if now := c.nodeUIDs(t); !maps.Equal(now, before) {
		return fmt.Errorf("the nodes are %v, and were %v", now, before)
	}
	return nil
}
