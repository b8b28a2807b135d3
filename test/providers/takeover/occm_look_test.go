package takeover_test

import (
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/test/internal/project"
)

// A deed is an action of OCCM, or an error that it would report again and again.
type deed struct {
	// kind is "create", "delete", "rewrite", or "fail" for an error that does not go away.
	kind string
	what string
}

func (d deed) String() string { return d.kind + " " + d.what }

// A look is the state that OCCM finds at its start, and its actions: for each Service its first
// EnsureLoadBalancer, and for the routes a pass of upstream's route controller.
type look struct {
	settings
	cloud project.Inventory
	nodes []*corev1.Node
	deeds []deed
}

// look returns OCCM's actions in its first pass.
func (o *occm) look(
	cloud project.Inventory, services []*corev1.Service, nodes []*corev1.Node,
) []deed {
	l := &look{settings: o.settings, cloud: cloud, nodes: nodes}
	for _, service := range services {
		l.service(service)
	}
	l.instances()
	l.routes(cloud["router "+o.Router])
	return l.deeds
}

func (l *look) would(kind, format string, arguments ...any) {
	l.deeds = append(l.deeds, deed{kind, fmt.Sprintf(format, arguments...)})
}

// service is ensureOctaviaLoadBalancer's order.
func (l *look) service(service *corev1.Service) {
	w := l.of(service)
	if !servicehelpers.HasLBFinalizer(service) {
		l.would("rewrite", "the finalizers of Service %s", service.Name)
	}
	lb, owner := l.loadBalancer(w)
	if lb == nil {
		return
	}
	l.listeners(w, lb, owner)
	address := l.floatingIP(w, lb, owner)
	if tags := texts(lb["tags"]); !slices.Contains(tags, w.name) {
		l.would("rewrite", "the tags %q of load balancer %q", tags, project.Text(lb, "name"))
	}
	l.annotations(w, lb, address)
	l.securityGroup(w)
}

// loadBalancer is found by the annotation, or else by its name, and renamed if it names
// another cluster (loadbalancer_rename.go, lbHasOldClusterName).
func (l *look) loadBalancer(w wish) (lb project.Object, owner bool) {
	id, named := w.service.Annotations[annotationID]
	if !named {
		found := slices.DeleteFunc(l.cloud.Of("load balancer"),
			func(lb project.Object) bool { return project.Text(lb, "name") != w.name })
		switch len(found) {
		case 0:
			l.would("create", "load balancer %q", w.name)
			return nil, false
		case 1:
			return found[0], true
		}
		l.would("fail", "there are %d load balancers %q", len(found), w.name)
		return nil, false
	}
	lb = l.cloud["load balancer "+id]
	if lb == nil {
		l.would("fail", "load balancer %s of Service %s does not exist", id, w.service.Name)
		return nil, false
	}
	name := project.Text(lb, "name")
	if cluster := regexp.MustCompile(`^kube_service_(.*)_[^_]+_[^_]+$`).FindStringSubmatch(
		name); cluster != nil && len(name) < 255 && cluster[1] != l.clusterName {
		l.would("rewrite", "the name of load balancer %q", name)
	}
	owner = name == w.name
	if !owner && w.internal {
		l.would("fail", "internal Service %s cannot share load balancer %q", w.service.Name, name)
	}
	if status := project.Text(lb, "provisioning_status"); status != "ACTIVE" {
		l.would("fail", "load balancer %q is %s", name, status)
	}
	return lb, owner
}

// listeners are matched by protocol and port (listenerKey). Listeners that are left and have the
// Service's tag go, and those without any tag if the load balancer is the Service's own
// (checkListenerPorts, deleteOctaviaListeners).
func (l *look) listeners(w wish, lb project.Object, owner bool) {
	there := map[string]project.Object{}
	for _, listener := range l.cloud.Of("listener") {
		if refersTo(listener["loadbalancers"], project.ID(lb)) {
			there[fmt.Sprint(listener["protocol"], " ", listener["protocol_port"])] = listener
		}
	}
	isOurs := func(listener project.Object) bool {
		tags := texts(listener["tags"])
		return slices.Contains(tags, w.name) || owner && len(tags) == 0
	}
	for i, port := range w.service.Spec.Ports {
		key := fmt.Sprint(w.listenerProtocol(port), " ", port.Port)
		listener := there[key]
		delete(there, key)
		switch {
		case listener == nil:
			l.would("create", "listener %s of load balancer %q", key, w.name)
			continue
		case !isOurs(listener):
			l.would("fail", "listener %s of load balancer %q is another's", key,
				project.Text(lb, "name"))
			continue
		}
		for _, change := range listenerChanges(w, listener) {
			l.would("rewrite", "%s of listener %q", change, project.Text(listener, "name"))
		}
		l.pool(w, i, port, listener)
	}
	for _, key := range slices.Sorted(maps.Keys(there)) {
		if isOurs(there[key]) {
			l.would("delete", "listener %q", project.Text(there[key], "name"))
		}
	}
}

// listenerChanges is what ensureOctaviaListener compares.
func listenerChanges(w wish, is project.Object) (changes []string) {
	differs := func(name string, is, want any) {
		if fmt.Sprint(is) != fmt.Sprint(want) {
			changes = append(changes, fmt.Sprintf("%s %v -> %v", name, is, want))
		}
	}
	if tags := texts(is["tags"]); !slices.Contains(tags, w.name) {
		changes = append(changes, fmt.Sprintf("the tags %q", tags))
	}
	differs("connection_limit", is["connection_limit"], w.connectionLimit)
	headers, _ := is["insert_headers"].(project.Object)
	differs("X-Forwarded-For", headers["X-Forwarded-For"] == "true", w.forwarded)
	for _, name := range slices.Sorted(maps.Keys(w.timeouts)) {
		differs(name, is[name], w.timeouts[name])
	}
	differs("allowed_cidrs", slices.Sorted(slices.Values(texts(is["allowed_cidrs"]))),
		slices.Sorted(slices.Values(w.cidrs)))
	differs("default_tls_container_ref", project.Text(is, "default_tls_container_ref"), "")
	return changes
}

// pool is the one that names the listener; it is made again if its protocol differs
// (ensureOctaviaPool).
func (l *look) pool(w wish, index int, port corev1.ServicePort, listener project.Object) {
	of := fmt.Sprintf("of listener %q", project.Text(listener, "name"))
	i := slices.IndexFunc(l.cloud.Of("pool"), func(p project.Object) bool {
		return refersTo(p["listeners"], project.ID(listener))
	})
	if i < 0 {
		l.would("create", "the pool %s", of)
		return
	}
	pool := l.cloud.Of("pool")[i]
	if is, want := project.Text(pool, "protocol"), w.poolProtocol(port); is != want {
		l.would("delete", "the pool %s: its protocol is %s, and not %s", of, is, want)
		return
	}
	if is := project.Text(pool, "lb_algorithm"); is != w.method {
		l.would("rewrite", "lb_algorithm %s -> %s of the pool %s", is, w.method, of)
	}
	if is, want := l.members(pool), w.memberKeys(port, l.nodes); !slices.Equal(is, want) {
		l.would("rewrite", "the members of the pool %s: %q -> %q", of, is, want)
	}
	l.monitor(w, index, port, pool, of)
}

// members are those of the pool as they are compared: name, address, port, monitor port.
func (l *look) members(pool project.Object) []string {
	var keys []string
	for _, id := range references(pool["members"]) {
		m := l.cloud["member "+id]
		monitorPort, _ := m["monitor_port"].(float64)
		keys = append(keys,
			fmt.Sprintf("%v-%v-%v-%v", m["name"], m["address"], m["protocol_port"], monitorPort))
	}
	return slices.Sorted(slices.Values(keys))
}

func (w wish) memberKeys(port corev1.ServicePort, nodes []*corev1.Node) []string {
	var keys []string
	for _, node := range nodes {
		if w.selects(node) {
			keys = append(keys,
				fmt.Sprintf("%s-%s-%d-%d", node.Name, addressOf(node), port.NodePort, w.healthPort))
		}
	}
	return slices.Sorted(slices.Values(keys))
}

// monitor is made again if its type differs, and renamed after the port's index
// (ensureOctaviaHealthMonitor).
func (l *look) monitor(w wish, index int, port corev1.ServicePort, pool project.Object, of string) {
	is := l.cloud["health monitor "+project.Text(pool, "healthmonitor_id")]
	switch {
	case is == nil && w.monitor == nil:
		return
	case is == nil:
		l.would("create", "the health monitor %s", of)
		return
	case w.monitor == nil:
		l.would("delete", "the health monitor %s", of)
		return
	case project.Text(is, "type") != w.monitorType(port):
		l.would("delete", "the health monitor %s: its type is %s, and not %s", of,
			project.Text(is, "type"), w.monitorType(port))
		return
	}
	for _, c := range []struct {
		name string
		want any
	}{
		{"name", part("monitor", index, w.name)},
		{"delay", w.monitor.delay},
		{"timeout", w.monitor.timeout},
		{"max_retries", w.monitor.retries},
		{"max_retries_down", w.monitor.retriesDown},
	} {
		if fmt.Sprint(is[c.name]) != fmt.Sprint(c.want) {
			l.would("rewrite", "%s %v -> %v of the health monitor %s", c.name, is[c.name], c.want,
				of)
		}
	}
}

// floatingIP is that of the load balancer's port, whoever made it; an internal Service has none
// (ensureFloatingIP). It returns the address that clients use.
func (l *look) floatingIP(w wish, lb project.Object, owner bool) (address string) {
	var floating project.Object
	for _, f := range l.cloud.Of("floating IP") {
		if project.Text(f, "port_id") == project.Text(lb, "vip_port_id") {
			floating = f
		}
	}
	address = project.Text(lb, "vip_address")
	switch {
	case floating != nil && w.internal && owner:
		l.would("delete", "floating IP %s, or detach it",
			project.Text(floating, "floating_ip_address"))
	case floating != nil:
		return project.Text(floating, "floating_ip_address")
	case !w.internal && owner:
		l.would("create", "a floating IP for load balancer %q", w.name)
	case !w.internal:
		l.would("fail", "Service %s shares load balancer %q, which has no floating IP",
			w.service.Name, project.Text(lb, "name"))
	}
	return address
}

// annotations are written if they differ, and the status by upstream's service controller.
func (l *look) annotations(w wish, lb project.Object, address string) {
	for name, want := range map[string]string{
		annotationID:      project.ID(lb),
		annotationAddress: address,
	} {
		if is := w.service.Annotations[name]; is != want {
			l.would("rewrite", "annotation %s %q -> %q of Service %s", name, is, want,
				w.service.Name)
		}
	}
	want := []corev1.LoadBalancerIngress{{IP: address, IPMode: new(corev1.LoadBalancerIPMode)}}
	*want[0].IPMode = w.mode()
	if is := w.service.Status.LoadBalancer.Ingress; !slices.EqualFunc(is, want,
		func(a, b corev1.LoadBalancerIngress) bool {
			return a.IP == b.IP && a.Hostname == b.Hostname && a.IPMode != nil &&
				*a.IPMode == *b.IPMode
		}) {
		l.would("rewrite", "the status %+v of Service %s", is, w.service.Name)
	}
}

// securityGroup is found by its name, has just the rules that are wanted, and is on the ports of
// all members (loadbalancer_sg.go).
func (l *look) securityGroup(w wish) {
	name := groupName(w.service)
	found := slices.DeleteFunc(l.cloud.Of("security group"),
		func(g project.Object) bool { return project.Text(g, "name") != name })
	switch {
	case len(found) > 1:
		l.would("fail", "there are %d security groups %q", len(found), name)
		return
	case len(found) == 0 && l.manageSecurityGroups:
		l.would("create", "security group %q", name)
		return
	case len(found) == 0:
		return
	case !l.manageSecurityGroups:
		l.would("delete", "security group %q", name)
		return
	}
	var is []string
	for _, r := range l.cloud.Of("security group rule") {
		if project.Text(r, "security_group_id") == project.ID(found[0]) {
			is = append(is, l.rule(r))
		}
	}
	for _, rule := range w.rules() {
		if !slices.Contains(is, rule) {
			l.would("create", "rule %q of security group %q", rule, name)
		}
	}
	for _, rule := range is {
		if !slices.Contains(w.rules(), rule) {
			l.would("delete", "rule %q of security group %q", rule, name)
		}
	}
	for _, node := range l.nodes {
		for _, port := range l.portsOf(node) {
			if w.selects(node) &&
				!slices.Contains(texts(port["security_groups"]), project.ID(found[0])) {
				l.would("rewrite", "the security groups of node %s: %q is not among them",
					node.Name, name)
			}
		}
	}
}

// rule is one as wish.rules has it, or all of it if it is no such.
func (l *look) rule(r project.Object) string {
	if r["direction"] == "ingress" && r["ethertype"] == "IPv4" &&
		r["remote_ip_prefix"] == l.nodeSubnetCIDR && r["port_range_min"] == r["port_range_max"] {
		return strings.ToLower(fmt.Sprintf("%v %v", r["protocol"], r["port_range_min"]))
	}
	return fmt.Sprint(r)
}

// portsOf are those of the node's server that have the address of its members.
func (l *look) portsOf(node *corev1.Node) []project.Object {
	server := strings.TrimPrefix(node.Spec.ProviderID, "openstack:///")
	return slices.DeleteFunc(l.cloud.Of("port"), func(p project.Object) bool {
		return project.Text(p, "device_id") != server ||
			!slices.Contains(addresses(p), addressOf(node))
	})
}

// instances are found by provider IDs of just one form (instances.go, instanceIDFromProviderID). A
// node without one is initialized again.
func (l *look) instances() {
	for _, node := range l.nodes {
		id := regexp.MustCompile(`^openstack:///([^/]+)$`).FindStringSubmatch(node.Spec.ProviderID)
		if id == nil || l.cloud["server "+id[1]] == nil {
			l.would("fail", "node %s with the provider ID %q has no server", node.Name,
				node.Spec.ProviderID)
		}
	}
}

// routes compares the routes of the router. Upstream's controller (controllers/route) deletes
// routes within the cluster's CIDR that lead to no node with that pod CIDR, and creates missing
// routes. The pair of the port is created with the route.
func (l *look) routes(router project.Object) {
	missing := map[string]*corev1.Node{}
	for _, node := range l.nodes {
		missing[node.Spec.PodCIDR+" via "+addressOf(node)] = node
	}
	listed, _ := router["routes"].([]any)
	for _, r := range listed {
		route, _ := r.(project.Object)
		text := project.Text(route, "destination") + " via " + project.Text(route, "nexthop")
		if node := missing[text]; node != nil {
			delete(missing, text)
			if !slices.ContainsFunc(l.portsOf(node), func(p project.Object) bool {
				return slices.Contains(pairs(p), node.Spec.PodCIDR)
			}) {
				l.would("fail",
					"route %s leads to a port that may not send from there, and OCCM does not look",
					text)
			}
			continue
		}
		if destination, err := netip.ParsePrefix(project.Text(route, "destination")); err == nil &&
			clusterCIDR.Overlaps(destination) {
			l.would("delete", "route %s", text)
		}
	}
	for _, text := range slices.Sorted(maps.Keys(missing)) {
		l.would("create", "route %s", text)
	}
}

// references are the ids in a list of objects.
func references(list any) (ids []string) {
	items, _ := list.([]any)
	for _, item := range items {
		o, _ := item.(project.Object)
		ids = append(ids, project.ID(o))
	}
	return ids
}

func refersTo(list any, id string) bool { return slices.Contains(references(list), id) }

// addresses are those of a port.
func addresses(port project.Object) (found []string) {
	ips, _ := port["fixed_ips"].([]any)
	for _, ip := range ips {
		o, _ := ip.(project.Object)
		found = append(found, project.Text(o, "ip_address"))
	}
	return found
}

// pairs are what a port may send from beside its own addresses.
func pairs(port project.Object) (found []string) {
	list, _ := port["allowed_address_pairs"].([]any)
	for _, pair := range list {
		o, _ := pair.(project.Object)
		found = append(found, project.Text(o, "ip_address"))
	}
	return found
}
