package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cloud-provider/names"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// What fxccm is to reach with load balancers, with the sizes that are the default.
const (
	// A Service that is created or deleted may cost so many calls, and a change of nodes so many
	// for each load balancer: all are counted, also while Octavia is at work.
	createdCalls, deletedCalls, nodeCalls = 6, 8, 5

	newServicePassesTarget = 1
	nothingToDoCallsTarget = 5
	servedTimeTarget       = 60 // seconds
	// A restart may cost so many calls for each Service, and so many more.
	restartServiceCalls, restartCalls = 2, 10
)

const (
	// balancerPorts is how many ports a Service has where many are served.
	balancerPorts = 3
	// fewNodes are in the cluster where their number does not matter, and manyNodes where it might.
	fewNodes, manyNodes = 10, 50

	// creationTime is how long Octavia takes for each load balancer where calls for a new one are
	// counted, changeTime where nodes change, and slowCreationTime where many are made: what it
	// takes until an amphora has booted.
	creationTime, changeTime, slowCreationTime = 5 * time.Second, time.Second, 30 * time.Second

	// settleTime is how long calls are counted after all is as it should be: work that is done
	// twice would be seen in it.
	settleTime = 5 * time.Second

	// Of so many requests to Octavia one is refused, and may come again after a time.
	refusedOneOf = 5
	tooMany      = http.StatusTooManyRequests
	refusedFor   = time.Second
	// busyWindow is for what the rate of requests is at most.
	busyWindow = 10 * time.Second
	// underway is how much longer one request may be on its way to the cloud than others: so they
	// come closer together than they were sent.
	underway = 250 * time.Millisecond
)

// measureNewServices counts the requests for a new Service, then for a Service without a change,
// and then for its deletion, in a process that has served another Service before.
func measureNewServices(b *bench) {
	passes := 0
	for _, nodes := range []int{3, manyNodes} {
		title := fmt.Sprintf("New Service, %d nodes", nodes)
		b.onOpenStack(title, nodes, func(t *openStackTrial) {
			t.startServing("", t.cloud.podNodes())
			t.serve(newService("first", 1))
			t.deleteServices()
			for _, ports := range []int{1, 3, 10} {
				service := newService(fmt.Sprintf("ports-%d", ports), ports)
				passes = max(passes, t.measureNewService(service, nodes))
				t.measureNothingToDo(service, nodes)
				t.Check(t.cloud.checkBalancers([]*corev1.Service{service}, nodes))
				t.measureServiceDeleted(service, nodes)
			}
		}, openstacktest.WithProvisioning(creationTime))
	}
	if passes > 0 { // else the limit was reached
		b.keep(figure{
			title: "New Service: how often one was ensured, at most", value: float64(passes),
			unit: count, target: newServicePassesTarget,
			occm: cost{value: 2, formula: "again for its own annotation", source: occmBalancers},
		})
	}
}

// measureNewService tells how often the Service was ensured with success, which is after its load
// balancer was ready.
func (t *openStackTrial) measureNewService(service *corev1.Service, nodes int) (passes int) {
	t.cloud.ForgetCalls()
	t.serve(service)
	calls, _ := occmMade(1, len(service.Spec.Ports), creationTime)
	t.keep(countOf(fmt.Sprintf("New Service, %s, %d nodes: calls", portsText(service), nodes),
		t.cloud.recorded(), createdCalls, calls))
	return t.passes(service)
}

// measureServiceDeleted deletes the only Service.
func (t *openStackTrial) measureServiceDeleted(service *corev1.Service, nodes int) {
	t.cloud.ForgetCalls()
	t.deleteServices()
	t.letPass(settleTime, "calls are counted")
	calls, _ := occmDeleted(1, creationTime)
	t.keep(countOf(fmt.Sprintf("Service deleted, %s, %d nodes: calls", portsText(service), nodes),
		t.cloud.recorded(), deletedCalls, calls))
	t.Check(t.cloud.checkBalancers(nil, nodes))
}

func portsText(service *corev1.Service) string {
	if len(service.Spec.Ports) == 1 {
		return "1 port"
	}
	return fmt.Sprintf("%d ports", len(service.Spec.Ports))
}

// measureNothingToDo has the Service ensured by a change of it that makes no difference.
func (t *openStackTrial) measureNothingToDo(service *corev1.Service, nodes int) {
	ensured := t.watchEnsured(1)
	t.cloud.ForgetCalls()
	t.Check(t.annotate(t.Context(), service))
	ensured.wait()
	t.letPass(settleTime, "calls are counted")
	t.keep(countOf(fmt.Sprintf("Nothing to do, %s, %d nodes: calls", portsText(service), nodes),
		t.cloud.recorded(), nothingToDoCallsTarget, occmNothingToDo(len(service.Spec.Ports))))
}

// annotate has a Service ensured again, by an annotation without a meaning.
func (t *trial) annotate(ctx context.Context, service *corev1.Service) error {
	_, err := t.client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name,
		types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"bench.example.com/note":"again"}}}`),
		metav1.PatchOptions{})
	return err
}

// measureRestart counts the requests from the start of a process until it has ensured all Services
// of its predecessor, and how long that takes from when it leads.
func measureRestart(b *bench) {
	n := b.services
	title := fmt.Sprintf("Restart with %d Services of %d ports", n, balancerPorts)
	b.onOpenStack(title, fewNodes, func(t *openStackTrial) {
		services := newServices(n, balancerPorts)
		// The predecessor is not measured, so it may ask as fast as it can.
		before := t.startServing(unlimitedRate, t.cloud.podNodes())
		t.serve(services...)
		t.end(before)
		t.settle()
		ensured := t.watchEnsured(n)
		t.cloud.ForgetCalls()
		_, from := t.lead(t.serving(""))
		took := ensured.wait().Sub(from)
		t.letPass(settleTime, "calls are counted")
		counted := t.cloud.recorded()
		if writes := counted.writes(); len(writes) > 0 {
			t.Fatalf("there was nothing to do, and something was changed: %s",
				writes.byOperation())
		}
		t.keep(countOf(title+": calls", counted, float64(restartServiceCalls*n+restartCalls),
			occmRestart(n, balancerPorts)))
		t.keep(timeOf(title+": time", took, noTarget,
			occmRestartTime(n, balancerPorts, targetLatency)))
		t.Check(t.cloud.checkBalancers(services, fewNodes))
	})
}

// unlimitedRate is for cloud.conf.
const unlimitedRate = "\n[Client]\nrequest-burst = 100000\n"

// measureNodeAdded counts the requests for one load balancer, and for many, when a node joins, and
// how long it takes until the node is a member of all pools.
func measureNodeAdded(b *bench) {
	for _, n := range []int{1, b.balancers} {
		title := fmt.Sprintf("Node added, load balancers of %d ports: %d", balancerPorts, n)
		b.onOpenStack(title, fewNodes+2, func(t *openStackTrial) {
			services, nodes := newServices(n, balancerPorts), t.cloud.podNodes()
			t.startServing("", nodes[:fewNodes])
			t.serve(services...)
			// The process learns from another node how long a change takes.
			t.addNode(nodes, fewNodes, n)
			t.cloud.ForgetCalls()
			took := t.addNode(nodes, fewNodes+1, n)
			t.keep(countOf(title+": calls", t.cloud.recorded(), float64(nodeCalls*n),
				occmNodeAdded(n, balancerPorts, changeTime, targetLatency)))
			t.keep(timeOf(title+": time", took, noTarget,
				occmNodeAddedTime(n, balancerPorts, changeTime, targetLatency)))
			t.Check(t.cloud.checkBalancers(services, len(nodes)))
		}, openstacktest.WithProvisioning(changeTime))
	}
}

// addNode adds the i-th of the nodes, tells how long it takes until it is a member of all pools of
// so many load balancers, and waits for a while, in which nothing more should happen.
func (t *openStackTrial) addNode(nodes []*corev1.Node, i, balancers int) (took time.Duration) {
	begun := time.Now()
	t.createNodes(nodes[i])
	t.until(func() bool {
		full := t.cloud.fullPools(i + 1)
		t.update("%d of %d pools have the new member", full, balancers*balancerPorts)
		return full >= balancers*balancerPorts
	})
	took = time.Since(begun)
	t.letPass(settleTime, "calls are counted")
	return took
}

// measureServed measures how long it takes from when the process leads until all Services that wait
// are served, while Octavia is slow.
func measureServed(b *bench) {
	n := b.balancers
	title := fmt.Sprintf("%d Services of %d ports, %d nodes, Octavia takes %s", n, balancerPorts,
		manyNodes, slowCreationTime)
	b.onOpenStack(title, manyNodes, func(t *openStackTrial) {
		took := t.timeWaiting(newServices(n, balancerPorts))
		t.keep(timeOf(title+": time until all are served", took, servedTimeTarget,
			occmServed(n, slowCreationTime, targetLatency)))
		t.keep(countOf(title+": calls", t.cloud.recorded(), noTarget, cost{}))
	}, openstacktest.WithProvisioning(slowCreationTime))
}

// measureRefused does the same with an Octavia that refuses some requests, because there are too
// many. What counts is how many there are.
func measureRefused(b *bench) {
	n := b.balancers
	title := fmt.Sprintf("%d Services, 1 of %d requests refused with %d", n, refusedOneOf, tooMany)
	b.onOpenStack(title, fewNodes, func(t *openStackTrial) {
		t.cloud.refuseSome(refusedOneOf)
		took := t.timeWaiting(newServices(n, balancerPorts))
		all := t.cloud.recorded()
		t.keep(figure{
			title: fmt.Sprintf("%s: requests a second, in the busiest %s", title, busyWindow),
			value: all.busiest(busyWindow), unit: perSecond, target: mostRequests(),
			occm: cost{formula: "no limit; what is refused ends the pass", source: occmClient},
		})
		t.keep(countOf(title+": of which refused", all.answered(tooMany), noTarget, cost{}))
		t.keep(timeOf(title+": time until all are served", took, noTarget, cost{}))
	}, openstacktest.WithProvisioning(creationTime))
}

// mostRequests is how many a second fxccm may make by its settings in the busiest time: it has
// saved as many as make a burst.
func mostRequests() float64 {
	c := cloudconf.Default().Client
	return (c.RequestRate*(busyWindow+underway).Seconds() +
		float64(c.RequestBurst)) / busyWindow.Seconds()
}

// serving is fxccm with the service controller alone, and with something more in cloud.conf.
func (t *openStackTrial) serving(more string) candidate {
	return t.ccm(more, "--controllers="+names.ServiceLBController)
}

// startServing starts the process in a cluster of the nodes.
func (t *openStackTrial) startServing(more string, nodes []*corev1.Node) *process {
	t.createNodes(nodes...)
	t.settle()
	return t.start(t.serving(more))
}

// serve creates Services, waits until they are served, and then for a while, in which nothing more
// should happen.
func (t *openStackTrial) serve(services ...*corev1.Service) {
	all := t.watchServed(services)
	t.createServices(services...)
	all.wait()
	t.letPass(settleTime, "calls are counted")
}

// timeWaiting starts the process when Services and nodes are there, and tells how long it took
// from when it leads until all are served.
func (t *openStackTrial) timeWaiting(services []*corev1.Service) time.Duration {
	t.createServices(services...)
	t.createNodes(t.cloud.podNodes()...)
	t.settle()
	all := t.watchServed(services)
	_, from := t.lead(t.serving(""))
	took := all.wait().Sub(from)
	t.Check(t.cloud.checkBalancers(services, len(t.cloud.servers)))
	return took
}

// passes is how often the Service was ensured.
func (t *openStackTrial) passes(service *corev1.Service) (n int) {
	events, err := t.client.CoreV1().Events(service.Namespace).List(t.Context(),
		metav1.ListOptions{FieldSelector: fields.Set{
			"reason": ensuredReason, "involvedObject.name": service.Name,
		}.String()})
	t.Check(err)
	for _, event := range events.Items {
		n += int(event.Count)
	}
	if n == 0 {
		t.Fatalf("service %s has an address, and no event tells that it was ensured", service.Name)
	}
	return n
}
