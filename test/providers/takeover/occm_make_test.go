package takeover_test

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// occm creates the objects of openstack-cloud-controller-manager in a project and in the cluster,
// and compares them like it.
type occm struct {
	*project.Project
	settings
	t       *testing.T
	cluster *suite.Suite
}

// in is occm for a subtest.
func (o *occm) in(t *testing.T) *occm {
	other := *o
	other.Project, other.t = o.Project.In(t), t
	return &other
}

// node makes the node of a server as it is when it has been initialized.
//
// The provider ID has no region unless OS_CCM_REGIONAL asks for it (instances.go, makeInstanceID).
// Upstream's node controller writes type, zone and region as labels, the old ones too, and takes
// the taint away; the kubelet's Hostname is added to the addresses of the cloud. Its route
// controller says that the network is there.
func (o *occm) node(s project.Server, zone, podCIDR string, labels map[string]string) *corev1.Node {
	region := o.Config().Global.Region
	options := []ccmtest.NodeOption{
		ccmtest.NodeProviderID("openstack:///" + s.ID),
		ccmtest.NodePodCIDRs(podCIDR),
	}
	for name, value := range map[string]string{
		corev1.LabelInstanceTypeStable: o.FlavorName, corev1.LabelInstanceType: o.FlavorName,
		corev1.LabelTopologyZone: zone, corev1.LabelFailureDomainBetaZone: zone,
		corev1.LabelTopologyRegion: region, corev1.LabelFailureDomainBetaRegion: region,
	} {
		options = append(options, ccmtest.NodeLabel(name, value))
	}
	for name, value := range labels {
		options = append(options, ccmtest.NodeLabel(name, value))
	}
	node := ccmtest.ReadyNode(s.Name, options...)
	node.Status.Addresses = []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: s.Addresses[4]}, {Type: corev1.NodeHostName, Address: s.Name},
	}
	node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
		Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "RouteCreated",
		Message:            "RouteController created a route",
		LastTransitionTime: metav1.Now(), LastHeartbeatTime: metav1.Now(),
	})
	return ccmtest.CreateNode(o.t, o.cluster.Admin, node)
}

// route makes the route to a node's pods: in the router, and in the port's allowed address pairs,
// of which Neutron fills in the MAC address (routes.go, CreateRoute).
func (o *occm) route(s project.Server, podCIDR string) {
	o.t.Helper()
	o.User().Must(http.MethodPut, project.Network, "/routers/"+o.Router+"/add_extraroutes",
		project.Object{
			"router": project.Object{"routes": []project.Object{{
				"destination": podCIDR,
				"nexthop":     s.Addresses[4],
			}}},
		})
	o.User().Update(project.Network, "/ports/"+s.Port, "port",
		project.Object{"allowed_address_pairs": []project.Object{{"ip_address": podCIDR}}})
}

const leaseName = "cloud-controller-manager"

// created is the Service as its user has written it. Upstream's service controller gives it the
// finalizer before anything else is done.
func (o *occm) created(name string, options ...ccmtest.ServiceOption) *corev1.Service {
	o.t.Helper()
	service := ccmtest.LoadBalancerService(name, options...)
	service.Finalizers = append(service.Finalizers, servicehelpers.LoadBalancerCleanupFinalizer)
	return ccmtest.CreateService(o.t, o.cluster.Admin, service)
}

// serve makes a load balancer for the Service, and what belongs to it, and returns its id and the
// address that clients use.
func (o *occm) serve(service *corev1.Service, nodes []*corev1.Node) (id, address string) {
	o.t.Helper()
	w := o.of(service)
	lb := o.User().Create(project.LoadBalancer, "/lbaas/loadbalancers", "loadbalancer",
		o.loadBalancer(w, nodes))
	id, address = project.ID(lb), project.Text(lb, "vip_address")
	o.WaitBalancer(id)
	if !w.internal {
		address = o.floatingIP(w, project.Text(lb, "vip_port_id"))
	}
	return id, address
}

// loadBalancer is the body of the one request that makes a load balancer with all that is in it
// (createFullyPopulatedOctaviaLoadBalancer). OCCM tags load balancers and listeners, and nothing
// else.
func (o *occm) loadBalancer(w wish, nodes []*corev1.Node) project.Object {
	var listeners []project.Object
	for i, port := range w.service.Spec.Ports {
		pool := w.pool(i, port, w.name)
		pool["members"] = w.members(port, nodes)
		if w.monitor != nil {
			pool["healthmonitor"] = w.healthMonitor(i, port, w.name)
		}
		listener := w.listener(i, port, w.name)
		listener["default_pool"] = pool
		listeners = append(listeners, listener)
	}
	return project.Object{
		"name": w.name, "description": o.description(w.service), "provider": "amphora",
		"tags":          []string{w.name},
		"vip_subnet_id": w.vipSubnet, "listeners": listeners,
	}
}

// listener is buildListenerCreateOpt's.
func (w wish) listener(index int, port corev1.ServicePort, loadBalancer string) project.Object {
	l := project.Object{
		"name": part("listener", index, loadBalancer), "protocol": w.listenerProtocol(port),
		"protocol_port":    port.Port,
		"connection_limit": w.connectionLimit, "tags": []string{w.name}, "allowed_cidrs": w.cidrs,
	}
	for name, milliseconds := range w.timeouts {
		l[name] = milliseconds
	}
	if w.forwarded {
		l["insert_headers"] = project.Object{"X-Forwarded-For": "true"}
	}
	return l
}

// pool is buildPoolCreateOpt's.
func (w wish) pool(index int, port corev1.ServicePort, loadBalancer string) project.Object {
	p := project.Object{
		"name": part("pool", index, loadBalancer), "protocol": w.poolProtocol(port),
		"lb_algorithm": w.method,
	}
	if w.persistence != "" {
		p["session_persistence"] = project.Object{"type": w.persistence}
	}
	return p
}

// members are buildBatchUpdateMemberOpts': each bears its node's name, and names its subnet, also
// if that is the load balancer's.
func (w wish) members(port corev1.ServicePort, nodes []*corev1.Node) []project.Object {
	members := []project.Object{}
	for _, node := range nodes {
		if !w.selects(node) {
			continue
		}
		m := project.Object{
			"name": node.Name, "address": addressOf(node),
			"protocol_port": port.NodePort, "subnet_id": w.memberSubnet,
		}
		if w.healthPort > 0 {
			m["monitor_port"] = w.healthPort
		}
		members = append(members, m)
	}
	return members
}

// healthMonitor is buildMonitorCreateOpts'.
func (w wish) healthMonitor(
	index int, port corev1.ServicePort, loadBalancer string,
) project.Object {
	m := project.Object{
		"name": part("monitor", index, loadBalancer), "type": w.monitorType(port),
		"delay": w.monitor.delay, "timeout": w.monitor.timeout,
		"max_retries": w.monitor.retries, "max_retries_down": w.monitor.retriesDown,
	}
	if m["type"] == "HTTP" {
		m["http_method"], m["url_path"], m["expected_codes"] = "GET", "/healthz", "200"
	}
	return m
}

// floatingIP is ensureFloatingIP's: one that the Service asks for by its address is attached as it
// is, and else one is made.
func (o *occm) floatingIP(w wish, port string) (address string) {
	o.t.Helper()
	if asked := w.service.Spec.LoadBalancerIP; asked != "" {
		found := o.User().List(project.Network, "/floatingips?floating_ip_address="+asked,
			"floatingips")
		if len(found) != 1 {
			o.t.Fatalf("there are %d floating IPs %s", len(found), asked)
		}
		o.User().Update(project.Network, "/floatingips/"+project.ID(found[0]), "floatingip",
			project.Object{"port_id": port})
		return asked
	}
	made := o.User().Create(project.Network, "/floatingips", "floatingip", project.Object{
		"floating_network_id": o.Public, "port_id": port,
		"description": o.floatingDescription(w.service),
	})
	return project.Text(made, "floating_ip_address")
}

// join makes the Service's ports in the load balancer of another (ensureOctaviaListener,
// ensureOctaviaPool, ensureOctaviaHealthMonitor): one by one, named after the Service's own name,
// and tagged with it, as is the load balancer in the end.
func (o *occm) join(service *corev1.Service, id string, nodes []*corev1.Node) {
	o.t.Helper()
	w, user := o.of(service), o.User()
	for i, port := range service.Spec.Ports {
		l := w.listener(i, port, w.name)
		l["loadbalancer_id"] = id
		listener := project.ID(user.Create(project.LoadBalancer, "/lbaas/listeners", "listener", l))
		o.WaitBalancer(id)
		p := w.pool(i, port, w.name)
		p["listener_id"] = listener
		pool := project.ID(user.Create(project.LoadBalancer, "/lbaas/pools", "pool", p))
		o.WaitBalancer(id)
		user.Must(http.MethodPut, project.LoadBalancer, "/lbaas/pools/"+pool+"/members",
			project.Object{"members": w.members(port, nodes)})
		o.WaitBalancer(id)
		if w.monitor != nil {
			m := w.healthMonitor(i, port, w.name)
			m["pool_id"] = pool
			user.Create(project.LoadBalancer, "/lbaas/healthmonitors", "healthmonitor", m)
			o.WaitBalancer(id)
		}
	}
	lb := user.Get(project.LoadBalancer, "/lbaas/loadbalancers/"+id, "loadbalancer")
	user.Update(project.LoadBalancer, "/lbaas/loadbalancers/"+id, "loadbalancer",
		project.Object{"tags": append(texts(lb["tags"]), w.name)})
	o.WaitBalancer(id)
}

// openNodes makes the Service's security group, as manage-security-groups has it, and returns its
// id. The rules that Neutron puts into a new group go: they are not among those that are wanted
// (loadbalancer_sg.go, getRulesToCreateAndDelete).
func (o *occm) openNodes(service *corev1.Service) (id string) {
	o.t.Helper()
	user := o.User()
	group := user.Create(project.Network, "/security-groups", "security_group", project.Object{
		"name": groupName(service), "description": o.groupDescription(service),
	})
	id = project.ID(group)
	for _, rule := range o.of(service).rules() {
		var protocol string
		var port int
		if _, err := fmt.Sscanf(rule, "%s %d", &protocol, &port); err != nil {
			o.t.Fatal(err)
		}
		user.Create(project.Network, "/security-group-rules", "security_group_rule", project.Object{
			"security_group_id": id, "direction": "ingress", "ethertype": "IPv4",
			"protocol":       protocol,
			"port_range_min": port, "port_range_max": port, "remote_ip_prefix": o.nodeSubnetCIDR,
		})
	}
	rules, _ := group["security_group_rules"].([]any)
	for _, rule := range rules {
		rule, _ := rule.(project.Object)
		user.Delete(project.Network, "/security-group-rules/"+project.ID(rule))
	}
	return id
}

// admit puts security groups on a node's port (applyNodeSecurityGroupIDForLB).
func (o *occm) admit(port string, groups []string) {
	o.t.Helper()
	is := texts(o.User().Get(project.Network, "/ports/"+port, "port")["security_groups"])
	o.User().Update(project.Network, "/ports/"+port, "port",
		project.Object{"security_groups": slices.Concat(is, groups)})
}

// tagged is what older versions did to a port as well, to find it again: they tagged it with the
// group's id. Newer ones take such tags away together with the group
// (disassociateSecurityGroupForLB).
func (o *occm) tagged(port, group string) {
	o.t.Helper()
	o.User().Must(http.MethodPut, project.Network, "/ports/"+port+"/tags/"+group, nil)
}

// told writes down at the Service what it has: OCCM its annotations (ensureOctaviaLoadBalancer),
// and upstream's service controller the status (createLoadBalancerStatus).
func (o *occm) told(service *corev1.Service, id, address string) *corev1.Service {
	o.t.Helper()
	services := o.cluster.Admin.CoreV1().Services(service.Namespace)
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, annotationID, id)
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, annotationAddress, address)
	service, err := services.Update(o.t.Context(), service, metav1.UpdateOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{
		IP:     address,
		IPMode: ptr.To(o.of(service).mode()),
	}}
	if service, err = services.UpdateStatus(o.t.Context(), service,
		metav1.UpdateOptions{}); err != nil {
		o.t.Fatal(err)
	}
	return service
}

// mode tells the nodes whether they may send to the address past the load balancer.
func (w wish) mode() corev1.LoadBalancerIPMode {
	if w.proxy != "" {
		return corev1.LoadBalancerIPModeProxy
	}
	return corev1.LoadBalancerIPModeVIP
}

// texts are the texts of a list.
func texts(list any) []string {
	found := []string{}
	items, _ := list.([]any)
	for _, item := range items {
		if text, is := item.(string); is {
			found = append(found, text)
		}
	}
	return found
}
