package main

import (
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/names"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// What fxccm is to reach on OpenStack, with the sizes that are the default.
const (
	initializeCallsTarget = 30
	initializeTimeTarget  = 20 // seconds
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
func measureOpenStack(b *bench) {
	for _, c := range []struct {
		title    string
		measures []func(*bench)
	}{
		{"Nodes and routes", []func(*bench){
			measureInitialize, measureStatusPass, measureNotReady, measureIdleRoutes, measureRoutes,
		}},
		{"Load balancers", []func(*bench){
			measureNewServices, measureRestart, measureNodeAdded, measureServed, measureRefused,
		}},
		{"Pods as members", []func(*bench){measurePods}},
	} {
		b.results.chapters = append(b.results.chapters, chapter{title: c.title})
		for _, measure := range c.measures {
			measure(b)
		}
	}
}

// openStackTrial is a trial on a simulated OpenStack instead of the fake cloud.
type openStackTrial struct {
	*trial
	cloud *openStack
}

// onOpenStack is a trial. Not to finish within the limit is a result and no error.
func (b *bench) onOpenStack(
	title string, servers int, body func(*openStackTrial), options ...openstacktest.Option,
) {
	err := b.trialWithin(b.limit, title, 0, func(t *trial) {
		o := &openStackTrial{trial: t, cloud: newOpenStack(servers, options...)}
		t.Cleanup(o.cloud.Close)
		body(o)
	})
	if errors.Is(err, errLimit) {
		b.keep(figure{title: title, unfinished: b.limit})
		return
	}
	b.run.Check(err)
}

// keep adds a figure to the last chapter, and tells it.
func (b *bench) keep(f figure) {
	b.note(&b.results.chapters[len(b.results.chapters)-1].figures, f)
}

// note adds a figure to others, and tells it.
func (b *bench) note(with *[]figure, f figure) {
	*with = append(*with, f)
	text := f.title + ": " + f.text()
	if verdict := f.verdict(); verdict != "" {
		text += ", " + verdict
	}
	if operations := f.operations(); operations != "" {
		text += " (" + operations + ")"
	}
	b.progress.say(text)
}

// openStackCCM is fxccm on an OpenStack.
func openStackCCM(config string, flags ...string) candidate {
	return candidate{
		name: ours, program: "fxccm",
		flags: append([]string{"--cloud-provider=openstack", "--cloud-config=" + config}, flags...),
	}
}

// ccm is fxccm on the cloud of the trial, with something more in its cloud.conf.
func (t *openStackTrial) ccm(more string, flags ...string) candidate {
	return openStackCCM(t.writeFile("openstack.conf", t.cloud.config(more)), flags...)
}

// timeNodes creates nodes, starts fxccm, and returns when all nodes are so: how long that took from
// when the Lease named a holder.
func (t *openStackTrial) timeNodes(
	nodes []*corev1.Node, isSo func(*corev1.Node) bool, flags ...string,
) time.Duration {
	t.createNodes(nodes...)
	t.settle()
	all := t.watchNodes(len(nodes), isSo)
	_, from := t.lead(t.ccm("", flags...))
	return all.wait().Sub(from)
}

// measureInitialize counts the requests from the start of the process until all nodes that wait
// are initialized, and how long that takes from when it leads.
func measureInitialize(b *bench) {
	n := b.nodes
	title := fmt.Sprintf("%d nodes initialized", n)
	b.onOpenStack(title, n, func(t *openStackTrial) {
		took := t.timeNodes(t.cloud.newNodes(), isInitialized,
			"--controllers="+names.CloudNodeController,
			"--node-status-update-frequency="+neverPeriod.String())
		t.keep(countOf(title+": calls", t.cloud.recorded(), initializeCallsTarget, occmNodes(n)))
		t.keep(timeOf(title+": time", took, initializeTimeTarget,
			occmNodesTime(n, targetLatency)))
	})
}

// measureStatusPass counts the requests that refresh the addresses of all nodes. That a pass is
// whole is seen from the nodes: all of them get another address in it.
func measureStatusPass(b *bench) {
	n := b.nodes
	title := fmt.Sprintf("Addresses of %d nodes refreshed", n)
	b.onOpenStack(title, n, func(t *openStackTrial) {
		t.timeNodes(t.cloud.oldNodes(),
			func(node *corev1.Node) bool { return hasNodeAddress(node, corev1.NodeInternalIP, "") },
			"--controllers="+names.CloudNodeController,
			"--node-status-update-frequency="+statusPeriod.String())
		access := map[string]string{}
		for i, s := range t.cloud.servers {
			access[s.name] = accessAddress(i)
			t.Check(t.cloud.UpdateServer(s.id,
				func(in *openstacktest.Server) { in.AccessIPv4 = access[s.name] }))
		}
		t.cloud.ForgetCalls()
		t.watchNodes(n, func(node *corev1.Node) bool {
			return hasNodeAddress(node, corev1.NodeExternalIP, access[node.Name])
		}).wait()
		t.keep(
			countOf(title+": calls of a pass", t.cloud.recorded(), statusCallsTarget, occmNodes(n)))
	})
}

// measureNotReady counts the requests of a minute, from the first call on, for nodes that are not
// ready. Their servers are there, so none of them may be deleted; at the end one server is
// deleted, and its node must be, to see that nodes were looked at all the time.
func measureNotReady(b *bench) {
	n := b.notReady
	title := fmt.Sprintf("%d nodes not ready", n)
	b.onOpenStack(title, n, func(t *openStackTrial) {
		t.createNodes(t.cloud.silentNodes()...)
		t.settle()
		t.start(t.ccm("", "--controllers="+names.CloudNodeLifecycleController))
		_, err := t.cloud.WaitForCall(t.Context(),
			func(openstacktest.Call) bool { return true })
		t.Check(err)
		t.letPass(notReadyTime, "calls are counted")
		counted := t.cloud.recorded().within(notReadyTime)
		wanted := map[string]bool{}
		for _, s := range t.cloud.servers {
			wanted[s.name] = true
		}
		t.checkNodes(wanted)
		gone := t.cloud.servers[0]
		t.Check(t.cloud.DeleteServer(gone.id))
		t.update("one server is deleted, and its node is to be")
		t.until(func() bool {
			_, err := t.client.CoreV1().Nodes().Get(t.Context(), gone.name, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				return true
			}
			t.Check(err)
			return false
		})
		delete(wanted, gone.name)
		t.checkNodes(wanted)
		f := countOf(title+": calls", counted, notReadyCallsTarget, occmNotReady(n))
		f.unit = perMinute
		t.keep(f)
	})
}

// measureIdleRoutes counts the requests while all routes are as they should be. At the end one is
// removed, and must come back, to see that they were looked at all the time.
func measureIdleRoutes(b *bench) {
	n := b.routes
	title := fmt.Sprintf("%d routes, nothing to do for %s", n, b.idle)
	b.onOpenStack(title, n, func(t *openStackTrial) {
		t.Check(t.cloud.giveRoutes())
		t.timeNodes(t.cloud.podNodes(), hasRoute, routeFlags()...)
		t.cloud.ForgetCalls()
		t.letPass(t.idle, "calls are counted")
		counted := t.cloud.recorded()
		t.Check(t.cloud.checkRoutes())
		t.Check(t.cloud.SetRoutes(t.cloud.router, t.cloud.routes()[1:]...))
		t.update("one route is removed, and is to be created again")
		t.cloud.ForgetCalls()
		_, err := t.cloud.WaitForCall(t.Context(),
			func(call openstacktest.Call) bool { return isWriteOf("router", call) })
		t.Check(err)
		t.Check(t.cloud.checkRoutes())
		f := countOf(title+": calls", counted, idleCallsTarget, occmIdleRoutes())
		f.unit, f.value = perMinute, float64(len(counted))/t.idle.Minutes()
		t.keep(f)
	})
}

// measureRoutes counts the requests from the start of the process until all nodes that wait for a
// route have one, and how long that takes from when it leads.
func measureRoutes(b *bench) {
	n := b.routes
	title := fmt.Sprintf("%d routes created", n)
	b.onOpenStack(title, n, func(t *openStackTrial) {
		took := t.timeNodes(t.cloud.podNodes(), hasRoute, routeFlags()...)
		all := t.cloud.recorded()
		t.Check(t.cloud.checkRoutes())
		t.keep(countOf(title+": writes of the router", all.writesOf("router"), routerWritesTarget,
			occmPerRoute(1, n)))
		t.keep(countOf(title+": writes of ports", all.writesOf("port"), noTarget,
			occmPerRoute(1, n)))
		t.keep(countOf(title+": all calls", all, noTarget, occmPerRoute(occmRouteCalls, n)))
		t.keep(timeOf(title+": time", took, noTarget, cost{}))
	})
}

func routeFlags() []string {
	return []string{
		"--controllers=" + names.NodeRouteController, "--configure-cloud-routes=true",
		"--cluster-cidr=" + podsCIDR,
	}
}
