package manager_test

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A change is one that a user makes to a Service of type LoadBalancer.
type change struct {
	name string
	edit func(*corev1.Service)
}

const (
	leaseName          = "cloud-controller-manager"
	prefix             = "loadbalancer.openstack.org/"
	annotationInternal = "service.beta.kubernetes.io/openstack-internal-load-balancer"
	annotationID       = prefix + "load-balancer-id"
	annotationAddress  = prefix + "load-balancer-address"

	forwardedFor    = prefix + "x-forwarded-for"
	proxyProtocol   = prefix + "proxy-protocol"
	healthMonitor   = prefix + "enable-health-monitor"
	connectionLimit = prefix + "connection-limit"
	algorithm       = prefix + "lb-method"
	nodeSelector    = prefix + "node-selector"
)

// changes can be made in any order, each more than once.
func changes(zone string) []change {
	return []change{
		{"a port is added", func(s *corev1.Service) {
			if !slices.ContainsFunc(s.Spec.Ports,
				func(p corev1.ServicePort) bool { return p.Name == "added" }) {
				s.Spec.Ports = append(s.Spec.Ports,
					corev1.ServicePort{
						Name: "added", Port: 8443, Protocol: corev1.ProtocolTCP,
						TargetPort: intstr.FromInt32(8443),
					})
			}
		}},
		{"a port is removed", func(s *corev1.Service) {
			if len(s.Spec.Ports) > 1 {
				s.Spec.Ports = s.Spec.Ports[1:]
			}
		}},
		{"a port has another number", func(s *corev1.Service) { s.Spec.Ports[0].Port += 1000 }},
		{"a port is UDP, or TCP again", func(s *corev1.Service) {
			p := &s.Spec.Ports[0]
			if p.Protocol == corev1.ProtocolTCP {
				p.Protocol = corev1.ProtocolUDP
			} else {
				p.Protocol = corev1.ProtocolTCP
			}
		}},
		{"two ports change places", func(s *corev1.Service) { slices.Reverse(s.Spec.Ports) }},
		{"a port has another node port", func(s *corev1.Service) { s.Spec.Ports[0].NodePort = 0 }},
		{"only some may connect", func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24", "203.0.113.0/24"}
		}},
		{"others may connect", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = []string{"192.0.2.0/25"} }},
		{"all clients may connect", func(s *corev1.Service) { s.Spec.LoadBalancerSourceRanges = nil }},
		{"connections are limited", annotate(connectionLimit, "77")},
		{"another algorithm", annotate(algorithm, "LEAST_CONNECTIONS")},
		{"headers are inserted", func(s *corev1.Service) {
			delete(s.Annotations, proxyProtocol) // the two exclude each other
			annotate(forwardedFor, "true")(s)
		}},
		{"the PROXY protocol is used", func(s *corev1.Service) {
			delete(s.Annotations, forwardedFor)
			annotate(proxyProtocol, "v2")(s)
		}},
		{"members are checked", annotate(healthMonitor, "true")},
		{"traffic stays on its node", func(s *corev1.Service) {
			annotate(healthMonitor, "true")(s)
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}},
		{"clients stay with their member", func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP }},
		{"it becomes internal", annotate(annotationInternal, "true")},
		{"it becomes external", annotate(annotationInternal, "false")},
		{"only nodes of one zone are members", annotate(nodeSelector, corev1.LabelTopologyZone+"="+zone)},
		{"it is no load balancer any more", func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalTrafficPolicy = corev1.ServiceTypeClusterIP, ""
			s.Spec.LoadBalancerSourceRanges = nil
		}},
	}
}

func annotate(name, value string) func(*corev1.Service) {
	return func(s *corev1.Service) {
		if s.Annotations == nil {
			s.Annotations = map[string]string{}
		}
		s.Annotations[name] = value
	}
}
