package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// Steps in which OpenStack is in trouble. A CCM that believes it deletes nodes whose machines run.

// failLogins makes Keystone fail and revokes the token in use, while fxccm looks up the machine of
// a silent node.
func failLogins(ctx context.Context, c *cluster) (string, error) {
	before, err := c.nodes(ctx)
	if err != nil {
		return "", err
	}
	since := c.openStack.calls()
	repair := c.openStack.server.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceIdentity,
		Status:  http.StatusInternalServerError,
	})
	defer repair()
	c.openStack.server.RevokeTokens()
	if err := c.silence(ctx, silentNode); err != nil {
		return "", err
	}
	if err := c.awaitCalls(ctx, since, 1, "token_create"); err != nil {
		return "", err
	}
	if err := c.expectNodes(ctx, before); err != nil {
		return "", err
	}
	repair()
	if err := c.awaitCalls(ctx, c.openStack.calls(), 1, "server_get", "server_list"); err != nil {
		return "", err
	}
	if err := errors.Join(c.wake(ctx, silentNode), c.expectNodes(ctx, before)); err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"%s was silent and no login succeeded: all %d nodes exist, and it recovered by itself (%s)",
		silentNode, len(before), c.openStack.calls().since(since)), nil
}

// hideMachines makes Nova find no server, while all nodes are silent.
func hideMachines(ctx context.Context, c *cluster) (string, error) {
	before, err := c.nodes(ctx)
	if err != nil {
		return "", err
	}
	since := c.openStack.calls()
	if err := c.openStack.hideMachines(); err != nil {
		return "", err
	}
	for _, node := range before {
		if err := c.silence(ctx, node.Name); err != nil {
			return "", err
		}
	}
	err = c.until(ctx, func(ctx context.Context) error {
		return errors.Join(c.expectVanishedEvent(ctx), c.expectNodes(ctx, before))
	})
	if err != nil {
		return "", err
	}
	// Twice the time after which a second 404 counts.
	if err := pause(ctx, 2*absenceConfirmation); err != nil {
		return "", err
	}
	if err := errors.Join(c.expectNodes(ctx, before), c.expectBalanced(ctx)); err != nil {
		return "", err
	}
	denied := c.openStack.calls().since(since)

	if err := c.openStack.bringMachinesBack(); err != nil {
		return "", err
	}
	// The second list shows that all callers have received the first one.
	if err := c.awaitCalls(ctx, c.openStack.calls(), 2, "server_list"); err != nil {
		return "", err
	}
	for _, node := range before {
		if err := c.wake(ctx, node.Name); err != nil {
			return "", err
		}
	}
	if err := c.expectNodes(ctx, before); err != nil {
		return "", err
	}
	return fmt.Sprintf(
		"all nodes were silent, and Nova found none of their machines (%s): all %d nodes still exist, are members, and have an event %s",
		denied, len(before), vanished), nil
}

// vanished is the reason of the event on nodes that the mass deletion guard keeps.
const vanished = "InstancesVanished"

func (c *cluster) expectVanishedEvent(ctx context.Context) error {
	events, err := c.client.CoreV1().Events(metav1.NamespaceDefault).List(ctx,
		metav1.ListOptions{FieldSelector: "reason=" + vanished})
	if err != nil {
		return err
	}
	return expectNot("the number of events "+vanished, len(events.Items), 0)
}

// awaitCalls waits until OpenStack has received so many calls of the operations.
func (c *cluster) awaitCalls(
	ctx context.Context, since tally, times int, operations ...string,
) error {
	return c.until(ctx, func(context.Context) error {
		if calls := c.openStack.calls().since(since).only(operations...).total(); calls < times {
			return fmt.Errorf("OpenStack was called %d times for %v, want %d", calls, operations,
				times)
		}
		return nil
	})
}

// expectNodes is an error unless the nodes are the same as before.
func (c *cluster) expectNodes(ctx context.Context, before []corev1.Node) error {
	now, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	if now, before := uids(now), uids(before); !maps.Equal(now, before) {
		return fmt.Errorf("the nodes are %v, and were %v", now, before)
	}
	return nil
}

func uids(nodes []corev1.Node) map[string]types.UID {
	all := map[string]types.UID{}
	for _, node := range nodes {
		all[node.Name] = node.UID
	}
	return all
}
