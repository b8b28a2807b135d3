package main

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// look reads the state of the cluster and of the clouds.
func (c *cluster) look(ctx context.Context) ([]table, error) {
	nodes, err := c.nodes(ctx)
	if err != nil {
		return nil, err
	}
	services, err := c.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	return []table{
		processTable(c.processes(), c.holder(ctx, leaseName), c.holder(ctx, hostLease)),
		nodeTable(nodes, c.routeTo),
		serviceTable(services.Items, c.backendOf),
	}, nil
}

func processTable(processes []*replica, leaders ...string) table {
	t := table{heading: []string{"PROCESS", "STATE", "PID", "PORT"}}
	for _, r := range processes {
		pid := ""
		if p := r.pid(); p != 0 {
			pid = strconv.Itoa(p)
		}
		t.rows = append(t.rows,
			[]string{r.name, r.state(slices.Contains(leaders, r.name)), pid, strconv.Itoa(r.port)})
	}
	return t
}

func nodeTable(nodes []corev1.Node, routeTo func(*corev1.Node) string) table {
	t := table{heading: []string{
		"NODE", "STATE", "PROVIDER ID", "TYPE", "ZONE", "ADDRESS",
		"ROUTE",
	}}
	for _, node := range nodes {
		t.rows = append(t.rows, []string{
			node.Name,
			nodeState(&node),
			node.Spec.ProviderID,
			node.Labels[corev1.LabelInstanceTypeStable],
			node.Labels[corev1.LabelTopologyZone],
			internalIP(&node),
			routeTo(&node),
		})
	}
	byName(t.rows)
	return t
}

func nodeState(node *corev1.Node) string {
	switch {
	case isTainted(node):
		return "tainted"
	case hasTaint(node, cloudproviderapi.TaintNodeShutdown):
		return "shut down"
	case !isReady(node):
		return "not ready"
	}
	return "ready"
}

// isTainted reports whether a node waits to be initialized.
func isTainted(node *corev1.Node) bool {
	return hasTaint(node, cloudproviderapi.TaintExternalCloudProvider)
}

func hasTaint(node *corev1.Node, key string) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
}

func isReady(node *corev1.Node) bool {
	return condition(node, corev1.NodeReady) == corev1.ConditionTrue
}

func condition(node *corev1.Node, kind corev1.NodeConditionType) corev1.ConditionStatus {
	for _, c := range node.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return ""
}

func internalIP(node *corev1.Node) string {
	for _, address := range node.Status.Addresses {
		if address.Type == corev1.NodeInternalIP {
			return address.Address
		}
	}
	return ""
}

// routeTo reads from the cloud of the node.
func (c *cluster) routeTo(node *corev1.Node) string {
	if strings.HasPrefix(node.Spec.ProviderID, openstack.Name+"://") {
		return c.openStack.routeTo(node)
	}
	return c.fake.routeTo(node)
}

// backend is a Service's load balancer in a cloud. The zero value means that it has no load
// balancer.
type backend struct {
	state   string
	members []string
}

// backendOf finds the load balancer in either cloud.
func (c *cluster) backendOf(service *corev1.Service) backend {
	if lb, ok := c.openStack.balancerOf(service); ok {
		return c.openStack.backend(lb)
	}
	for _, b := range c.fake.LoadBalancers() {
		if b.UID == service.UID {
			return backend{"fake", b.Members}
		}
	}
	return backend{}
}

// backend shows the members of the first pool. All pools have the same ones, except during a
// change.
func (o *openStack) backend(lb openstacktest.LoadBalancer) backend {
	b := backend{state: lb.ProvisioningStatus}
	if len(lb.Pools) > 0 {
		b.members = o.machineNames(memberAddresses(lb.Pools[0]))
	}
	return b
}

func serviceTable(services []corev1.Service, backendOf func(*corev1.Service) backend) table {
	t := table{heading: []string{"SERVICE", "ADDRESS", "LOAD BALANCER", "MEMBERS"}}
	for _, service := range services {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			continue
		}
		address := cmp.Or(ingressIP(&service), "pending")
		has := backendOf(&service)
		t.rows = append(t.rows,
			[]string{service.Name, address, has.state, strings.Join(has.members, " ")})
	}
	byName(t.rows)
	return t
}

func ingressIP(service *corev1.Service) string {
	for _, ingress := range service.Status.LoadBalancer.Ingress {
		return ingress.IP
	}
	return ""
}

func byName(rows [][]string) {
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
}
