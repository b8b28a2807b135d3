package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
)

// A step does something and waits for what should come of it.
type step struct {
	name string
	// limit is how long it may take on a machine that has much else to do.
	limit time.Duration
	// do returns what was seen.
	do func(ctx context.Context, c *cluster) (seen string, err error)
}

const (
	nodeCount = 5
	lostNode  = "node-5"
	lateNode  = "node-6"

	// handOverLimit is less than the lease lasts: a stop that did not release it would take longer.
	handOverLimit = 10 * time.Second
)

func serviceNames() []string { return []string{"api", "shop", "www"} }

// preparation is what the rest runs on.
func preparation() []step {
	return []step{
		{"a control plane starts", 2 * time.Minute, prepareControlPlane},
		{"a cloud is served", 10 * time.Second, prepareCloud},
	}
}

// story is what the demo shows.
func story() []step {
	return []step{
		{"two replicas start, one leads", time.Minute, startReplicas},
		{"nodes join and are initialised", time.Minute, joinNodes},
		{"Services get load balancers", time.Minute, createServices},
		{"nodes get routes to their pods", time.Minute, awaitRoutes},
		{"a machine vanishes, its node goes", time.Minute, loseMachine},
		{"the leader is stopped, the other takes over", time.Minute, stopLeader},
		{"the new leader works", time.Minute, workAgain},
		{"the stopped replica comes back", time.Minute, startStopped},
		{"both replicas stop in order", time.Minute, endReplicas},
		{"a host with it inside takes their place", time.Minute, startHost},
		{"the host loses its lease and stands by", time.Minute, takeLease},
		{"the host leads again", time.Minute, giveLeaseBack},
		{"nothing was forbidden, nobody overlapped", 30 * time.Second, lookBack},
	}
}

func prepareControlPlane(ctx context.Context, c *cluster) (string, error) {
	if err := c.startControlPlane(ctx); err != nil {
		return "", err
	}
	version, err := c.client.Discovery().ServerVersion()
	if err != nil {
		return "", fmt.Errorf("ask the API server for its version: %w", err)
	}
	return fmt.Sprintf("Kubernetes %s at %s", version.GitVersion, c.controlPlane.RESTConfig().Host), nil
}

func prepareCloud(_ context.Context, c *cluster) (string, error) {
	if err := c.serveCloud(); err != nil {
		return "", err
	}
	for i := range nodeCount {
		if err := c.addMachine(nodeName(i + 1)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d machines at %s, a call takes %s", nodeCount, c.cloudURL, cloudLatency), nil
}

func nodeName(i int) string { return fmt.Sprintf("node-%d", i) }

// addMachine puts machines into the zones in turn.
func (c *cluster) addMachine(name string) error {
	zones := []string{"eu-a", "eu-b", "eu-c"}
	return c.cloud.AddInstances(fake.Instance{Name: name, Zone: zones[len(c.cloud.Instances())%len(zones)], Type: "m1.large"})
}

func startReplicas(ctx context.Context, c *cluster) (string, error) {
	if err := c.startReplicas(); err != nil {
		return "", err
	}
	var leader, other *replica
	err := c.until(ctx, func(ctx context.Context) (err error) {
		if leader, other, err = c.leaderAndOther(ctx); err != nil {
			return err
		}
		return errors.Join(leader.ready(ctx), other.ready(ctx))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s leads, %s stands by, both are ready", leader.name, other.name), nil
}

func joinNodes(ctx context.Context, c *cluster) (string, error) {
	for i := range nodeCount {
		if err := c.join(ctx, nodeName(i+1), i+1); err != nil {
			return "", err
		}
		if err := pause(ctx, 200*time.Millisecond); err != nil { // as machines do: one after the other
			return "", err
		}
	}
	for i := range nodeCount {
		if err := c.awaitInitialised(ctx, nodeName(i+1)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d of %d have lost the taint and have provider ID, zone and addresses", nodeCount, nodeCount), nil
}

// join registers a node as a kubelet with --cloud-provider=external does. Its pods' addresses come from the
// kube-controller-manager in a real cluster.
func (c *cluster) join(ctx context.Context, name string, number int) error {
	node := ccmtest.TaintedNode(name, ccmtest.NodePodCIDRs(fmt.Sprintf("10.200.%d.0/24", number)))
	if _, err := c.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return fmt.Errorf("create Node %s: %w", name, err)
	}
	return nil
}

// awaitInitialised waits until a node has all that the cloud knows of it.
func (c *cluster) awaitInitialised(ctx context.Context, name string) error {
	return c.until(ctx, func(ctx context.Context) error {
		node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		machine, ok := c.cloud.Instance(name)
		if !ok {
			return fmt.Errorf("the cloud has no machine %s", name)
		}
		return errors.Join(
			expect(name+"'s taint", isTainted(node), false),
			expect(name+"'s provider ID", node.Spec.ProviderID, machine.ProviderID),
			expect(name+"'s zone", node.Labels[corev1.LabelTopologyZone], machine.Zone),
			expect(name+"'s region", node.Labels[corev1.LabelTopologyRegion], machine.Region),
			expect(name+"'s instance type", node.Labels[corev1.LabelInstanceTypeStable], machine.Type),
			expectNot(name+"'s address", internalIP(node), ""),
		)
	})
}

func expect[T comparable](what string, got, want T) error {
	if got != want {
		return fmt.Errorf("%s is %v, want %v", what, got, want)
	}
	return nil
}

func expectNot[T comparable](what string, got, not T) error {
	if got == not {
		return fmt.Errorf("%s is %v", what, got)
	}
	return nil
}

func createServices(ctx context.Context, c *cluster) (string, error) {
	for _, name := range serviceNames() {
		if err := c.createService(ctx, name); err != nil {
			return "", err
		}
	}
	var seen []string
	for _, name := range serviceNames() {
		address, err := c.awaitAddress(ctx, name)
		if err != nil {
			return "", err
		}
		seen = append(seen, name+" "+address)
	}
	return strings.Join(seen, ", "), nil
}

func (c *cluster) createService(ctx context.Context, name string) error {
	_, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, ccmtest.LoadBalancerService(name), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create Service %s: %w", name, err)
	}
	return nil
}

// awaitAddress waits until a Service has the address of the load balancer in the cloud, which leads to all nodes.
func (c *cluster) awaitAddress(ctx context.Context, name string) (address string, err error) {
	err = c.until(ctx, func(ctx context.Context) error {
		service, err := c.client.CoreV1().Services(metav1.NamespaceDefault).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		balancer, ok := c.cloud.LoadBalancer(service.Namespace + "/" + name)
		if !ok {
			return fmt.Errorf("the cloud has no load balancer of Service %s", name)
		}
		address = ingressIP(service)
		return errors.Join(
			expect("the address of Service "+name, address, balancer.Ingress[0]),
			expect("the number of members of Service "+name, len(balancer.Members), len(nodes.Items)),
		)
	})
	return address, err
}

func awaitRoutes(ctx context.Context, c *cluster) (string, error) {
	err := c.until(ctx, func(ctx context.Context) error {
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if err := errors.Join(
				expect("the route of "+node.Name, routeTo(c.cloud.Routes(), node.Name), node.Spec.PodCIDR),
				expect("condition NetworkUnavailable of "+node.Name, condition(&node, corev1.NodeNetworkUnavailable), corev1.ConditionFalse),
			); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%d routes, and each node's NetworkUnavailable is False", len(c.cloud.Routes())), nil
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

// loseMachine takes a machine away. What a cluster sees of that at first is a kubelet that has gone silent.
func loseMachine(ctx context.Context, c *cluster) (string, error) {
	if err := c.cloud.RemoveInstance(lostNode); err != nil {
		return "", err
	}
	if err := c.silence(ctx, lostNode); err != nil {
		return "", err
	}
	begun := time.Now()
	err := c.until(ctx, func(ctx context.Context) error {
		nodes, err := c.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, node := range nodes.Items {
			if node.Name == lostNode {
				return fmt.Errorf("the node %s is still there", lostNode)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	deleted := time.Since(begun)
	err = c.until(ctx, func(context.Context) error {
		if route := routeTo(c.cloud.Routes(), lostNode); route != "" {
			return fmt.Errorf("there still is a route %s to %s", route, lostNode)
		}
		for _, b := range c.cloud.LoadBalancers() {
			if slices.Contains(b.Members, lostNode) {
				return fmt.Errorf("the load balancer of %s still has the member %s", b.Service, lostNode)
			}
		}
		return nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s was deleted after %.1f s, then its route and its place in the load balancers", lostNode, deleted.Seconds()), nil
}

// silence is what the node controller of the kube-controller-manager says of a kubelet that it does not hear from.
func (c *cluster) silence(ctx context.Context, name string) error {
	node, err := c.client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err == nil {
		ccmtest.NodeNotReady()(node)
		_, err = c.client.CoreV1().Nodes().UpdateStatus(ctx, node, metav1.UpdateOptions{})
	}
	if err != nil {
		return fmt.Errorf("set Node %s not ready: %w", name, err)
	}
	return nil
}

func stopLeader(ctx context.Context, c *cluster) (string, error) {
	leader, other, err := c.leaderAndOther(ctx)
	if err != nil {
		return "", err
	}
	type end struct {
		code int
		err  error
	}
	ended := make(chan end, 1)
	begun := time.Now()
	go func() {
		code, err := leader.stop()
		ended <- end{code, err}
	}()
	err = c.until(ctx, func(ctx context.Context) error {
		return expect("the holder of the lease", c.holder(ctx, leaseName), other.name)
	})
	took := time.Since(begun)
	last := <-ended // also when nobody took over: stop has a limit of its own
	if err := errors.Join(err, last.err); err != nil {
		return "", err
	}
	if err := errors.Join(
		expect("the exit code of "+leader.name, last.code, 0),
		c.until(ctx, other.ready),
	); err != nil {
		return "", err
	}
	if took > handOverLimit {
		return "", fmt.Errorf("%s took over after %.1f s, which is not a hand-over but a lease that expired", other.name, took.Seconds())
	}
	return fmt.Sprintf("%s leads %.1f s after the SIGTERM, which %s has drained in; that one ended with exit code %d",
		other.name, took.Seconds(), leader.name, last.code), nil
}

func workAgain(ctx context.Context, c *cluster) (string, error) {
	if err := c.addMachine(lateNode); err != nil {
		return "", err
	}
	if err := c.join(ctx, lateNode, nodeCount+1); err != nil {
		return "", err
	}
	if err := c.createService(ctx, "blog"); err != nil {
		return "", err
	}
	if err := c.awaitInitialised(ctx, lateNode); err != nil {
		return "", err
	}
	address, err := c.awaitAddress(ctx, "blog")
	if err != nil {
		return "", err
	}
	if _, err := awaitRoutes(ctx, c); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s is initialised and has its route, Service blog has %s", lateNode, address), nil
}

func startStopped(ctx context.Context, c *cluster) (string, error) {
	leader, other, err := c.leaderAndOther(ctx)
	if err != nil {
		return "", err
	}
	if err := other.start(); err != nil {
		return "", err
	}
	err = c.until(ctx, func(ctx context.Context) error {
		return errors.Join(other.ready(ctx), expect("the holder of the lease", c.holder(ctx, leaseName), leader.name))
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("%s stands by and is ready, %s still leads", other.name, leader.name), nil
}

// lookBack asks the records of the API server and of the cloud what nobody could see.
func lookBack(_ context.Context, c *cluster) (string, error) {
	requests := 0
	for _, account := range []string{leaseName, hostAccount} {
		user := controlplane.ByUser(controlplane.ServiceAccountUser(metav1.NamespaceSystem, account))
		all, err := c.controlPlane.Audit().All(user)
		if err != nil {
			return "", err
		}
		if len(all) == 0 {
			return "", fmt.Errorf("the audit log has no request of %s: the processes were not who they should be", account)
		}
		requests += len(all)
		denied, err := c.controlPlane.Audit().All(user, controlplane.Denied())
		if err != nil {
			return "", err
		}
		if len(denied) > 0 {
			record := denied[0]
			return "", fmt.Errorf("%d requests of %s were forbidden by the rules in rbac.yaml, such as: %s %s %s", len(denied), account, record.Verb, record.ResourcePath(), record.Name)
		}
	}
	if overlaps := c.cloud.Overlaps(); len(overlaps) > 0 {
		return "", fmt.Errorf("two terms changed the cloud at the same time %d times, such as: %+v", len(overlaps), overlaps[0])
	}
	return fmt.Sprintf("%d requests to the API server under the rules of rbac.yaml, %d calls to the cloud", requests, len(c.cloud.Calls())), nil
}

// ending is how a check ends; a person sees it only if it goes wrong.
func ending() []step {
	return []step{
		{"the host stops in order", time.Minute, endHost},
		{"nothing is left", time.Minute, endAll},
	}
}

func endReplicas(ctx context.Context, c *cluster) (string, error) {
	if err := stopProcesses(c.replicas...); err != nil {
		return "", err
	}
	if holder := c.holder(ctx, leaseName); holder != "" {
		return "", fmt.Errorf("the lease still names %s", holder)
	}
	return "exit code 0 twice, the lease names nobody", nil
}

func endAll(ctx context.Context, c *cluster) (string, error) {
	pids := []int{c.controlPlane.APIServerPID(), c.controlPlane.EtcdPID()}
	if err := c.stop(ctx, false); err != nil {
		return "", err
	}
	for _, pid := range pids {
		if process, err := os.FindProcess(pid); err == nil && process.Signal(syscall.Signal(0)) == nil {
			return "", fmt.Errorf("the process %d of the control plane still runs", pid)
		}
	}
	if _, err := os.Stat(c.dir); !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the folder %s is still there", c.dir)
	}
	return "no process and no file", nil
}

// pause waits, or returns why ctx has ended.
func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
