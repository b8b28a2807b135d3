//go:build linux

package invariants_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// creators is the number of objects that a test creates in parallel.
const creators = 8

// addWork creates new Nodes, whose machines exist in the cloud, and Services. All Nodes have a
// range of pod addresses.
func (w *world) addWork(t *testing.T, nodes, services int) {
	t.Helper()
	var work []func(context.Context) error
	var machines []fake.Instance
	for range nodes {
		i := len(w.nodes)
		name := fmt.Sprintf("node-%04d", i)
		w.nodes = append(w.nodes, name)
		machines = append(machines, fake.Instance{Name: name})
		// 1024 ranges of 64 addresses.
		node := ccmtest.TaintedNode(name,
			ccmtest.NodePodCIDRs(fmt.Sprintf("10.200.%d.%d/26", i/4, i%4*64)))
		work = append(work, func(ctx context.Context) error {
			_, err := w.admin.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
			return err
		})
	}
	for range services {
		name := fmt.Sprintf("service-%04d", len(w.services))
		w.services = append(w.services, name)
		service := ccmtest.LoadBalancerService(name)
		work = append(work, func(ctx context.Context) error {
			_, err := w.admin.CoreV1().Services(service.Namespace).Create(ctx, service,
				metav1.CreateOptions{})
			return err
		})
	}
	if err := w.cloud.AddInstances(machines...); err != nil {
		t.Fatal(err)
	}
	if err := atOnce(t.Context(), creators, work); err != nil {
		t.Fatal(err)
	}
}

// atOnce does all of the work, width pieces at a time.
func atOnce(ctx context.Context, width int, work []func(context.Context) error) error {
	errs := make([]error, len(work))
	next := make(chan int)
	var workers sync.WaitGroup
	for range width {
		workers.Go(func() {
			for i := range next {
				errs[i] = work[i](ctx)
			}
		})
	}
	for i := range work {
		next <- i
	}
	close(next)
	workers.Wait()
	return errors.Join(errs...)
}

// backlog is the remaining work.
type backlog struct {
	nodes, services int
	// example describes one piece of it.
	example error
}

func (b backlog) empty() bool { return b.nodes == 0 && b.services == 0 }

func (b *backlog) node(format string, args ...any) {
	b.nodes++
	b.example = fmt.Errorf(format, args...)
}

func (b *backlog) service(format string, args ...any) {
	b.services++
	b.example = fmt.Errorf(format, args...)
}

// backlog compares the cluster and the cloud with the work of addWork.
func (w *world) backlog(ctx context.Context) (backlog, error) {
	var left backlog
	if err := w.nodeBacklog(ctx, &left); err != nil {
		return left, err
	}
	return left, w.serviceBacklog(ctx, &left)
}

func (w *world) nodeBacklog(ctx context.Context, left *backlog) error {
	list, err := w.admin.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	routed := map[string]string{}
	for _, r := range w.cloud.Routes() {
		routed[r.TargetNode] = r.DestinationCIDR
	}
	if len(list.Items) != len(w.nodes) {
		left.node("%d nodes of %d exist", len(list.Items), len(w.nodes))
	}
	for _, n := range list.Items {
		switch {
		case slices.ContainsFunc(n.Spec.Taints, func(taint corev1.Taint) bool {
			return taint.Key == cloudproviderapi.TaintExternalCloudProvider
		}):
			left.node("node %s bears the taint %s", n.Name,
				cloudproviderapi.TaintExternalCloudProvider)
		case n.Spec.ProviderID == "":
			left.node("node %s has no provider ID", n.Name)
		case !slices.ContainsFunc(n.Status.Addresses,
			func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }):
			left.node("node %s has no address", n.Name)
		case routed[n.Name] != n.Spec.PodCIDR:
			left.node("node %s has the route %q, not %q", n.Name, routed[n.Name], n.Spec.PodCIDR)
		case !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
		}):
			left.node("node %s has no condition for its route", n.Name)
		}
	}
	return nil
}

func (w *world) serviceBacklog(ctx context.Context, left *backlog) error {
	list, err := w.admin.CoreV1().Services(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	made := map[string]fake.Balancer{}
	for _, b := range w.cloud.LoadBalancers() {
		made[string(b.UID)] = b
	}
	wanted := 0
	for _, s := range list.Items {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		wanted++
		b, ok := made[string(s.UID)]
		switch ingress := s.Status.LoadBalancer.Ingress; {
		case !ok:
			left.service("service %s has no load balancer", s.Name)
		case len(ingress) != 1 || ingress[0].IP != b.Ingress[0]:
			left.service("service %s has the addresses %v, not %v", s.Name, ingress, b.Ingress)
		case len(b.Members) != len(w.nodes):
			left.service("the load balancer of service %s has %d members of %d", s.Name,
				len(b.Members), len(w.nodes))
		}
	}
	if wanted != len(w.services) {
		left.service("%d services of %d exist", wanted, len(w.services))
	}
	return nil
}

// awaitConvergence waits until there is no backlog.
func (w *world) awaitConvergence(t *testing.T) {
	t.Helper()
	replica.Eventually(t, "all nodes are initialized and all Services have their load balancer",
		func() error {
			left, err := w.backlog(t.Context())
			if err == nil && !left.empty() {
				err = fmt.Errorf("%d nodes and %d Services are left: %w", left.nodes, left.services,
					left.example)
			}
			return err
		})
}

// wantNothingMadeTwice is for a world in which no Service and no Node was deleted: each must have
// one load balancer or one route, which is still the first one. Upstream requests a load balancer
// several times: once in each term, and again in a term that could not update its members.
func (w *world) wantNothingMadeTwice(t *testing.T) {
	t.Helper()
	balancers := w.cloud.LoadBalancers()
	if len(balancers) != len(w.services) {
		t.Errorf("%d load balancers for %d Services", len(balancers), len(w.services))
	}
	owner := map[string]string{}
	for _, b := range balancers {
		for _, key := range []string{"service " + b.Service, "address " + b.Ingress[0]} {
			if other, taken := owner[key]; taken {
				t.Errorf("two load balancers, %s and %s, have the %s", other, b.Name, key)
			}
			owner[key] = b.Name
		}
	}
	// The cloud keeps an object until it is deleted, so an object that was never deleted was
	// created once.
	for _, method := range []fake.Method{fake.EnsureLoadBalancerDeleted, fake.DeleteRoute} {
		for _, call := range w.cloud.Calls(fake.CallFilter{Method: method}.Matches) {
			t.Errorf("%s deleted an object that exists in the cluster: %s of %s", call.Caller,
				method, call.Object)
		}
	}
	routes := map[string]string{}
	for _, call := range w.cloud.Calls(
		fake.CallFilter{Method: fake.CreateRoute, Finished: true}.Matches) {
		if call.Err != "" {
			continue
		}
		if other, made := routes[call.Object]; made {
			t.Errorf("the route to %s was made by %s and again by %s", call.Object, other,
				call.Caller)
		}
		routes[call.Object] = call.Caller
	}
}
