// Package settings reads the settings of a Service's load balancer from its annotations, the
// LoadBalancerClass that they name, and [LoadBalancer] of cloud.conf. One table drives the reading,
// the checks and the reference page.
package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/nearest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Settings are the effective settings of one Service, with all defaults and precedence applied: the
// annotation, or else the class, or else cloud.conf. IDs are UUIDs in lower case with hyphens,
// unless cloud.conf has another form.
type Settings struct {
	// Internal: the load balancer gets no floating IP.
	Internal bool

	// These are the place of the VIP. All may be empty: then it is in a subnet of the nodes.
	NetworkID, SubnetID, PortID string
	// AdditionalSubnetID is the subnet of the second VIP of a dual-stack Service; "": looked up in
	// the VIP's network.
	AdditionalSubnetID string
	// Address is the address that spec.loadBalancerIP or the annotation requests for the first IP
	// family of the Service, in its canonical form. AdditionalAddress is that of the second family.
	Address, AdditionalAddress string
	// MemberSubnetID is the members' subnet from the annotation, the class or member-subnet-id of
	// cloud.conf; "": none of them names it. Then it is DefaultMemberSubnetID, from subnet-id of
	// cloud.conf; "": looked up.
	MemberSubnetID, DefaultMemberSubnetID string

	// FloatingNetworkID is the network of a new floating IP; "": looked up.
	FloatingNetworkID string
	// FloatingSubnetID, or else FloatingSubnet (a pattern) and FloatingSubnetTags, choose a subnet
	// of it. They are from one source: any of the three annotations overrides class and cloud.conf
	// for all three.
	FloatingSubnetID, FloatingSubnet, FloatingSubnetTags string
	// FloatingIPID names an existing floating IP; "": none is named. FloatingIPTag names a pool of
	// them: an unused one of the project that has this tag is used.
	FloatingIPID, FloatingIPTag string
	KeepFloatingIP              bool

	// Provider is the provider of Octavia; "": the cloud's default.
	Provider         string
	FlavorID         string
	AvailabilityZone string
	// Algorithm is "" if only cloud.conf's default, ROUND_ROBIN, applies.
	Algorithm string

	// ProxyProtocol is "", PROXY or PROXYV2.
	ProxyProtocol string
	// These are the inserted headers. With ProxyProtocol the listener inserts them all the same, as
	// with OCCM: its pool uses PROXY.
	XForwardedFor, XForwardedPort, XForwardedProto bool
	TLSContainer                                   string
	// TLSVersions are sorted, each once. Nil: not specified.
	TLSVersions []string
	// ListenerProtocols are the protocols that the annotation requests.
	ListenerProtocols ListenerProtocols

	// ConnectionLimit is -1 for no limit.
	ConnectionLimit int
	// The timeouts are in milliseconds.
	TimeoutClientData, TimeoutMemberConnect, TimeoutMemberData, TimeoutTCPInspect int

	Monitor bool
	// MonitorDelay and MonitorTimeout are whole seconds, at least one.
	MonitorDelay, MonitorTimeout time.Duration
	// From 1 to 10.
	MonitorMaxRetries, MonitorMaxRetriesDown int

	// SourceRanges are CIDRs in canonical form, sorted, of both families, each once. Nil: not
	// specified, so all clients may connect.
	SourceRanges []string
	// NodeSelector selects the members' nodes.
	NodeSelector NodeSelector
	// MemberTarget is what the load balancer forwards to: [TargetNode], [TargetPod] or
	// [TargetAuto].
	MemberTarget string

	// ShareAs is the name under which Services share a load balancer; "": the Service shares none
	// by name.
	ShareAs string
	// ShareKeys identify the load balancers that the Service may share, that of the widest scope
	// last. Nil without ShareAs.
	ShareKeys []ShareKey
	// LoadBalancerID is the ID of the load balancer to use; "" if none is named.
	LoadBalancerID string
	// MayShare: the operator allows the Service to name a load balancer of another owner.
	MayShare bool
	// Hostname is shown in the status instead of an address.
	Hostname string
	// Recreate: an immutable difference is resolved by a new load balancer.
	Recreate bool

	// Only cloud.conf sets these.
	ManageSecurityGroups, CascadeDelete, Serial, EnableIngressHostname, CheckCertificates bool
	NeedsNoNodePorts                                                                      bool
	IngressHostnameSuffix                                                                 string
	MaxShared, MaxSharedListeners                                                         int
}

// Defaults apply where a Service sets nothing.
type Defaults struct {
	LoadBalancer cloudconf.LoadBalancer
	Classes      map[string]cloudconf.LoadBalancerClass
	// Regions is empty if cloud.conf names no region.
	Regions Regions
}

// Regions are the names of regions of cloud.conf.
type Regions struct {
	// Here is the region whose load balancers have the settings.
	Here string
	// Default is that of a Service that requests none.
	Default string
	// All are those that have load balancers.
	All []string
}

// Removed returns the region that is recorded in a Service, if cloud.conf no longer has it. The
// load balancer of the Service may exist there.
func (k Regions) Removed(service *v1.Service) string {
	recorded := service.Annotations[AnnotationLoadBalancerRegion]
	if len(k.All) == 0 || slices.Contains(k.All, recorded) {
		return ""
	}
	return recorded
}

// Of reads the settings of the Service. Problems are in the order of the reference page.
//
// Even with a fatal Problem, all other Settings are as the Service requests, so that it can be
// deleted as configured. An invalid value is never used, and invalid source ranges admit no client.
func Of(service *v1.Service, defaults Defaults) (Settings, []Problem) {
	r := read(service, defaults)
	r.settings.ShareKeys = r.shareKeys()
	return r.settings, r.problems
}

func read(service *v1.Service, defaults Defaults) *reader {
	r := &reader{service: service, conf: defaults.LoadBalancer, classes: defaults.Classes}
	r.settings = ofCloudConf(defaults.LoadBalancer)
	r.chooseClass()
	r.refuseOtherRegion(defaults.Regions)
	table := table(&r.settings, r.conf)
	for _, row := range table {
		row.read(r)
	}
	r.settings.MayShare = r.listsSharing()
	r.takeSourceRanges()
	r.takeAddresses()
	r.internalByOrder()
	r.refuseFloatingIPConflicts()
	r.floatingSubnetsOfOneSource()
	r.warnOfMonitorTimes()
	r.refuseTwoClientAddresses()
	r.certificateThatCanBeChecked()
	r.sortProblems(table)
	return r
}

// FloatingIPBy returns the annotation that chooses an existing floating IP; "" for none.
func (s Settings) FloatingIPBy() string {
	switch {
	case s.FloatingIPID != "":
		return annotationFloatingIPID
	case s.FloatingIPTag != "":
		return annotationFloatingIPTag
	}
	return ""
}

// ofCloudConf returns the settings that a Service cannot change.
func ofCloudConf(c cloudconf.LoadBalancer) Settings {
	return Settings{
		DefaultMemberSubnetID: uuidKind().normal(c.SubnetID),
		ManageSecurityGroups:  c.ManageSecurityGroups,
		CascadeDelete:         c.CascadeDelete,
		Serial:                c.ProviderRequiresSerialAPICalls,
		NeedsNoNodePorts:      c.ProviderNeedsNoNodePorts,
		EnableIngressHostname: c.EnableIngressHostname,
		CheckCertificates:     c.ContainerStore == "barbican",
		IngressHostnameSuffix: c.IngressHostnameSuffix,
		MaxShared:             c.MaxSharedLB,
		MaxSharedListeners:    c.MaxSharedListeners,
	}
}

// ListenerProtocols maps the name of the Service's port, or its number if it is the only port and
// has no name, to the protocol of the listener. All ports exist in the Service, and the protocols
// fit them.
type ListenerProtocols map[string]string

func (p ListenerProtocols) Of(port v1.ServicePort) string { return p[portKey(port)] }

// Prefix begins the names of all annotations but two older ones.
const Prefix = "loadbalancer.openstack.org/"

// fxccm also writes these annotations of OCCM.
const (
	// AnnotationLoadBalancerID names the Service's load balancer. A user sets it to share or adopt
	// one.
	AnnotationLoadBalancerID = Prefix + "load-balancer-id"
	// AnnotationLoadBalancerAddress shows its address.
	AnnotationLoadBalancerAddress = Prefix + "load-balancer-address"
)

// AnnotationKeepFloatingIP keeps the floating IP when the Service is deleted.
const AnnotationKeepFloatingIP = Prefix + "keep-floatingip"

// AnnotationShareAs names the load balancer that Services share.
const AnnotationShareAs = Prefix + "share-as"

// These annotations choose among several regions. OCCM does not have them.
const (
	// AnnotationRegion requests a region of cloud.conf.
	AnnotationRegion = Prefix + "region"
	// AnnotationLoadBalancerRegion is written by fxccm: the region in which the load balancer may
	// exist.
	AnnotationLoadBalancerRegion = Prefix + "load-balancer-region"
)

// olderPrefix begins the names of annotations from the time when the provider was a part of
// Kubernetes.
const olderPrefix = "service.beta.kubernetes.io/openstack-"

const (
	annotationInternal             = olderPrefix + "internal-load-balancer"
	annotationAddress              = Prefix + "address"
	annotationClass                = Prefix + "class"
	annotationFloatingSubnetID     = Prefix + "floating-subnet-id"
	annotationFloatingSubnet       = Prefix + "floating-subnet"
	annotationFloatingSubnetTags   = Prefix + "floating-subnet-tags"
	annotationFloatingIPID         = Prefix + "floating-ip-id"
	annotationFloatingIPTag        = Prefix + "floating-ip-tag"
	annotationHealthMonitorDelay   = Prefix + "health-monitor-delay"
	annotationHealthMonitorTimeout = Prefix + "health-monitor-timeout"
	annotationTLSContainer         = Prefix + "default-tls-container-ref"

	fieldAddress      = "spec.loadBalancerIP"
	fieldSourceRanges = "spec.loadBalancerSourceRanges"
)

// Problem is a value that cannot be used.
type Problem struct {
	// Annotation is the full name of the annotation, or the field of the spec.
	Annotation string
	// Value is the value in printable form, cut if it is long. It is empty for an unknown
	// annotation.
	Value string
	// Why is a clause such as "not a number" about Value or, without one, about Annotation.
	Why string
	// Default is the value that is used instead, as in an annotation; "" for none.
	Default string
	// Fatal: the Service is not served until the value is corrected. Otherwise the default is used.
	Fatal bool
	// Used: the value is used all the same, and no default.
	Used bool
	// AtCreation: the value is used only when a load balancer is created. An existing one is served
	// all the same.
	AtCreation bool
}

// String is a sentence for an event.
func (p Problem) String() string {
	switch {
	case p.Value == "":
		return fmt.Sprintf("%s is %s", p.Annotation, withAdvice(p.Why, "remove it"))
	case p.Fatal || p.Used:
		return fmt.Sprintf("%s: %q is %s", p.Annotation, p.Value, withAdvice(p.Why, "correct it"))
	case p.Default != "":
		return fmt.Sprintf("%s: %q is %s; the default, %s, is used", p.Annotation, p.Value, p.Why,
			p.Default)
	}
	return fmt.Sprintf("%s: %q is %s; the default is used", p.Annotation, p.Value, p.Why)
}

// withAdvice adds the advice to a clause that has none.
func withAdvice(why, advice string) string {
	if strings.Contains(why, "; ") {
		return why
	}
	return why + "; " + advice
}

// Fatal returns the fatal problems.
func Fatal(problems []Problem) []Problem {
	var fatal []Problem
	for _, p := range problems {
		if p.Fatal {
			fatal = append(fatal, p)
		}
	}
	return fatal
}

// longest is how many characters of a value are shown. An event holds 1024 bytes.
const longest = 100

// shown makes a value printable. Only an empty value becomes empty.
func shown(value string) string {
	runes := []rune(strings.ToValidUTF8(value, string(unicode.ReplacementChar)))
	if len(runes) > longest {
		runes = append(runes[:longest], '…')
	}
	for i, c := range runes {
		if !unicode.IsPrint(c) {
			runes[i] = unicode.ReplacementChar
		}
	}
	return string(runes)
}

// Unknown returns the Service's annotations that resemble fxccm's: most likely typos. They are
// sorted by name, have no Value, and are never fatal: others may use the prefix, too.
func Unknown(service *v1.Service) []Problem {
	var known []entry
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		known = append(known, row.about())
	}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(service.Annotations)) {
		ours := strings.HasPrefix(name, Prefix) || strings.HasPrefix(name, olderPrefix)
		if !ours || slices.ContainsFunc(known, func(e entry) bool { return e.name == name }) {
			continue
		}
		why := "not known, and has no effect"
		if meant := suggestion(strings.TrimPrefix(name, Prefix), known); meant != "" {
			why += "; " + meant
		}
		problems = append(problems, Problem{Annotation: shown(name), Why: why})
	}
	return problems
}

// suggestion returns what an unknown annotation, without the prefix, probably stands for. An
// annotation that names an object of the cloud must be very near: the object may be another's.
func suggestion(unknown string, known []entry) string {
	plain := strings.TrimSuffix(nearest.Plain(unknown), "s")
	for _, field := range []string{
		"loadBalancerIP", "loadBalancerSourceRanges", "externalTrafficPolicy",
	} {
		if strings.HasSuffix(plain, strings.TrimSuffix(nearest.Plain(field), "s")) {
			return "set the field spec." + field + " instead"
		}
	}
	var short []string // the prefix would make all names similar
	for _, e := range known {
		short = append(short, strings.TrimPrefix(e.name, Prefix))
	}
	near := nearest.Name(unknown, short)
	if near == "" {
		return ""
	}
	meant := known[slices.Index(short, near)]
	if meant.misuse != "" && !nearest.IsClose(unknown, near) {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", meant.name)
}
