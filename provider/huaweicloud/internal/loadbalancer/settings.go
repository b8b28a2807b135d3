package loadbalancer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	eipmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2/model"
	v1 "k8s.io/api/core/v1"
)

const prefix = "kubernetes.io/elb."

// Annotations of Services. Their names and values are those of Huawei's CCE and of
// cloud-provider-huaweicloud.
const (
	annotationClass       = prefix + "class"
	annotationID          = prefix + "id"
	annotationEIP         = prefix + "eip-id"
	annotationNewEIP      = prefix + "eip-auto-create-option"
	annotationKeepEIP     = prefix + "keep-eip"
	annotationAlgorithm   = prefix + "lb-algorithm"
	annotationPorts       = prefix + "protocol-port"
	annotationCertificate = prefix + "cert-id"
	annotationCheck       = prefix + "health-check-flag"
	annotationCheckOption = prefix + "health-check-option"
)

func annotation(service *v1.Service, name string) string {
	return strings.TrimSpace(service.Annotations[name])
}

// settings are the annotations of a Service.
type settings struct {
	// balancer is the ID of an existing load balancer.
	balancer string
	// newEIP is set if an EIP is to be created.
	newEIP    *newEIP
	algorithm string
	// protocols are the protocols of listeners, by port, that differ from the Service's.
	protocols   map[int32]string
	certificate string
	// check is nil if health checks are off.
	check *check
	// sources are the addresses that may connect. Empty: all.
	sources []string
}

// newEIP is the value of annotationNewEIP.
type newEIP struct {
	Type       string                                           `json:"ip_type"`
	Bandwidth  int32                                            `json:"bandwidth_size"`
	ShareType  eipmodel.CreatePublicipBandwidthOptionShareType  `json:"share_type"`
	ShareID    string                                           `json:"share_id"`
	ChargeMode eipmodel.CreatePublicipBandwidthOptionChargeMode `json:"charge_mode"`
}

var (
	shareTypes  = eipmodel.GetCreatePublicipBandwidthOptionShareTypeEnum()
	chargeModes = eipmodel.GetCreatePublicipBandwidthOptionChargeModeEnum()
)

// check is the value of annotationCheckOption. Delay and Timeout are seconds.
type check struct {
	Protocol   string `json:"protocol"`
	Path       string `json:"path"`
	Delay      int32  `json:"delay"`
	Timeout    int32  `json:"timeout"`
	MaxRetries int32  `json:"max_retries"`
}

// parse reads the annotations. The error contains all problems.
func parse(service *v1.Service) (settings, error) {
	p := &parser{service: service, known: map[string]bool{}}
	s := settings{
		balancer:    p.value(annotationID),
		newEIP:      p.newEIP(),
		algorithm:   p.choice(annotationAlgorithm, "ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP"),
		protocols:   p.protocols(),
		certificate: p.value(annotationCertificate),
		check:       p.check(),
		sources:     p.sources(),
	}
	// Shared load balancers cannot be created with the API that the provider uses.
	p.choice(annotationClass, "dedicated", "performance")
	p.choice(annotationKeepEIP, "false", "true")
	if p.value(annotationEIP) != "" && s.newEIP != nil {
		p.problem("%s and %s exclude each other", annotationEIP, annotationNewEIP)
	}
	for name := range service.Annotations {
		if strings.HasPrefix(name, prefix) && !p.known[name] {
			p.problem("annotation %s is not supported", name)
		}
	}
	p.unsupported(s)
	slices.Sort(p.problems)
	if len(p.problems) > 0 {
		return settings{}, fmt.Errorf("the Service cannot be served: %s",
			strings.Join(p.problems, "; "))
	}
	return s, nil
}

// parser collects problems.
type parser struct {
	service  *v1.Service
	known    map[string]bool
	problems []string
}

func (p *parser) problem(format string, args ...any) {
	p.problems = append(p.problems, fmt.Sprintf(format, args...))
}

func (p *parser) value(name string) string {
	p.known[name] = true
	return annotation(p.service, name)
}

// choice returns one of several values; the first is the default.
func (p *parser) choice(name string, values ...string) string {
	value := p.value(name)
	switch {
	case value == "":
		return values[0]
	case !slices.Contains(values, value):
		p.problem("%s must be one of %s", name, strings.Join(values, ", "))
	}
	return value
}

// object decodes a JSON object. It returns false without one.
func (p *parser) object(name string, into any) bool {
	value := p.value(name)
	if value == "" {
		return false
	}
	decoder := json.NewDecoder(strings.NewReader(value))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		p.problem("%s: %s", name, err)
		return false
	}
	return true
}

func (p *parser) newEIP() *newEIP {
	n := newEIP{Type: "5_bgp", ShareType: shareTypes.PER, ChargeMode: chargeModes.TRAFFIC}
	if !p.object(annotationNewEIP, &n) {
		return nil
	}
	switch {
	case n.ShareType != shareTypes.PER && n.ShareType != shareTypes.WHOLE:
		p.problem("%s: share_type must be PER or WHOLE", annotationNewEIP)
	case n.ShareType == shareTypes.WHOLE && n.ShareID == "":
		p.problem("%s: share_type WHOLE needs share_id", annotationNewEIP)
	case n.ShareType == shareTypes.PER && n.Bandwidth < 1:
		p.problem("%s: bandwidth_size must be at least 1", annotationNewEIP)
	case n.ChargeMode != chargeModes.TRAFFIC && n.ChargeMode != chargeModes.BANDWIDTH:
		p.problem("%s: charge_mode must be traffic or bandwidth", annotationNewEIP)
	case n.Type == "":
		p.problem("%s: ip_type must not be empty", annotationNewEIP)
	}
	return &n
}

func (p *parser) check() *check {
	c := check{Delay: 5, Timeout: 3, MaxRetries: 3}
	p.object(annotationCheckOption, &c)
	if p.choice(annotationCheck, "on", "off") == "off" {
		return nil
	}
	c.Protocol = strings.ToUpper(c.Protocol)
	switch {
	case c.Delay < 1 || c.Delay > 50 || c.Timeout < 1 || c.Timeout > 50:
		p.problem("%s: delay and timeout must be 1 to 50 seconds", annotationCheckOption)
	case c.MaxRetries < 1 || c.MaxRetries > 10:
		p.problem("%s: max_retries must be 1 to 10", annotationCheckOption)
	case c.Protocol != "" && c.Protocol != "TCP" && c.Protocol != "HTTP":
		p.problem("%s: protocol must be tcp or http", annotationCheckOption)
	case c.Path != "" && (c.Protocol != "HTTP" || !strings.HasPrefix(c.Path, "/")):
		p.problem("%s: path needs protocol http, and begins with /", annotationCheckOption)
	}
	return &c
}

// protocols reads "https:443,http:80".
func (p *parser) protocols() map[int32]string {
	protocols := map[int32]string{}
	value := p.value(annotationPorts)
	if value == "" {
		return protocols
	}
	for item := range strings.SplitSeq(value, ",") {
		protocol, number, _ := strings.Cut(strings.TrimSpace(item), ":")
		protocol = strings.ToUpper(protocol)
		port, err := strconv.ParseInt(number, 10, 32)
		isTCP := slices.ContainsFunc(p.service.Spec.Ports, func(s v1.ServicePort) bool {
			return int64(s.Port) == port && s.Protocol == v1.ProtocolTCP
		})
		switch {
		case err != nil || !slices.Contains([]string{"HTTP", "HTTPS", "TLS"}, protocol):
			p.problem("%s: %q is not http, https or tls with a port, such as https:443",
				annotationPorts, item)
		case !isTCP:
			p.problem("%s: the Service has no TCP port %d", annotationPorts, port)
		default:
			protocols[int32(port)] = protocol
		}
	}
	return protocols
}

// unsupported reports fields of the Service that the provider would otherwise ignore.
func (p *parser) unsupported(s settings) {
	spec := p.service.Spec
	if spec.LoadBalancerIP != "" {
		p.problem("loadBalancerIP is not supported; use %s or %s", annotationID, annotationEIP)
	}
	if len(spec.IPFamilies) > 0 && !slices.Contains(spec.IPFamilies, v1.IPv4Protocol) {
		p.problem("the Service has no IPv4 address, and load balancers forward IPv4 only")
	}
	for _, port := range spec.Ports {
		switch {
		case port.Protocol != v1.ProtocolTCP && port.Protocol != v1.ProtocolUDP:
			p.problem("port %d: protocol %s is not supported", port.Port, port.Protocol)
		case port.NodePort == 0:
			p.problem("port %d has no node port, which load balancers forward to", port.Port)
		case port.Protocol == v1.ProtocolUDP &&
			spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal:
			p.problem("port %d: externalTrafficPolicy Local needs health checks by HTTP, which "+
				"ELB does not offer for UDP", port.Port)
		}
	}
	protocols := slices.Collect(maps.Values(s.protocols))
	isHTTP := slices.Contains(protocols, "HTTP") || slices.Contains(protocols, "HTTPS")
	isTLS := slices.Contains(protocols, "TLS") || slices.Contains(protocols, "HTTPS")
	switch {
	case isTLS && s.certificate == "":
		p.problem("%s has HTTPS or TLS ports, which need %s", annotationPorts,
			annotationCertificate)
	case !isTLS && s.certificate != "":
		p.problem("%s needs a port with https or tls in %s", annotationCertificate,
			annotationPorts)
	}
	if isHTTP && spec.SessionAffinity == v1.ServiceAffinityClientIP {
		p.problem("sessionAffinity ClientIP is not possible with HTTP and HTTPS listeners")
	}
}
