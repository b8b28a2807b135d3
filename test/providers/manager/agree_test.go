package manager_test

import (
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	cloudproviderapi "k8s.io/cloud-provider/api"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/test/internal/project"
)

// Cluster and cloud agree if they have the same nodes, routes and Services. Each side is described
// in sentences, from plain lists of the API server or of OpenStack. A sentence of only one side is
// a disagreement.

// disagreements are the sentences of only one side.
func (c *cluster) disagreements(
	services []corev1.Service, nodes []corev1.Node, cloud project.Inventory,
) (said []string) {
	wanted := slices.Concat(sayServices(services, nodes), sayNodes(nodes))
	found := slices.Concat(sayBalancers(cloud), sayServers(cloud, c.Network),
		sayRoutes(cloud, c.Router))
	count := map[string]int{}
	for _, sentence := range wanted {
		count[sentence]++
	}
	for _, sentence := range found {
		count[sentence]--
	}
	for _, sentence := range slices.Sorted(maps.Keys(count)) {
		switch n := count[sentence]; {
		case n > 0:
			said = append(said, "the cluster alone says: "+sentence)
		case n < 0:
			said = append(said, "the cloud alone says: "+sentence)
		}
	}
	return said
}

// sayServices describes the desired state of each Service.
func sayServices(services []corev1.Service, nodes []corev1.Node) (said []string) {
	for _, s := range services {
		if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			if servicehelpers.HasLBFinalizer(&s) || len(s.Status.LoadBalancer.Ingress) > 0 ||
				s.Annotations[annotationID]+s.Annotations[annotationAddress] != "" {
				said = append(said,
					fmt.Sprintf(
						"%s is no load balancer, and has the finalizers %v, the annotations %v and the status %+v", s.Name, s.Finalizers, s.Annotations, s.Status))
			}
			continue
		}
		said = append(said,
			fmt.Sprintf("%s has load balancer %s", s.Name, s.Annotations[annotationID]),
			fmt.Sprintf("%s is at %s", s.Name, s.Annotations[annotationAddress]))
		if in := s.Status.LoadBalancer.Ingress; len(in) != 1 ||
			in[0].IP != s.Annotations[annotationAddress] {
			said = append(said, fmt.Sprintf("%s has the status %+v", s.Name, in))
		}
		if s.Annotations[annotationInternal] == "true" {
			said = append(said, s.Name+" is internal")
		}
		for _, port := range s.Spec.Ports {
			said = append(said, sayPort(s, port)...)
			for _, n := range nodes {
				if isMember(s, n) {
					said = append(said,
						sayMember(s.Name, string(port.Protocol), int(port.Port), n.Name,
							internalIP(n), int(port.NodePort)))
				}
			}
		}
	}
	return said
}

// sayPort describes the desired listener, pool and health monitor of a port.
func sayPort(s corev1.Service, port corev1.ServicePort) []string {
	listener, pool, monitor := string(port.Protocol), string(port.Protocol), "nothing"
	if port.Protocol == corev1.ProtocolTCP {
		if s.Annotations[forwardedFor] == "true" {
			listener, pool = "HTTP", "HTTP"
		}
		if s.Annotations[proxyProtocol] == "v2" {
			pool = "PROXYV2"
		}
	}
	if s.Annotations[healthMonitor] == "true" {
		switch {
		case s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal:
			monitor = "HTTP"
		case port.Protocol == corev1.ProtocolUDP:
			monitor = "UDP-CONNECT"
		default:
			monitor = "TCP"
		}
	}
	from, connections, method, affinity := slices.Clone(s.Spec.LoadBalancerSourceRanges), "-1",
		"ROUND_ROBIN", ""
	if n := s.Annotations[connectionLimit]; n != "" {
		connections = n
	}
	if m := s.Annotations[algorithm]; m != "" {
		method = m
	}
	if s.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		affinity = "SOURCE_IP"
	}
	return []string{
		sayListener(s.Name, listener, int(port.Port), from, connections),
		sayPool(s.Name, string(port.Protocol), int(port.Port), pool, method, affinity, monitor),
	}
}

func sayListener(service, protocol string, port int, from []string, connections string) string {
	slices.Sort(from)
	if len(from) == 0 || slices.Equal(from, []string{"0.0.0.0/0"}) {
		from = []string{"all clients"}
	}
	return fmt.Sprintf("%s listens at %s %d for %v, with %s connections", service, protocol, port,
		from, connections)
}

func sayPool(
	service, transport string, port int, protocol, method, affinity, monitor string,
) string {
	return fmt.Sprintf("%s passes %s %d on by %s, %s, affinity %q, checked by %s", service,
		transport, port, protocol, method, affinity, monitor)
}

func sayMember(service, transport string, port int, node, address string, nodePort int) string {
	return fmt.Sprintf("%s passes %s %d on to %s at %s", service, transport, port, node,
		net.JoinHostPort(address, strconv.Itoa(nodePort)))
}

// isMember reports whether the node is a member of the Service's load balancer, by the rules of
// upstream's service controller (stableNodeSetPredicates) and of the provider.
func isMember(s corev1.Service, n corev1.Node) bool {
	if _, out := n.Labels[corev1.LabelNodeExcludeBalancers]; out || n.DeletionTimestamp != nil {
		return false
	}
	selector, err := labels.Parse(s.Annotations[nodeSelector])
	return err == nil && selector.Matches(labels.Set(n.Labels))
}

func internalIP(n corev1.Node) string {
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return "no address"
}

// sayNodes describes each node's data of its server, and the route to its pods.
func sayNodes(nodes []corev1.Node) (said []string) {
	for _, n := range nodes {
		state := "up"
		for _, taint := range n.Spec.Taints {
			switch taint.Key {
			case cloudproviderapi.TaintNodeShutdown:
				state = "down"
			case cloudproviderapi.TaintExternalCloudProvider:
				state = "not initialized"
			}
		}
		address := internalIP(n)
		said = append(said,
			sayNode(n.Name, n.Spec.ProviderID, address, n.Labels[corev1.LabelTopologyZone], state))
		for _, pods := range n.Spec.PodCIDRs {
			said = append(said, fmt.Sprintf("the way to %s is %s", pods, address),
				fmt.Sprintf("%s may send from %s", n.Name, pods))
		}
		if !slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == corev1.NodeNetworkUnavailable && c.Status == corev1.ConditionFalse
		}) {
			said = append(said, n.Name+" waits for its routes")
		}
	}
	return said
}

func sayNode(name, providerID, address, zone, state string) string {
	return fmt.Sprintf("%s is %s at %s in %s, %s", name, providerID, address, zone, state)
}

// sayServers describes the data that each server's node should have.
func sayServers(cloud project.Inventory, network string) (said []string) {
	states := map[string]string{"ACTIVE": "up", "SHUTOFF": "down"}
	for _, server := range cloud.Of("server") {
		name, address := project.Text(server, "name"), "no address"
		for _, port := range cloud.Of("port") {
			if project.Text(port, "device_id") != project.ID(server) ||
				project.Text(port, "network_id") != network {
				continue
			}
			address = project.Text(first(port, "fixed_ips"), "ip_address")
			for _, pair := range objects(port, "allowed_address_pairs") {
				said = append(said,
					fmt.Sprintf("%s may send from %s", name, project.Text(pair, "ip_address")))
			}
		}
		state := project.Text(server, "status")
		if known, is := states[state]; is {
			state = known
		}
		said = append(said,
			sayNode(name, "openstack:///"+project.ID(server), address,
				project.Text(server, "OS-EXT-AZ:availability_zone"), state))
	}
	return said
}

func sayRoutes(cloud project.Inventory, router string) (said []string) {
	for _, route := range objects(cloud["router "+router], "routes") {
		said = append(said,
			fmt.Sprintf("the way to %s is %s", project.Text(route, "destination"),
				project.Text(route, "nexthop")))
	}
	return said
}

// sayBalancers describes the load balancers with their Services and contents, and the objects
// without a Service.
func sayBalancers(cloud project.Inventory) (said []string) {
	services := map[string]string{} // by load balancer
	serving := map[string]bool{}    // floating IPs
	for _, lb := range cloud.Of("load balancer") {
		service := strings.TrimPrefix(project.Text(lb, "name"), "kube_service_kubernetes_default_")
		services[project.ID(lb)] = service
		said = append(said, fmt.Sprintf("%s has load balancer %s", service, project.ID(lb)))
		address := project.Text(lb, "vip_address")
		internal := true
		for _, ip := range cloud.Of("floating IP") {
			if project.Text(ip, "port_id") == project.Text(lb, "vip_port_id") {
				address, internal, serving[project.ID(ip)] = project.Text(ip,
					"floating_ip_address"), false, true
			}
		}
		said = append(said, fmt.Sprintf("%s is at %s", service, address))
		if internal {
			said = append(said, service+" is internal")
		}
	}
	for _, ip := range cloud.Of("floating IP") {
		if !serving[project.ID(ip)] {
			said = append(said,
				"floating IP "+project.Text(ip, "floating_ip_address")+" serves no Service")
		}
	}
	used := map[string]bool{} // pools
	for _, listener := range cloud.Of("listener") {
		service := services[project.ID(first(listener, "loadbalancers"))]
		id := project.Text(listener, "default_pool_id")
		used[id] = true
		said = append(said, sayContents(cloud, service, listener, cloud["pool "+id])...)
	}
	for _, pool := range cloud.Of("pool") {
		if !used[project.ID(pool)] {
			said = append(said, "no listener has pool "+project.Text(pool, "name"))
		}
	}
	for _, kind := range []string{"load balancer", "listener", "pool", "member", "health monitor"} {
		for _, o := range cloud.Of(kind) {
			if status := project.Text(o, "provisioning_status"); status != "ACTIVE" {
				said = append(said,
					fmt.Sprintf("%s %s is %s", kind, project.Text(o, "name"), status))
			}
		}
	}
	return said
}

// sayContents describes a listener with its pool.
func sayContents(
	cloud project.Inventory, service string, listener, pool project.Object,
) (said []string) {
	protocol, port, transport := project.Text(listener, "protocol"),
		number(listener, "protocol_port"), "TCP"
	if protocol == "UDP" {
		transport = "UDP"
	}
	var from []string
	ranges, _ := listener["allowed_cidrs"].([]any)
	for _, r := range ranges {
		from = append(from, fmt.Sprint(r))
	}
	said = append(said,
		sayListener(service, protocol, port, from,
			strconv.Itoa(number(listener, "connection_limit"))))
	persistence, _ := pool["session_persistence"].(project.Object)
	monitor := "nothing"
	if id := project.Text(pool, "healthmonitor_id"); id != "" {
		monitor = project.Text(cloud["health monitor "+id], "type")
	}
	said = append(said,
		sayPool(service, transport, port, project.Text(pool, "protocol"),
			project.Text(pool, "lb_algorithm"), project.Text(persistence, "type"), monitor))
	for _, reference := range objects(pool, "members") {
		m := cloud["member "+project.ID(reference)]
		said = append(said,
			sayMember(service, transport, port, project.Text(m, "name"), project.Text(m, "address"),
				number(m, "protocol_port")))
	}
	return said
}

// objects is a list of objects in an object.
func objects(o project.Object, key string) (all []project.Object) {
	list, _ := o[key].([]any)
	for _, item := range list {
		inner, _ := item.(project.Object)
		all = append(all, inner)
	}
	return all
}

// first is the first of them; nil if it is empty.
func first(o project.Object, key string) project.Object {
	if all := objects(o, key); len(all) > 0 {
		return all[0]
	}
	return nil
}

func number(o project.Object, key string) int {
	n, _ := o[key].(float64)
	return int(n)
}
