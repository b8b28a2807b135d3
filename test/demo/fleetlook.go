package main

import (
	"context"
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// fleetView is the state of the management cluster, the clusters and OpenStack.
type fleetView struct {
	// leases are by name. A holder is empty if the Lease is free.
	leases map[string]fleetLease
	// services are by namespace, nodes by name, balancers by the UID of their Service.
	services  map[string][]corev1.Service
	nodes     map[string]corev1.Node
	balancers map[string][]openstacktest.LoadBalancer
	// floating are the floating IPs by port, servers the servers of OpenStack by provider ID.
	floating map[string]openstacktest.FloatingIP
	servers  map[string]openstacktest.Server
}

// fleetLease is the holder of a Lease, and the number of its transitions.
type fleetLease struct {
	holder      string
	transitions int32
}

func (w *fleetWorld) view(ctx context.Context) (fleetView, error) {
	v := fleetView{
		leases: map[string]fleetLease{}, services: map[string][]corev1.Service{},
		nodes: map[string]corev1.Node{}, balancers: map[string][]openstacktest.LoadBalancer{},
		floating: map[string]openstacktest.FloatingIP{},
		servers:  map[string]openstacktest.Server{},
	}
	leases, err := w.client.CoordinationV1().Leases(fleetNamespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, err
	}
	services, err := w.client.CoreV1().Services(metav1.NamespaceAll).List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, err
	}
	nodes, err := w.client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return v, err
	}
	for _, l := range leases.Items {
		v.leases[l.Name] = fleetLease{
			ptr.Deref(l.Spec.HolderIdentity, ""), ptr.Deref(l.Spec.LeaseTransitions, 0),
		}
	}
	for _, s := range services.Items {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			v.services[s.Namespace] = append(v.services[s.Namespace], s)
		}
	}
	for _, n := range nodes.Items {
		v.nodes[n.Name] = n
	}
	for _, lb := range w.cloud.LoadBalancers() {
		for _, tag := range lb.Tags {
			v.balancers[tag] = append(v.balancers[tag], lb)
		}
	}
	for _, ip := range w.cloud.FloatingIPs() {
		v.floating[ip.PortID] = ip
	}
	for _, s := range w.cloud.Servers() {
		v.servers["openstack:///"+s.ID] = s
	}
	return v, nil
}

// served returns why a cluster is not served, or nil. A served cluster has a replica that holds its
// Lease, a node with the provider ID of its machine, and for each Service one load balancer with a
// floating IP, in the project of the cluster.
func (v fleetView) served(m *member) error {
	if v.leases[m.lease()].holder == "" {
		return fmt.Errorf("%s has no leader", m.inFleet())
	}
	node := v.nodes[m.node()]
	server := v.servers[node.Spec.ProviderID]
	if server.Name != m.node() || server.ProjectID != m.project.id || isTainted(&node) {
		return fmt.Errorf("the node %s has the provider ID %q", m.node(), node.Spec.ProviderID)
	}
	for _, s := range v.services[m.name] {
		subject := fmt.Sprintf("Service %s of %s", s.Name, m.inFleet())
		balancers := v.balancers["fxccm-service="+string(s.UID)]
		if len(balancers) != 1 {
			return fmt.Errorf("%s has %d load balancers", subject, len(balancers))
		}
		lb := balancers[0]
		ip := v.floating[lb.VIPPortID]
		if ip.Address == "" || ip.Address != ingressIP(&s) {
			return fmt.Errorf("%s has the address %q, its load balancer %q", subject,
				ingressIP(&s), ip.Address)
		}
		if lb.ProjectID != m.project.id || ip.ProjectID != m.project.id {
			return fmt.Errorf("the load balancer of %s is in another project", subject)
		}
	}
	return nil
}

// count is the number of the clusters that a replica leads.
func (v fleetView) count(replica string, members []*member) (n int) {
	for _, m := range members {
		if v.leases[m.lease()].holder == replica {
			n++
		}
	}
	return n
}

// look shows the replicas, and the clusters by project.
func (w *fleetWorld) look(ctx context.Context) ([]table, error) {
	v, err := w.view(ctx)
	if err != nil {
		return nil, err
	}
	all := w.clusters()
	replicas := table{heading: []string{"REPLICA", "STATE", "PID", "CLUSTERS"}}
	for _, r := range w.all {
		pid, leads := "", v.count(r.name, all)
		if p := r.pid(); p != 0 {
			pid = strconv.Itoa(p)
		}
		replicas.rows = append(replicas.rows,
			[]string{r.name, r.state(leads > 0), pid, strconv.Itoa(leads)})
	}
	projects := table{heading: []string{"PROJECT", "CLUSTERS", "SERVED", "LOAD BALANCERS"}}
	for _, p := range w.projects {
		clusters, served, balancers := 0, 0, 0
		for _, m := range all {
			if m.project.id != p.id {
				continue
			}
			clusters++
			if v.served(m) == nil {
				served++
			}
			for _, s := range v.services[m.name] {
				balancers += len(v.balancers["fxccm-service="+string(s.UID)])
			}
		}
		projects.rows = append(projects.rows, []string{
			p.team, strconv.Itoa(clusters), strconv.Itoa(served), strconv.Itoa(balancers),
		})
	}
	return []table{replicas, projects}, nil
}
