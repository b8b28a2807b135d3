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

// look reads what there is to see in the cluster and in the cloud.
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
		callTable(c.openStack.callsTo),
	}, nil
}

func processTable(processes []*replica, leaders ...string) table {
	t := table{heading: []string{"PROCESS", "STATE", "PID", "PORT"}}
	for _, r := range processes {
		pid := ""
		if p := r.pid(); p != 0 {
			pid = strconv.Itoa(p)
		}
		t.rows = append(t.rows, []cell{{text: r.name}, r.state(slices.Contains(leaders, r.name)), {text: pid}, {text: strconv.Itoa(r.port)}})
	}
	return t
}

func nodeTable(nodes []corev1.Node, routeTo func(*corev1.Node) string) table {
	t := table{heading: []string{"NODE", "STATE", "PROVIDER ID", "TYPE", "ZONE", "ADDRESS", "ROUTE"}}
	for _, node := range nodes {
		t.rows = append(t.rows, []cell{
			{text: node.Name},
			nodeState(&node),
			{text: node.Spec.ProviderID},
			{text: node.Labels[corev1.LabelInstanceTypeStable]},
			{text: node.Labels[corev1.LabelTopologyZone]},
			{text: internalIP(&node)},
			{text: routeTo(&node)},
		})
	}
	byName(t.rows)
	return t
}

func nodeState(node *corev1.Node) cell {
	switch {
	case isTainted(node):
		return cell{"tainted", waiting}
	case hasTaint(node, cloudproviderapi.TaintNodeShutdown):
		return cell{"shut down", bad}
	case !isReady(node):
		return cell{"not ready", bad}
	}
	return cell{"ready", good}
}

// isTainted tells whether a node waits to be initialised.
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

// routeTo asks the cloud that the node is in.
func (c *cluster) routeTo(node *corev1.Node) string {
	if strings.HasPrefix(node.Spec.ProviderID, openstack.Name+"://") {
		return c.openStack.routeTo(node)
	}
	return c.fake.routeTo(node)
}

// backend is what a Service has in a cloud; the zero value is nothing.
type backend struct {
	state   cell
	members []string
}

// backendOf finds it in either cloud.
func (c *cluster) backendOf(service *corev1.Service) backend {
	if lb, ok := c.openStack.balancerOf(service); ok {
		return c.openStack.backend(lb)
	}
	for _, b := range c.fake.LoadBalancers() {
		if b.UID == service.UID {
			return backend{cell{"fake", good}, b.Members}
		}
	}
	return backend{}
}

// backend shows the members of the first pool: all pools have the same, but while they are changed.
func (o *openStack) backend(lb openstacktest.LoadBalancer) backend {
	b := backend{state: cell{lb.ProvisioningStatus, waiting}}
	switch lb.ProvisioningStatus {
	case openstacktest.StatusActive:
		b.state.mood = good
	case openstacktest.StatusError:
		b.state.mood = bad
	}
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
		address := cell{"pending", waiting}
		if ip := ingressIP(&service); ip != "" {
			address = cell{ip, good}
		}
		has := backendOf(&service)
		t.rows = append(t.rows, []cell{{text: service.Name}, address, has.state, {text: strings.Join(has.members, " ")}})
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

// callTable tells what OpenStack was asked for.
func callTable(callsTo func(service string) tally) table {
	t := table{heading: []string{"OPENSTACK", "CALLS", "OF WHICH"}, quiet: true}
	for _, service := range []string{
		openstacktest.ServiceIdentity, openstacktest.ServiceCompute, openstacktest.ServiceNetwork, openstacktest.ServiceLoadBalancer,
	} {
		if calls := callsTo(service); len(calls) > 0 {
			t.rows = append(t.rows, []cell{{text: service}, {text: strconv.Itoa(calls.total())}, {text: calls.String()}})
		}
	}
	return t
}

func byName(rows [][]cell) {
	slices.SortFunc(rows, func(a, b []cell) int { return cmp.Compare(a[0].text, b[0].text) })
}
