package loadbalancer

import (
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/reserved"
)

// owner identifies a Service in the cloud.
type owner struct {
	// name is the standard name of the Service's load balancer.
	name string
	// mark is the description of every load balancer, listener, pool and IP address group of the
	// Service. Only objects with exactly this mark are changed or deleted.
	mark string
	// alias is the mark of its EIPs, whose names are shorter.
	alias string
}

// maxDescription is ELB's limit.
const maxDescription = 255

func newOwner(cluster, name string, service *v1.Service) (owner, error) {
	hash := sha256.Sum256([]byte(cluster))
	o := owner{
		name: name,
		mark: fmt.Sprintf("fxccm cluster=%s service=%s/%s uid=%s",
			cluster, service.Namespace, service.Name, service.UID),
		alias: fmt.Sprintf("fxccm-%s-%x", service.UID, hash[:4]),
	}
	if len(o.mark) > maxDescription {
		return owner{}, fmt.Errorf("--cluster-name and the name of the Service are too long for "+
			"the description of a load balancer: %d characters, %d at most", len(o.mark),
			maxDescription)
	}
	return o, nil
}

// port is a desired listener with its pool.
type port struct {
	// name is that of listener, pool and health check.
	name         string
	number       int32
	protocol     string
	poolProtocol string
	algorithm    string
	certificate  string
	// persistence is how many minutes clients stay with a member, 0 if they need not.
	persistence int32
	monitor     monitor
	// members are the names of nodes by address and node port.
	members map[netip.AddrPort]string
}

// String returns the protocol and the number.
func (p port) String() string { return fmt.Sprintf("%s %d", p.protocol, p.number) }

// monitor is a health check. It is zero if health checks are off.
type monitor struct {
	kind, path                 string
	port                       int32
	delay, timeout, maxRetries int32
}

func newMonitor(m model.HealthMonitor) monitor {
	path := m.UrlPath
	if m.Type != "HTTP" {
		path = ""
	}
	return monitor{m.Type, path, m.MonitorPort, m.Delay, m.Timeout, m.MaxRetries}
}

// desire returns the listeners that the Service should have.
func desire(o owner, service *v1.Service, nodes []*v1.Node, s settings) ([]port, error) {
	addresses := nodeAddresses(nodes)
	if len(addresses) == 0 {
		return nil, errors.New("no node with an internal IPv4 address is available as a member")
	}
	ports := make([]port, len(service.Spec.Ports))
	for at, sp := range service.Spec.Ports {
		p := port{
			name:   fmt.Sprintf("%s-%s-%d", o.name, strings.ToLower(string(sp.Protocol)), sp.Port),
			number: sp.Port, protocol: string(sp.Protocol), poolProtocol: string(sp.Protocol),
			algorithm: s.algorithm, persistence: persistence(service),
			members: map[netip.AddrPort]string{},
		}
		if protocol := s.protocols[sp.Port]; protocol != "" && sp.Protocol == v1.ProtocolTCP {
			p.protocol = protocol
			if protocol != "TLS" {
				p.poolProtocol = "HTTP"
			}
			if protocol != "HTTP" {
				p.certificate = s.certificate
			}
		}
		p.monitor = desireMonitor(service, sp, s.check)
		for node, address := range addresses {
			p.members[netip.AddrPortFrom(address, uint16(sp.NodePort))] = node
		}
		ports[at] = p
	}
	return ports, nil
}

func desireMonitor(service *v1.Service, sp v1.ServicePort, c *check) monitor {
	if c == nil {
		return monitor{}
	}
	m := monitor{kind: "TCP", delay: c.Delay, timeout: c.Timeout, maxRetries: c.MaxRetries}
	switch {
	case sp.Protocol == v1.ProtocolUDP:
		m.kind = "UDP_CONNECT"
	case service.Spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal:
		// kube-proxy answers on this port whether the node has endpoints.
		m.kind, m.path, m.port = "HTTP", "/healthz", service.Spec.HealthCheckNodePort
	case c.Protocol == "HTTP":
		m.kind, m.path = "HTTP", cmp.Or(c.Path, "/")
	}
	return m
}

// persistence returns minutes, of which ELB allows at most 60 for TCP and UDP.
func persistence(service *v1.Service) int32 {
	if service.Spec.SessionAffinity != v1.ServiceAffinityClientIP {
		return 0
	}
	seconds := int32(v1.DefaultClientIPServiceAffinitySeconds)
	if c := service.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil &&
		c.ClientIP.TimeoutSeconds != nil {
		seconds = *c.ClientIP.TimeoutSeconds
	}
	return min(max((seconds+59)/60, 1), 60)
}

// nodeAddresses returns the first internal IPv4 address of each node. A node reports its addresses
// itself, so those that lead to the load balancer's own host or to a metadata service do not count.
func nodeAddresses(nodes []*v1.Node) map[string]netip.Addr {
	addresses := map[string]netip.Addr{}
	for _, node := range nodes {
		for _, a := range node.Status.Addresses {
			parsed, _ := netip.ParseAddr(a.Address)
			if a.Type == v1.NodeInternalIP && parsed.Is4() && !reserved.Has(parsed) {
				addresses[node.Name] = parsed
				break
			}
		}
	}
	return addresses
}
