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
	newServiceCallsTarget  = 5
	newServicePassesTarget = 1
	nothingToDoCallsTarget = 5
	servedTimeTarget       = 60 // seconds
	// A restart may cost so many calls for each Service, and so many more; a new node so many for
	// each load balancer, and so many for each port.
	restartServiceCalls, restartCalls = 2, 10
	nodeCalls, nodePortCalls          = 2, 2
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

// serving has only the service controller run.
func serving() []string { return []string{"--controllers=" + names.ServiceLBController} }

// measureNewServices counts the requests for a new Service, and then for a Service without a
// change, in a process that has served another Service before.
func measureNewServices(ctx context.Context, b *bench) error {
	passes := 0
	for _, nodes := range []int{3, manyNodes} {
		title := fmt.Sprintf("New Service, %d nodes", nodes)
		err := b.onOpenStack(ctx, title, nodes, func(ctx context.Context, t *openStackTrial) error {
			if err := t.startServing(ctx); err != nil {
				return err
			}
			served := []*corev1.Service{newServiceOf("first", 1)}
			if err := t.serve(ctx, served...); err != nil {
				return err
			}
			for _, ports := range []int{1, 3, 10} {
				service := newServiceOf(fmt.Sprintf("ports-%d", ports), ports)
				served = append(served, service)
				made, err := t.measureNewService(ctx, service, nodes)
				if err != nil {
					return err
				}
				passes = max(passes, made)
				if err := t.measureNothingToDo(ctx, service, nodes); err != nil {
					return err
				}
			}
			return t.cloud.checkBalancers(served, nodes)
		}, openstacktest.WithProvisioning(creationTime))
		if err != nil {
			return err
		}
	}
	if passes > 0 { // else the limit was reached
		b.note(figure{
			title: "New Service: how often one was ensured, at most", value: float64(passes),
			unit: count, target: newServicePassesTarget,
			occm: cost{value: 2, formula: "again for its own annotation", source: occmBalancers},
		})
	}
	return nil
}

// measureNewService tells how often the Service was ensured with success, which is after its load
// balancer was ready.
func (t *openStackTrial) measureNewService(
	ctx context.Context, service *corev1.Service, nodes int,
) (passes int, _ error) {
	t.cloud.ForgetCalls()
	if err := t.serve(ctx, service); err != nil {
		return 0, err
	}
	f := countOf(fmt.Sprintf("New Service, %s, %d nodes: calls beside lists of load balancers",
		portsText(service), nodes),
		t.cloud.recorded().without(listOfBalancers), newServiceCallsTarget,
		occmNewService(len(service.Spec.Ports)))
	f.beside = t.cloud.recorded().of(listOfBalancers)
	t.note(f)
	return t.passes(ctx, service)
}

const listOfBalancers = "loadbalancer_list"

func portsText(service *corev1.Service) string {
	if len(service.Spec.Ports) == 1 {
		return "1 port"
	}
	return fmt.Sprintf("%d ports", len(service.Spec.Ports))
}

// measureNothingToDo has the Service ensured by a change of it that makes no difference.
func (t *openStackTrial) measureNothingToDo(
	ctx context.Context, service *corev1.Service, nodes int,
) error {
	ensured, err := t.watchEnsured(ctx, 1)
	if err != nil {
		return err
	}
	t.cloud.ForgetCalls()
	_, err = t.bench.cluster.client.CoreV1().Services(service.Namespace).Patch(ctx, service.Name,
		types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"bench.example.com/note":"again"}}}`),
		metav1.PatchOptions{})
	if err != nil {
		return fmt.Errorf("annotate service %s: %w", service.Name, err)
	}
	if _, err := ensured.wait(); err != nil {
		return fmt.Errorf("wait for service %s to be ensured again: %w", service.Name, err)
	}
	if err := t.letPass(ctx, settleTime); err != nil {
		return err
	}
	t.note(countOf(fmt.Sprintf("Nothing to do, %s, %d nodes: calls", portsText(service), nodes),
		t.cloud.recorded(), nothingToDoCallsTarget, occmNothingToDo(len(service.Spec.Ports))))
	return nil
}

// measureRestart counts the requests from the start of a process until it has ensured all Services
// of its predecessor, and how long that takes from when it leads.
func measureRestart(ctx context.Context, b *bench) error {
	n := b.settings.services
	title := fmt.Sprintf("Restart with %d Services of %d ports", n, balancerPorts)
	return b.onOpenStack(ctx, title, fewNodes, func(ctx context.Context, t *openStackTrial) error {
		services := newServices(n, balancerPorts)
		if err := t.servedBefore(ctx, services); err != nil {
			return err
		}
		ensured, err := t.watchEnsured(ctx, n)
		if err != nil {
			return err
		}
		t.cloud.ForgetCalls()
		from, err := t.leadCCM(ctx, serving()...)
		if err != nil {
			return err
		}
		to, err := ensured.wait()
		if err != nil {
			return fmt.Errorf("wait for the Services to be ensured: %w", err)
		}
		if err := t.letPass(ctx, settleTime); err != nil {
			return err
		}
		counted := t.cloud.recorded()
		if writes := counted.writes(); len(writes) > 0 {
			return fmt.Errorf("there was nothing to do, and something was changed: %s",
				writes.byOperation())
		}
		t.note(countOf(title+": calls", counted, float64(restartServiceCalls*n+restartCalls),
			occmRestart(n, balancerPorts)))
		t.note(figure{
			title: title + ": time", value: to.Sub(from).Seconds(), unit: seconds,
			occm: occmRestartTime(n, balancerPorts, targetLatency),
		})
		return t.cloud.checkBalancers(services, fewNodes)
	})
}

// servedBefore has a process serve the Services that ends then. It asks as fast as it can: nothing
// is measured of it.
func (t *openStackTrial) servedBefore(ctx context.Context, services []*corev1.Service) error {
	if err := t.prepare(ctx, t.cloud.podNodes()); err != nil {
		return err
	}
	before, err := t.startWith(unlimitedRate, serving()...)
	if err != nil {
		return err
	}
	if err := t.serve(ctx, services...); err != nil {
		return err
	}
	if err := before.stop(stopGrace); err != nil {
		return err
	}
	return t.bench.cluster.settle(ctx)
}

// unlimitedRate is for cloud.conf.
const unlimitedRate = "\n[Client]\nrequest-burst = 100000\n"

// measureNodeAdded counts the requests for one load balancer, and for many, when a node joins, and
// how long it takes until the node is a member of all pools.
func measureNodeAdded(ctx context.Context, b *bench) error {
	for _, n := range []int{1, b.settings.balancers} {
		title := fmt.Sprintf("Node added, load balancers of %d ports: %d", balancerPorts, n)
		err := b.onOpenStack(ctx, title, fewNodes+1,
			func(ctx context.Context, t *openStackTrial) error {
				return t.measureNodeAdded(ctx, newServices(n, balancerPorts))
			}, openstacktest.WithProvisioning(changeTime))
		if err != nil {
			return err
		}
	}
	return nil
}

func (t *openStackTrial) measureNodeAdded(ctx context.Context, services []*corev1.Service) error {
	nodes := t.cloud.podNodes()
	last := nodes[fewNodes]
	if err := t.prepare(ctx, nodes[:fewNodes]); err != nil {
		return err
	}
	if _, err := t.startCCM(serving()...); err != nil {
		return err
	}
	if err := t.serve(ctx, services...); err != nil {
		return err
	}
	t.cloud.ForgetCalls()
	begun := time.Now()
	if err := t.bench.cluster.createNodes(ctx, last); err != nil {
		return err
	}
	if err := t.awaitMembers(ctx, len(services)*balancerPorts, len(nodes)); err != nil {
		return err
	}
	took := time.Since(begun)
	if err := t.letPass(ctx, settleTime); err != nil {
		return err
	}
	n := len(services)
	t.note(countOf(t.title+": calls", t.cloud.recorded(),
		float64((nodeCalls+nodePortCalls*balancerPorts)*n),
		occmNodeAdded(n, balancerPorts, changeTime, targetLatency)))
	t.note(figure{
		title: t.title + ": time", value: took.Seconds(), unit: seconds,
		occm: occmNodeAddedTime(n, balancerPorts, changeTime, targetLatency),
	})
	return t.cloud.checkBalancers(services, len(nodes))
}

// awaitMembers waits until so many pools have so many members.
func (t *openStackTrial) awaitMembers(ctx context.Context, pools, members int) error {
	for {
		full := t.cloud.fullPools(members)
		if full >= pools {
			return nil
		}
		t.bench.progress.update(
			fmt.Sprintf("%s: %d of %d pools have the new member", t.title, full, pools))
		if err := t.pause(ctx, pollInterval); err != nil {
			return fmt.Errorf("wait for the new member: %w", err)
		}
	}
}

// measureServed measures how long it takes from when the process leads until all Services that wait
// are served, while Octavia is slow.
func measureServed(ctx context.Context, b *bench) error {
	n := b.settings.balancers
	title := fmt.Sprintf("%d Services of %d ports, %d nodes, Octavia takes %s", n, balancerPorts,
		manyNodes, slowCreationTime)
	return b.onOpenStack(ctx, title, manyNodes, func(ctx context.Context, t *openStackTrial) error {
		took, err := t.serveWaiting(ctx, newServices(n, balancerPorts))
		if err != nil {
			return err
		}
		t.note(figure{
			title: title + ": time until all are served", value: took.Seconds(), unit: seconds,
			target: servedTimeTarget,
			occm:   occmServed(n, slowCreationTime, targetLatency),
		})
		t.note(countOf(title+": calls", t.cloud.recorded(), noTarget, cost{}))
		return nil
	}, openstacktest.WithProvisioning(slowCreationTime))
}

// measureRefused does the same with an Octavia that refuses some requests, because there are too
// many. What counts is how many there are.
func measureRefused(ctx context.Context, b *bench) error {
	n := b.settings.balancers
	title := fmt.Sprintf("%d Services, 1 of %d requests refused with %d", n, refusedOneOf, tooMany)
	return b.onOpenStack(ctx, title, fewNodes, func(ctx context.Context, t *openStackTrial) error {
		t.cloud.refuseSome(refusedOneOf)
		took, err := t.serveWaiting(ctx, newServices(n, balancerPorts))
		if err != nil {
			return err
		}
		all := t.cloud.recorded()
		none := cost{formula: "no limit; what is refused ends the pass", source: occmClient}
		t.note(figure{
			title: fmt.Sprintf("%s: requests a second, in the busiest %s", title, busyWindow),
			value: all.busiest(busyWindow), unit: perSecond,
			target: mostRequests(), occm: none,
		})
		t.note(countOf(title+": of which refused", all.answered(tooMany), noTarget, cost{}))
		t.note(figure{
			title: title + ": time until all are served", value: took.Seconds(),
			unit: seconds,
		})
		return nil
	}, openstacktest.WithProvisioning(creationTime))
}

// mostRequests is how many a second fxccm may make by its settings in the busiest time: it has
// saved as many as make a burst.
func mostRequests() float64 {
	c := cloudconf.Default().Client
	return (c.RequestRate*(busyWindow+underway).Seconds() +
		float64(c.RequestBurst)) / busyWindow.Seconds()
}

// startServing starts the process in a cluster of all nodes.
func (t *openStackTrial) startServing(ctx context.Context) error {
	if err := t.prepare(ctx, t.cloud.podNodes()); err != nil {
		return err
	}
	_, err := t.startCCM(serving()...)
	return err
}

// serve creates Services, waits until they are served, and then for a while, in which nothing more
// should happen.
func (t *openStackTrial) serve(ctx context.Context, services ...*corev1.Service) error {
	all, err := t.watchServed(ctx, services)
	if err != nil {
		return err
	}
	if err := t.bench.cluster.createServices(ctx, services...); err != nil {
		return fmt.Errorf("create %d Services: %w", len(services), err)
	}
	if _, err := all.wait(); err != nil {
		return fmt.Errorf("wait for the Services to be served: %w", err)
	}
	return t.letPass(ctx, settleTime)
}

// serveWaiting starts the process when Services and nodes are there, and tells how long it took
// from when it leads.
func (t *openStackTrial) serveWaiting(
	ctx context.Context, services []*corev1.Service,
) (time.Duration, error) {
	cluster := t.bench.cluster
	if err := cluster.createServices(ctx, services...); err != nil {
		return 0, fmt.Errorf("create %d Services: %w", len(services), err)
	}
	if err := t.prepare(ctx, t.cloud.podNodes()); err != nil {
		return 0, err
	}
	all, err := t.watchServed(ctx, services)
	if err != nil {
		return 0, err
	}
	from, err := t.leadCCM(ctx, serving()...)
	if err != nil {
		return 0, err
	}
	to, err := all.wait()
	if err != nil {
		return 0, fmt.Errorf("wait for the Services to be served: %w", err)
	}
	return to.Sub(from), t.cloud.checkBalancers(services, len(t.cloud.servers))
}

// passes is how often the Service was ensured.
func (t *openStackTrial) passes(ctx context.Context, service *corev1.Service) (n int, _ error) {
	events, err := t.bench.cluster.client.CoreV1().Events(service.Namespace).List(ctx,
		metav1.ListOptions{
			FieldSelector: fields.Set{
				"reason":              ensuredReason,
				"involvedObject.name": service.Name,
			}.String(),
		})
	if err != nil {
		return 0, fmt.Errorf("list the events on service %s: %w", service.Name, err)
	}
	for _, event := range events.Items {
		n += int(event.Count)
	}
	if n == 0 {
		return 0,
			fmt.Errorf("service %s has an address, and no event tells that it was ensured",
				service.Name)
	}
	return n, nil
}
