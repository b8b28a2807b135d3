package takeover_test

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// The annotations of OCCM that the tests use (loadbalancer.go, the constants ServiceAnnotation...).
const (
	prefix             = "loadbalancer.openstack.org/"
	annotationInternal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	// OCCM writes these.
	annotationID      = prefix + "load-balancer-id"
	annotationAddress = prefix + "load-balancer-address"
)

// settings are OCCM's settings in a test's flags and cloud.conf. The others have OCCM's defaults
// (openstack.go, ReadConfig).
type settings struct {
	// clusterName is --cluster-name.
	clusterName string
	// subnetID is subnet-id; "": that of the nodes is found by itself.
	subnetID string
	// nodeSubnetID is that of the nodes.
	nodeSubnetID, nodeSubnetCIDR string
	floatingNetworkID            string
	manageSecurityGroups         bool
	// classes are the sections LoadBalancerClass: their subnet-id by name.
	classes map[string]string
}

// wish is OCCM's desired load balancer of a Service (loadbalancer.go, checkService and
// makeSvcConf).
type wish struct {
	service *corev1.Service
	// name is that of the load balancer that is the Service's own, and OCCM's tag
	// (GetLoadBalancerName).
	name                    string
	internal, keep          bool
	vipSubnet, memberSubnet string
	method, persistence     string
	connectionLimit         int
	// timeouts by the names of Octavia's attributes.
	timeouts map[string]int
	cidrs    []string
	// forwarded: X-Forwarded-For is inserted, and everything is HTTP.
	forwarded bool
	// proxy is the protocol of pools, PROXY or PROXYV2; "" for none.
	proxy string
	// monitor is nil for none.
	monitor *monitorWish
	// healthPort is where kube-proxy tells whether a node has endpoints; 0: without one.
	healthPort int
	// selector is a label that nodes must have; "" for none.
	selector string
}

type monitorWish struct{ delay, timeout, retries, retriesDown int }

func (s settings) of(service *corev1.Service) wish {
	says := func(name, otherwise string) string {
		if value, found := service.Annotations[prefix+name]; found {
			return value
		}
		return otherwise
	}
	number := func(name string, otherwise int) int {
		n, err := strconv.Atoi(says(name, ""))
		if err != nil {
			return otherwise
		}
		return n
	}
	class := s.classes[says("class", "")]
	w := wish{
		service: service,
		name: cut(
			fmt.Sprintf("kube_service_%s_%s_%s", s.clusterName, service.Namespace, service.Name)),
		internal: service.Annotations[annotationInternal] == "true",
		keep:     says("keep-floatingip", "") == "true",
		// getSubnetID; without any, the subnet of a node's address. For members the option comes
		// before the class (getMemberSubnetID, checkService).
		vipSubnet: cmp.Or(says("subnet-id", ""), class, s.subnetID, s.nodeSubnetID),
		memberSubnet: cmp.Or(says("member-subnet-id", ""), s.subnetID, says("subnet-id", ""), class,
			s.nodeSubnetID),
		method:          says("lb-method", "ROUND_ROBIN"),
		connectionLimit: number("connection-limit", -1),
		timeouts: map[string]int{
			"timeout_client_data":    number("timeout-client-data", 50000),
			"timeout_member_connect": number("timeout-member-connect", 5000),
			"timeout_member_data":    number("timeout-member-data", 50000),
			"timeout_tcp_inspect":    number("timeout-tcp-inspect", 0),
		},
		// getLoadBalancerSourceRanges: the range of all clients is written, too.
		cidrs:     service.Spec.LoadBalancerSourceRanges,
		forwarded: says("x-forwarded-for", "") == "true",
		proxy: map[string]string{
			"true": "PROXY", "v1": "PROXY",
			"v2": "PROXYV2",
		}[says("proxy-protocol", "")],
		selector: says("node-selector", ""),
	}
	if len(w.cidrs) == 0 {
		w.cidrs = []string{"0.0.0.0/0"}
	}
	if service.Spec.SessionAffinity == corev1.ServiceAffinityClientIP {
		w.persistence = "SOURCE_IP"
	}
	if says("enable-health-monitor", "") == "true" {
		w.monitor = &monitorWish{
			number("health-monitor-delay", 5), number("health-monitor-timeout", 3),
			number("health-monitor-max-retries", 1), number("health-monitor-max-retries-down", 3),
		}
		if service.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			w.healthPort = int(service.Spec.HealthCheckNodePort)
		}
	}
	return w
}

// listenerProtocol is getListenerProtocol's.
func (w wish) listenerProtocol(port corev1.ServicePort) string {
	if w.forwarded {
		return "HTTP"
	}
	return string(port.Protocol)
}

// poolProtocol is buildPoolCreateOpt's.
func (w wish) poolProtocol(port corev1.ServicePort) string {
	return cmp.Or(w.proxy, w.listenerProtocol(port))
}

// monitorType is buildMonitorCreateOpts': UDP is asked by HTTP, too, with API 2.16.
func (w wish) monitorType(port corev1.ServicePort) string {
	switch {
	case w.healthPort > 0:
		return "HTTP"
	case port.Protocol == corev1.ProtocolUDP:
		return "UDP-CONNECT"
	}
	return string(port.Protocol)
}

// selects is filterNodes'.
func (w wish) selects(node *corev1.Node) bool {
	key, value, _ := strings.Cut(w.selector, "=")
	return w.selector == "" || node.Labels[key] == value
}

// addressOf is nodeAddressForLB's.
func addressOf(node *corev1.Node) string {
	for _, a := range node.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			return a.Address
		}
	}
	return ""
}

// rules are those of the Service's security group: protocol and port (loadbalancer_sg.go,
// ensureAndUpdateOctaviaSecurityGroup). All are for the members' subnet, and IPv4 here.
func (w wish) rules() []string {
	rules := map[string]bool{}
	if w.service.Spec.HealthCheckNodePort != 0 {
		rules[fmt.Sprintf("tcp %d", w.service.Spec.HealthCheckNodePort)] = true
	}
	for _, port := range w.service.Spec.Ports {
		rules[fmt.Sprintf("%s %d", strings.ToLower(string(port.Protocol)), port.NodePort)] = true
	}
	return slices.Sorted(maps.Keys(rules))
}

// Names and descriptions: loadbalancer.go, servicePrefix, listenerFormat, poolFormat,
// monitorFormat, createFullyPopulatedOctaviaLoadBalancer and ensureFloatingIP; loadbalancer_sg.go,
// getSecurityGroupName.

// part is the name of a "listener", "pool" or "monitor".
func part(kind string, index int, loadBalancer string) string {
	return cut(fmt.Sprintf("%s_%d_%s", kind, index, loadBalancer))
}

func cut(name string) string { return name[:min(len(name), 255)] }

func (s settings) description(service *corev1.Service) string {
	return fmt.Sprintf("Kubernetes external service %s/%s from cluster %s", service.Namespace,
		service.Name, s.clusterName)
}

func (s settings) floatingDescription(service *corev1.Service) string {
	return "Floating IP for " + s.description(service)
}

func groupName(service *corev1.Service) string {
	return cut(fmt.Sprintf("lb-sg-%s-%s-%s", service.UID, service.Namespace, service.Name))
}

func (s settings) groupDescription(service *corev1.Service) string {
	return fmt.Sprintf("Security Group for %s/%s Service LoadBalancer in cluster %s",
		service.Namespace, service.Name, s.clusterName)
}
