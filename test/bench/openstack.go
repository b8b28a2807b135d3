package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/cloud-provider/names"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// What fxccm is to reach on OpenStack, with the sizes that are the default.
const (
	initialiseCallsTarget = 30
	initialiseTimeTarget  = 20 // seconds
	statusCallsTarget     = 6
	notReadyCallsTarget   = 30 // a minute
	idleCallsTarget       = 2  // a minute
	routerWritesTarget    = 20
)

const (
	// statusPeriod is that of refreshing all nodes' addresses, so that two rounds need not be
	// waited for as long as they usually are apart. It is longer than fxccm remembers, by default.
	statusPeriod = 40 * time.Second
	// neverPeriod keeps that out of where something else is measured.
	neverPeriod = 24 * time.Hour
	// notReadyTime is how long the calls for nodes that are not ready are counted.
	notReadyTime = time.Minute
)

// measureOpenStack counts fxccm's requests; OCCM's are computed. Each trial runs once, because
// counts hardly vary, and with one controller, so the calls of others do not count.
func measureOpenStack(ctx context.Context, b *bench) error {
	for _, c := range openStackChapters() {
		b.results.begin(c.title)
		for _, measure := range c.measures {
			if err := measure(ctx, b); err != nil {
				return err
			}
		}
	}
	return nil
}

// openStackChapter is what is shown together.
type openStackChapter struct {
	title    string
	measures []func(context.Context, *bench) error
}

func openStackChapters() []openStackChapter {
	type measures = []func(context.Context, *bench) error
	return []openStackChapter{
		{
			"Nodes and routes",
			measures{
				measureInitialise, measureStatusPass, measureNotReady, measureIdleRoutes,
				measureRoutes,
			},
		},
		{
			"Load balancers",
			measures{
				measureNewServices, measureRestart, measureNodeAdded, measureServed,
				measureRefused,
			},
		},
	}
}

// measureInitialise counts the requests from the start of the process until all nodes that wait
// are initialised, and how long that takes from when it leads.
func measureInitialise(ctx context.Context, b *bench) error {
	n := b.settings.nodes
	title := fmt.Sprintf("%d nodes initialised", n)
	return b.onOpenStack(ctx, title, n, func(ctx context.Context, t *openStackTrial) error {
		took, err := t.run(ctx, t.cloud.newNodes(), isInitialised,
			"--controllers="+names.CloudNodeController,
			"--node-status-update-frequency="+neverPeriod.String())
		if err != nil {
			return err
		}
		t.note(countOf(title+": calls", t.cloud.recorded(), initialiseCallsTarget, occmNodes(n)))
		t.note(figure{
			title: title + ": time", value: took.Seconds(), unit: seconds,
			target: initialiseTimeTarget, occm: occmNodesTime(n, targetLatency),
		})
		return nil
	})
}

// measureStatusPass counts the requests that refresh the addresses of all nodes. That a pass is
// whole is seen from the nodes: all of them get another address in it.
func measureStatusPass(ctx context.Context, b *bench) error {
	n := b.settings.nodes
	title := fmt.Sprintf("Addresses of %d nodes refreshed", n)
	return b.onOpenStack(ctx, title, n, func(ctx context.Context, t *openStackTrial) error {
		_, err := t.run(ctx, t.cloud.oldNodes(), func(node *corev1.Node) bool {
			return hasNodeAddress(node, corev1.NodeInternalIP, "")
		},
			"--controllers="+names.CloudNodeController,
			"--node-status-update-frequency="+statusPeriod.String())
		if err != nil {
			return err
		}
		access := map[string]string{}
		for i, s := range t.cloud.servers {
			access[s.name] = accessAddress(i)
			if err := t.cloud.UpdateServer(s.id,
				func(in *openstacktest.Server) { in.AccessIPv4 = access[s.name] }); err != nil {
				return err
			}
		}
		t.cloud.ForgetCalls()
		all, err := t.watch(ctx, func(node *corev1.Node) bool {
			return hasNodeAddress(node, corev1.NodeExternalIP, access[node.Name])
		})
		if err != nil {
			return err
		}
		if _, err := all.wait(); err != nil {
			return fmt.Errorf("wait for the next pass: %w", err)
		}
		t.note(
			countOf(title+": calls of a pass", t.cloud.recorded(), statusCallsTarget, occmNodes(n)))
		return nil
	})
}

// measureNotReady counts the requests of a minute, from the first call on, for nodes that are not
// ready. Their servers are there, so none of them may be deleted; at the end one server is
// deleted, and its node must be, to see that nodes were looked at all the time.
func measureNotReady(ctx context.Context, b *bench) error {
	n := b.settings.notReady
	title := fmt.Sprintf("%d nodes not ready", n)
	return b.onOpenStack(ctx, title, n, func(ctx context.Context, t *openStackTrial) error {
		if err := t.prepare(ctx, t.cloud.silentNodes()); err != nil {
			return err
		}
		if _, err := t.startCCM("--controllers=" + names.CloudNodeLifecycleController); err != nil {
			return err
		}
		if _, err := t.cloud.WaitForCall(ctx,
			func(openstacktest.Call) bool { return true }); err != nil {
			return fmt.Errorf("wait for the first call: %w", err)
		}
		if err := t.letPass(ctx, notReadyTime); err != nil {
			return err
		}
		counted := t.cloud.recorded().within(notReadyTime)
		wanted := map[string]bool{}
		for _, s := range t.cloud.servers {
			wanted[s.name] = true
		}
		if err := t.checkNodes(ctx, wanted); err != nil {
			return err
		}
		if err := t.deleteOne(ctx, wanted); err != nil {
			return fmt.Errorf("see that nodes were looked at: %w", err)
		}
		f := countOf(title+": calls", counted, notReadyCallsTarget, occmNotReady(n))
		f.unit = perMinute
		t.note(f)
		return nil
	})
}

// deleteOne deletes one server, and returns when its node, and no other, has been deleted.
func (t *openStackTrial) deleteOne(ctx context.Context, wanted map[string]bool) error {
	gone := t.cloud.servers[0]
	if err := t.cloud.DeleteServer(gone.id); err != nil {
		return err
	}
	t.bench.progress.update(t.title + ": one server is deleted, and its node is to be")
	for {
		nodes, err := t.bench.cluster.client.CoreV1().Nodes().List(ctx,
			metav1.ListOptions{FieldSelector: nameIs(gone.name)})
		if err != nil {
			return fmt.Errorf("wait for node %s to be deleted: %w", gone.name, err)
		}
		if len(nodes.Items) == 0 {
			delete(wanted, gone.name)
			return t.checkNodes(ctx, wanted)
		}
		if err := t.pause(ctx, time.Second); err != nil {
			return fmt.Errorf("wait for node %s to be deleted: %w", gone.name, err)
		}
	}
}

func nameIs(name string) string {
	return fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
}

// measureIdleRoutes counts the requests while all routes are as they should be. At the end one is
// removed, and must come back, to see that they were looked at all the time.
func measureIdleRoutes(ctx context.Context, b *bench) error {
	n, idle := b.settings.routes, b.settings.idle
	title := fmt.Sprintf("%d routes, nothing to do for %s", n, idle)
	return b.onOpenStack(ctx, title, n, func(ctx context.Context, t *openStackTrial) error {
		if err := t.cloud.giveRoutes(); err != nil {
			return err
		}
		if _, err := t.run(ctx, t.cloud.podNodes(), hasRoute, routeFlags()...); err != nil {
			return err
		}
		t.cloud.ForgetCalls()
		if err := t.letPass(ctx, idle); err != nil {
			return err
		}
		counted := t.cloud.recorded()
		if err := t.cloud.checkRoutes(); err != nil {
			return err
		}
		if err := t.removeOne(ctx); err != nil {
			return fmt.Errorf("see that routes were looked at: %w", err)
		}
		f := countOf(title+": calls", counted, idleCallsTarget, occmIdleRoutes())
		f.unit, f.value = perMinute, float64(len(counted))/idle.Minutes()
		t.note(f)
		return nil
	})
}

// removeOne removes one route, and returns when it has been created again.
func (t *openStackTrial) removeOne(ctx context.Context) error {
	if err := t.cloud.SetRoutes(t.cloud.router, t.cloud.routes()[1:]...); err != nil {
		return err
	}
	t.bench.progress.update(t.title + ": one route is removed, and is to be created again")
	t.cloud.ForgetCalls()
	_, err := t.cloud.WaitForCall(ctx,
		func(call openstacktest.Call) bool { return isWriteOf("router", call) })
	if err != nil {
		return err
	}
	return t.cloud.checkRoutes()
}

// measureRoutes counts the requests from the start of the process until all nodes that wait for a
// route have one, and how long that takes from when it leads.
func measureRoutes(ctx context.Context, b *bench) error {
	n := b.settings.routes
	title := fmt.Sprintf("%d routes created", n)
	return b.onOpenStack(ctx, title, n, func(ctx context.Context, t *openStackTrial) error {
		took, err := t.run(ctx, t.cloud.podNodes(), hasRoute, routeFlags()...)
		if err != nil {
			return err
		}
		all := t.cloud.recorded()
		if err := t.cloud.checkRoutes(); err != nil {
			return err
		}
		t.note(countOf(title+": writes of the router", all.writesOf("router"), routerWritesTarget,
			occmRouterWrites(n)))
		t.note(
			countOf(title+": writes of ports", all.writesOf("port"), noTarget, occmPortWrites(n)))
		t.note(countOf(title+": all calls", all, noTarget, occmCreatedRoutes(n)))
		t.note(figure{title: title + ": time", value: took.Seconds(), unit: seconds})
		return nil
	})
}

func routeFlags() []string {
	return []string{
		"--controllers=" + names.NodeRouteController, "--configure-cloud-routes=true",
		"--cluster-cidr=" + podsCIDR,
	}
}
