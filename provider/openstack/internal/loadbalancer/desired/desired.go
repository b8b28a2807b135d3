// Package desired decides the desired state of a Service's load balancer. It makes no request and
// keeps no state.
package desired

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

// Input is the input of [Build], which does not change it.
type Input struct {
	Identity Identity
	Service  *v1.Service
	Nodes    []Node
	// Pods are the members instead of the nodes. Nil: the nodes are.
	Pods     *Pods
	Settings settings.Settings
	Features Features
	Places   Places
	// LoadBalancerName is the name of the load balancer that the Service uses; "" before its
	// creation. An owner's listeners, pools and monitors are named after it; a guest's after the
	// guest's Service, as with OCCM (loadbalancer.go, ensureOctaviaLoadBalancer).
	LoadBalancerName string
	// Guest: the load balancer was created for another Service, or by a user. The guest decides
	// neither its addresses and kind nor its floating IP.
	Guest bool
	// HasFloatingIP: a floating IP points to the load balancer or can be attached to it, or the
	// settings choose an existing one, so the place of a new one is not looked up.
	HasFloatingIP bool
	// IsFloatingIPAttached: a floating IP points to the load balancer.
	IsFloatingIPAttached bool
	// PortNetworkID is the network of the port that the settings name, and PortSubnetID the subnet
	// of its first IPv4 address; "" once the load balancer exists.
	PortNetworkID, PortSubnetID string
}

// Places are the results of the lookups in the cloud.
type Places struct {
	// VIP is the place of the address if the settings do not name it; an existing load balancer
	// stays in its place. Only subnet and network are used.
	VIP octavia.VIP
	// AdditionalVIPs are for the second family of a dual-stack Service; an existing load balancer
	// keeps its own.
	AdditionalVIPs []octavia.VIP
	// KeepsAdditionalVIPs: the requested address of the second family has no place, and an existing
	// load balancer is not recreated for it.
	KeepsAdditionalVIPs bool
	// Member is the place of the members, and AdditionalMember that of those of the second family,
	// if the additional VIP needs such.
	Member, AdditionalMember MemberPlace
	// IsPublic: the VIP is in an external network, where a port has no floating IP.
	IsPublic bool
	// FloatingNetworkID and FloatingSubnetIDs are the place of a new floating IP.
	FloatingNetworkID string
	FloatingSubnetIDs []string
}

// MemberPlace is the place of members of a family.
type MemberPlace struct {
	// Subnet is the zero value if it need not be named. Security groups need its CIDR.
	neutron.Subnet
	// Range is the CIDR of the subnet if nodes have several addresses: an address in it precedes
	// others.
	Range netip.Prefix
}

// Build decides the desired state. Its error tells the user why the Service cannot be served; the
// notices report everything else.
//
// A missing capability of the provider is an error if an omission would expose or garble traffic:
// certificates, the PROXY protocol, HTTP headers. Other features are omitted with a notice.
func Build(in Input) (State, []events.Notice, error) {
	b := &builder{decision: decision{Input: in, families: families(in)}}
	d, err := b.build()
	if err != nil {
		return State{}, b.notices, err
	}
	return d, b.notices, nil
}

// decision holds the state that all of its parts share.
type decision struct {
	Input
	// families has at least one.
	families []v1.IPFamily
	notices  []events.Notice
}

// builder decides the desired state. The families are those of the load balancer's addresses.
type builder struct {
	decision
	// unverified is State.Unverified.
	unverified map[string][]string
}

func (b *builder) addUnverified(address, node string) {
	if b.unverified == nil {
		b.unverified = map[string][]string{}
	}
	if nodes := b.unverified[address]; !slices.Contains(nodes, node) {
		b.unverified[address] = append(nodes, node)
	}
}

func (b *builder) build() (State, error) {
	if len(b.Service.Spec.Ports) == 0 {
		return State{}, errors.New("the Service has no ports; add one")
	}
	address, err := b.address()
	if err != nil {
		return State{}, err
	}
	if err := b.admitFloatingIP(); err != nil {
		return State{}, err
	}
	clients, err := b.clients()
	if err != nil {
		return State{}, err
	}
	backends := b.backends()
	ports, err := b.ports(backends, clients)
	if err != nil {
		return State{}, err
	}
	group, err := b.securityGroup(clients)
	if err != nil {
		return State{}, err
	}
	b.warnUnmonitored()
	b.warnLeftOut()
	b.warnAffinity()
	return State{
		Identity:       b.Identity,
		LoadBalancer:   b.loadBalancer(address),
		Ports:          ports,
		FloatingIP:     b.floatingIP(address),
		KeepFloatingIP: b.Settings.KeepFloatingIP,
		SecurityGroup:  group,
		Backends:       backends,
		Unverified:     b.unverified,
		Features:       b.Features,
		Recreate:       b.Settings.Recreate,
		Cascade:        b.Settings.CascadeDelete,
	}, nil
}

// exists reports whether a load balancer exists already.
func (d *decision) exists() bool { return d.LoadBalancerName != "" }

// warn adds a notice that the user should act on; note adds an informational one.
func (d *decision) warn(reason events.Reason, message string) {
	d.notices = append(d.notices, events.Notice{Reason: reason, Message: message, Warning: true})
}

func (d *decision) note(reason events.Reason, message string) {
	d.notices = append(d.notices, events.Notice{Reason: reason, Message: message})
}

// State is the desired state of a Service's load balancer and related objects. It depends only on
// the Service, the nodes, the settings and the results of lookups.
type State struct {
	Identity Identity
	// LoadBalancer is created if the Service has none, and compared if the Service is the owner.
	LoadBalancer octavia.LoadBalancer
	// Ports are in the order of the Service's.
	Ports []octavia.Port
	// FloatingIP is nil if none is desired.
	FloatingIP *neutron.WantedFloatingIP
	// KeepFloatingIP: an unwanted floating IP is detached instead of deleted.
	KeepFloatingIP bool
	// SecurityGroup is nil if none is desired.
	SecurityGroup *neutron.SecurityGroup
	// Backends are the nodes that are members of any pool, and draining ones: their ports have the
	// security group. If pods are members, they are all nodes whose pods may be.
	Backends []Backend
	// Unverified are the addresses of members that no server has been shown to have, with the names
	// of their nodes. Of several nodes with one address, at most one is a member. See
	// [State.Verified].
	Unverified map[string][]string
	Features   Features
	// Recreate: an immutable difference is resolved by a new load balancer.
	Recreate bool
	// Cascade: the load balancer is deleted with its children by one request.
	Cascade bool
}

// Backend is a node that is a member of the pool of each port that it serves, or whose pods are.
type Backend struct {
	// Node is the node's name. Draining, Unverified and Unplaced are those of [Node].
	Node       string
	Draining   bool
	Unverified bool
	Unplaced   bool
	Address    string
	SubnetID   string
	// ServerID comes from the node's provider ID; "" if it has none yet.
	ServerID string
}

// Hash is equal for two desired states if and only if the contents of the load balancer and the
// security group are equal, in one version of fxccm. It leaves out the load balancer itself and its
// floating IP, to which the last address belongs: each reconcile compares them, because that costs
// no request.
func (d State) Hash() string {
	d.LoadBalancer, d.FloatingIP = octavia.LoadBalancer{}, nil
	hash := sha256.New()
	// State holds plain values, so neither the encoding nor the hash fails. Maps are encoded in the
	// order of their keys.
	_ = json.NewEncoder(hash).Encode(d)
	return hex.EncodeToString(hash.Sum(nil))
}

// Verified returns the state without the members of nodes whose servers are unknown, unless pools
// have members of the nodes at these addresses, and the names of the nodes that it leaves out. So a
// cloud that does not answer removes no member, and adds none that may be another server.
func (d State) Verified(pools []octavia.Pool) (verified State, without []string) {
	if len(d.Unverified) == 0 {
		return d, nil
	}
	has := map[[2]string]bool{} // by address and node
	for _, pool := range pools {
		for _, m := range pool.Members {
			if m.Status != octavia.Deleted {
				has[[2]string{m.Address, d.unverifiedNode(m)}] = true
			}
		}
	}
	d.Ports = slices.Clone(d.Ports)
	for i := range d.Ports {
		pool := &d.Ports[i].Pool
		pool.Members = slices.DeleteFunc(slices.Clone(pool.Members), func(m octavia.Member) bool {
			node := d.unverifiedNode(m)
			if node == "" || has[[2]string{m.Address, node}] {
				return false
			}
			without = append(without, node)
			return true
		})
	}
	slices.Sort(without)
	return d, slices.Compact(without)
}

// unverifiedNode returns the node of an unverified member; "" for another member.
func (d State) unverifiedNode(m octavia.Member) string {
	for _, node := range d.Unverified[m.Address] {
		if m.Name == node || m.Name == MemberName(node, m.Address, m.Port) {
			return node
		}
	}
	return ""
}

// families returns the families of the load balancer's addresses: the Service's first one, and the
// second if a VIP exists for it.
func families(in Input) []v1.IPFamily {
	wanted := familiesOf(in.Service)
	if len(wanted) > 1 && in.Features.AdditionalVIPs && len(in.Places.AdditionalVIPs) > 0 {
		return wanted[:2]
	}
	return wanted[:1]
}

// FirstFamily returns the family of the Service's first address.
func FirstFamily(service *v1.Service) v1.IPFamily { return familiesOf(service)[0] }

// family returns the family of the first VIP.
func (d *decision) family() v1.IPFamily { return d.families[0] }

func familyOf(address netip.Addr) v1.IPFamily {
	if address.Is4() {
		return v1.IPv4Protocol
	}
	return v1.IPv6Protocol
}

func allAddresses(family v1.IPFamily) string {
	if family == v1.IPv6Protocol {
		return "::/0"
	}
	return "0.0.0.0/0"
}

// SameAddress reports whether two texts are one address.
func SameAddress(a, b string) bool {
	first, err := netip.ParseAddr(a)
	if err != nil {
		return a == b
	}
	second, err := netip.ParseAddr(b)
	return err == nil && first == second
}

// The default algorithms.
const (
	roundRobin   = "ROUND_ROBIN"
	sourceIPPort = "SOURCE_IP_PORT"
)

// sourceIP is the persistence that keeps each client at one member.
const sourceIP = "SOURCE_IP"

func (b *builder) ports(backends []Backend, clients []string) ([]octavia.Port, error) {
	name := b.LoadBalancerName
	if name == "" || b.Guest {
		name = b.Identity.LoadBalancerName()
	}
	algorithm := b.algorithm()
	ports := make([]octavia.Port, 0, len(b.Service.Spec.Ports))
	for i, of := range b.Service.Spec.Ports {
		port := octavia.Port{Name: portName(of)}
		listens, err := b.listenerProtocol(of)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", port.Name, err)
		}
		speaks, err := b.poolProtocol(listens)
		if err != nil {
			return nil, fmt.Errorf("port %s: %w", port.Name, err)
		}
		port.Listener = b.listener(of, listens, clients)
		if err := b.admitFields(port.Listener); err != nil {
			return nil, err
		}
		port.Listener.Name = ListenerName(i, name)
		port.Pool = octavia.Pool{
			Name:        PoolName(i, name),
			Protocol:    speaks,
			Algorithm:   algorithm,
			Persistence: b.persistence(),
			Monitor:     b.monitor(of),
			Members:     b.members(of, backends),
		}
		if port.Pool.Monitor != nil {
			port.Pool.Monitor.Name = MonitorName(i, name)
		}
		ports = append(ports, port)
	}
	return ports, b.admitTLSVersions(ports)
}

func portName(port v1.ServicePort) string {
	return strconv.Itoa(int(port.Port)) + "/" + transport(port)
}

// transport is TCP, UDP or SCTP; TCP is what the API server fills in.
func transport(port v1.ServicePort) string {
	if port.Protocol == "" {
		return octavia.TCP
	}
	return string(port.Protocol)
}

// listenerProtocol returns the protocol of a port. An annotation for all ports applies to TCP
// ports; one for a single port overrides it.
func (b *builder) listenerProtocol(port v1.ServicePort) (string, error) {
	carrier := transport(port)
	if !slices.Contains([]string{octavia.TCP, octavia.UDP, octavia.SCTP}, carrier) {
		return "", fmt.Errorf("protocol %q is not supported; use TCP, UDP or SCTP", carrier)
	}
	protocol := b.Settings.ListenerProtocols.Of(port)
	switch {
	case protocol != "":
	case carrier != octavia.TCP:
		protocol = carrier
	case b.Settings.TLSContainer != "":
		protocol = octavia.TerminatedHTTPS
	case len(b.headers()) > 0:
		protocol = octavia.HTTP
	default:
		protocol = octavia.TCP
	}
	return protocol, b.admitProtocol(protocol, carrier, port)
}

func (b *builder) admitProtocol(protocol, carrier string, port v1.ServicePort) error {
	known := []string{
		octavia.TCP, octavia.HTTP, octavia.HTTPS, octavia.TerminatedHTTPS,
		octavia.UDP, octavia.SCTP,
	}
	option := b.settingOf(protocol, port)
	switch {
	case !slices.Contains(known, protocol):
		return fmt.Errorf("there are no %s listeners (%s); correct it", protocol, b.nameOf(option))
	case octavia.Transport(protocol) != carrier:
		return fmt.Errorf("a %s listener cannot serve %s (%s); correct it", protocol, carrier,
			b.nameOf(option))
	case protocol != carrier && !b.Features.HTTP:
		return b.notWithOVN(protocol, option)
	case protocol == octavia.TerminatedHTTPS && b.Settings.TLSContainer == "":
		return fmt.Errorf("a %s listener (%s) needs a certificate; set default-tls-container-ref",
			protocol, b.nameOf(option))
	}
	return nil
}

// notWithOVN: ovn forwards packets unchanged. option is what requests otherwise.
func (b *builder) notWithOVN(what, option string) error {
	return fmt.Errorf("the provider ovn does not support %s (%s); remove it, or set lb-provider to "+
		"another provider", what, b.nameOf(option))
}

// nameOf is the name of a setting for people.
func (b *builder) nameOf(option string) string {
	if _, ok := b.Service.Annotations[settings.Prefix+option]; ok {
		return "annotation " + settings.Prefix + option
	}
	if option == "enable-health-monitor" {
		option = "create-monitor"
	}
	return "option " + option + " of cloud.conf"
}

// settingOf returns the option that requests a protocol.
func (b *builder) settingOf(protocol string, port v1.ServicePort) string {
	s := b.Settings
	switch {
	case s.ListenerProtocols.Of(port) != "":
		return "listener-protocols"
	case protocol == octavia.TerminatedHTTPS:
		return "default-tls-container-ref"
	case s.XForwardedFor:
		return "x-forwarded-for"
	case s.XForwardedPort:
		return "x-forwarded-port"
	}
	return "x-forwarded-proto"
}

// headers returns the headers to insert into HTTP requests. Only a proxy needs to insert them.
func (b *builder) headers() map[string]string {
	headers := map[string]string{}
	for name, wanted := range map[string]bool{
		"X-Forwarded-For":   b.Settings.XForwardedFor,
		"X-Forwarded-Port":  b.Settings.XForwardedPort,
		"X-Forwarded-Proto": b.Settings.XForwardedProto,
	} {
		if wanted {
			headers[name] = "true"
		}
	}
	return headers
}

// listener sets timeouts, CIDRs and tags only if the cloud supports them. Headers and certificates
// are set only for protocols for which Octavia accepts them.
func (b *builder) listener(
	port v1.ServicePort, protocol string, clients []string,
) octavia.Listener {
	s := b.Settings
	l := octavia.Listener{
		Tags:            b.tags(),
		Protocol:        protocol,
		Port:            int(port.Port),
		ConnectionLimit: s.ConnectionLimit,
	}
	if b.Features.Timeouts {
		l.Timeouts = &octavia.Timeouts{
			ClientData:    s.TimeoutClientData,
			MemberConnect: s.TimeoutMemberConnect,
			MemberData:    s.TimeoutMemberData,
			TCPInspect:    s.TimeoutTCPInspect,
		}
	}
	if b.Features.AllowedCIDRs {
		l.AllowedCIDRs = slices.Clone(clients)
	}
	if headers := b.headers(); isHTTP(protocol) && len(headers) > 0 {
		l.InsertHeaders = headers
	}
	if protocol == octavia.TerminatedHTTPS {
		l.TLSContainer, l.TLSVersions = s.TLSContainer, slices.Clone(s.TLSVersions)
	}
	return l
}

// admitFields refuses a setting that the cloud's Octavia does not have yet. Each such setting is
// called like the field of the API.
func (b *builder) admitFields(l octavia.Listener) error {
	known := octavia.FieldsOf[octavia.Listener]()
	for _, name := range known.Newer(l, b.Features.Minor) {
		return fmt.Errorf("%s needs Octavia API 2.%d, but the cloud has 2.%d; remove it",
			b.nameOf(strings.ReplaceAll(name, "_", "-")), known.Since(name), b.Features.Minor)
	}
	return nil
}

// admitTLSVersions refuses versions that no listener applies, because they promise encryption.
func (b *builder) admitTLSVersions(ports []octavia.Port) error {
	if len(b.Settings.TLSVersions) == 0 || slices.ContainsFunc(ports,
		func(p octavia.Port) bool { return p.Listener.Protocol == octavia.TerminatedHTTPS }) {
		return nil
	}
	return fmt.Errorf("%s needs a %s listener, but the Service has none; remove it, or set "+
		"default-tls-container-ref", b.nameOf("tls-versions"), octavia.TerminatedHTTPS)
}

func isHTTP(protocol string) bool {
	return protocol == octavia.HTTP || protocol == octavia.TerminatedHTTPS
}

// poolProtocol returns the protocol between load balancer and members. The PROXY protocol, which
// needs TCP, has priority.
func (b *builder) poolProtocol(listener string) (string, error) {
	proxy := b.Settings.ProxyProtocol
	switch {
	case proxy != "" && octavia.Transport(listener) == octavia.TCP:
		if !b.Features.HTTP {
			return "", b.notWithOVN("the "+proxy+" protocol", "proxy-protocol")
		}
		return proxy, nil
	case isHTTP(listener):
		return octavia.HTTP, nil
	}
	return listener, nil
}

// algorithm ignores another algorithm with ovn, which supports only one: cloud.conf may have been
// written for other providers.
func (b *builder) algorithm() string {
	asked := b.Settings.Algorithm
	switch {
	case b.Features.OnlySourceIPPort:
		if asked != "" && asked != sourceIPPort {
			b.warn(events.AlgorithmIgnored,
				b.nameOf("lb-method")+" "+asked+" is ignored: the provider ovn supports only "+
					sourceIPPort+"; remove it, or set lb-provider to another provider")
		}
		return sourceIPPort
	case asked == "":
		return roundRobin
	}
	return asked
}

func (b *builder) persistence() octavia.Persistence {
	if b.Service.Spec.SessionAffinity == v1.ServiceAffinityClientIP {
		return sourceIP
	}
	return ""
}

func (b *builder) warnAffinity() {
	if b.persistence() != "" && !b.Features.Persistence {
		b.warn(events.AffinityIgnored, "the Service's sessionAffinity is ignored: the provider ovn "+
			"forwards each connection of a client to any node; remove it, or set lb-provider to "+
			"another provider")
	}
}

// monitor returns nil for no monitor.
func (b *builder) monitor(port v1.ServicePort) *octavia.Monitor {
	s := b.Settings
	if !s.Monitor {
		return nil
	}
	m := &octavia.Monitor{
		Delay:          int(s.MonitorDelay / time.Second),
		Timeout:        int(s.MonitorTimeout / time.Second),
		MaxRetries:     s.MonitorMaxRetries,
		MaxRetriesDown: s.MonitorMaxRetriesDown,
	}
	switch carrier := transport(port); {
	case b.asksKubeProxy(port):
		// kube-proxy serves this path at the health check node port.
		m.Type, m.HTTPMethod, m.URLPath, m.ExpectedCodes = octavia.MonitorHTTP, "GET", "/healthz",
			"200"
	case carrier == octavia.UDP:
		m.Type = octavia.MonitorUDPConnect
		if b.isLocal() {
			// kube-proxy drops the packets of the monitor without an answer, which counts as one.
			why := fmt.Sprintf("an HTTP monitor for UDP needs Octavia API 2.16, but the cloud has "+
				"2.%d; upgrade Octavia", b.Features.Minor)
			if !b.Features.HTTPMonitors {
				why = "the provider ovn supports no HTTP monitor; set lb-provider to another provider"
			}
			b.warn(events.LocalWithoutMonitor, fmt.Sprintf(
				"externalTrafficPolicy is Local, but the health monitor of port %s (%s) does not "+
					"notice that a node has no local endpoint and drops traffic: %s",
				portName(port), b.nameOf("enable-health-monitor"), why))
		}
	case carrier != octavia.SCTP:
		m.Type = octavia.MonitorTCP
	case b.Features.SCTPMonitors:
		m.Type = octavia.MonitorSCTP
	default:
		b.warn(events.MonitorIgnored,
			"the members of port "+portName(port)+" have no health monitor: the provider ovn "+
				"supports none for SCTP ("+b.nameOf("enable-health-monitor")+"); set lb-provider "+
				"to another provider if the port needs one")
		return nil
	}
	return m
}

// asksKubeProxy reports whether the monitor of a port checks at the health check node port whether
// a member has endpoints of the Service.
func (b *builder) asksKubeProxy(port v1.ServicePort) bool {
	return b.Settings.Monitor && b.isLocal() && b.Features.HTTPMonitors &&
		(transport(port) != octavia.UDP || b.Features.UDPHTTPMonitors)
}

// isLocal reports whether nodes without endpoints of the Service drop its traffic.
func (b *builder) isLocal() bool {
	spec := b.Service.Spec
	return b.Pods == nil && spec.ExternalTrafficPolicy == v1.ServiceExternalTrafficPolicyLocal &&
		spec.HealthCheckNodePort > 0
}

func (b *builder) warnUnmonitored() {
	if b.isLocal() && !b.Settings.Monitor {
		b.warn(events.LocalWithoutMonitor,
			"externalTrafficPolicy is Local, but the members have no health monitor: nodes without a local endpoint drop traffic; "+
				"annotate the Service with loadbalancer.openstack.org/enable-health-monitor: \"true\"")
	}
}
