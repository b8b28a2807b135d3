package settings

//go:generate env UPDATE_DOCS=1 go test -count=1 -run ^TestPage_IsUpToDate$ .

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// These are Octavia's limits (octavia/api/v2/types/health_monitor.py).
const leastRetries, mostRetries = 1, 10

// A section is a part of the reference page.
type section struct {
	title string
	rows  []row
}

// sections list every annotation and field, in the order of the reference page, bound to the fields
// of s. The defaults come from c, which holds the options of the Service's class.
func sections(s *Settings, c cloudconf.LoadBalancer) []section {
	return []section{
		{"Where the load balancer is", place(s, c)},
		{"Floating IP", floatingIP(s, c)},
		{"Kind of load balancer", appliance(s, c)},
		{"Listeners", listeners(s, c)},
		{"Members", members(s, c)},
		{"Health monitors", monitors(s, c)},
		{"Status and sharing", status(s, c)},
		{"Fields of the Service", fields()},
	}
}

// table returns the rows of all sections.
func table(s *Settings, c cloudconf.LoadBalancer) []row {
	var all []row
	for _, section := range sections(s, c) {
		all = append(all, section.rows...)
	}
	return all
}

// Refusable is a setting whose value the cloud may refuse.
type Refusable struct {
	// Option is the annotation without its prefix.
	Option string
	// Value is as in a request; "" for none.
	Value string
	// Words are how services call it in texts that do not have the value; "" for none.
	Words string
}

// Refusable returns the settings whose values the cloud may refuse, but no addresses. A text that
// names several of them is about the first.
func (s Settings) Refusable() []Refusable {
	var bound Settings
	rows := table(&bound, cloudconf.LoadBalancer{}) // it sets defaults
	bound = s
	bound.MemberSubnetID = cmp.Or(s.MemberSubnetID, s.DefaultMemberSubnetID)
	var inner, outer []Refusable
	for _, row := range rows {
		e := row.about()
		each := Refusable{Option: e.optionName(), Value: row.value(), Words: e.refusal}
		switch {
		case !e.mayBeRefused:
		case e.isAround:
			outer = append(outer, each)
		default:
			inner = append(inner, each)
		}
	}
	return append(inner, outer...)
}

func place(s *Settings, c cloudconf.LoadBalancer) []row {
	return []row{
		entry{
			name: AnnotationRegion, typ: "name", limits: "of a region of cloud.conf",
			fatal: true, later: never, own: true,
			meaning: "The region of the load balancer. Its members are the nodes of this region. Without the annotation: the default region of cloud.conf.",
		},
		entry{
			name: annotationClass, typ: "name", limits: "of a section [LoadBalancerClass]",
			fatal: true, later: "as what it sets",
			meaning: "A section [LoadBalancerClass] of cloud.conf. Its options override those of [LoadBalancer]. Annotations override both.",
		},
		annotation(annotationInternal, truth(), &s.Internal, atOnce,
			"Create the load balancer without a floating IP. With `internal-lb = true` in cloud.conf no Service gets a floating IP, and the annotation has no effect.").
			from("internal-lb", c.InternalLB),
		annotation(Prefix+"subnet-id", uuidKind(), &s.SubnetID, newBalancer,
			"The subnet of the load balancer's address. Without `subnet-id` and `network-id`: the subnet of the nodes.").
			from("subnet-id", c.SubnetID).orClass().refusable("").around().
			names("place a load balancer in a subnet of another owner",
				"the project's rights in Neutron"),
		annotation(Prefix+"network-id", uuidKind(), &s.NetworkID, newBalancer,
			"The network of the load balancer's address.").
			from("network-id", c.NetworkID).orClass().refusable("Supplied network").around().
			names("place a load balancer in a network of another owner",
				"the project's rights in Neutron"),
		annotation(Prefix+"port-id", uuidKind(), &s.PortID, newBalancer,
			"An existing Neutron port for the load balancer, which determines its subnet and network. The port must be unused: it has no device, no device owner, and no other load balancer.").
			refusable("").
			names("take over the port of a server or another load balancer, with its floating IP",
				"only an unused port of the project is accepted; the provider never detaches a floating IP of a named port that has no tags of fxccm"),
		entry{
			name: annotationAddress, typ: "IP addresses", fatal: true, own: true,
			limits: "one, or one of each family with a comma",
			later:  addressLater,
			meaning: "The requested address, with the meaning of `" + fieldAddress +
				"`, a field that Kubernetes has deprecated. In a dual-stack Service each family can have one: that of the second family is the second address of the load balancer. An address of a family that the Service does not have, and one that differs from `" + fieldAddress + "`, is refused." +
				" If no subnet of the network contains the second address, a new load balancer is refused; an existing one keeps its addresses, and an event warns of that.",
			misuse: addressMisuse, guard: addressGuard,
		},
		annotation(Prefix+"additional-subnet-id", uuidKind(), &s.AdditionalSubnetID, newBalancer,
			"The subnet of the second address of a dual-stack Service. Without the annotation: the subnet of the load balancer's network that contains the requested address, or else one of the second family.").
			refusable("VIP subnets").around().isOwn().
			names("place a load balancer in a subnet of another owner",
				"the project's rights in Neutron"),
	}
}

func floatingIP(s *Settings, c cloudconf.LoadBalancer) []row {
	return []row{
		annotation(Prefix+"floating-network-id", uuidKind(), &s.FloatingNetworkID, newFloatingIP,
			"The network of the floating IP.").
			from("floating-network-id", c.FloatingNetworkID).orClass().refusable("").around().
			ifEmpty("The external network that the project sees, as if no option named one.").
			names("take a public address of another external network",
				"the quota of the project"),
		annotation(annotationFloatingSubnetID, uuidKind(), &s.FloatingSubnetID, newFloatingIP,
			"The subnet of the floating IP, in its network. Any of the floating-subnet annotations overrides class and cloud.conf for all three; within one source, the id precedes the others.").
			from("floating-subnet-id", c.FloatingSubnetID).orClass().refusable("").
			names("take a public address of a reserved subnet",
				"the quota of the project"),
		annotation(annotationFloatingSubnet, subnetPattern(), &s.FloatingSubnet, newFloatingIP,
			"The subnets of the floating IP, as a name pattern: wildcards, or a regular expression after `~`; a leading `!` negates. fxccm tries them one after the other. A name or a tag finds only subnets that the project sees. The project sees no subnet of another project's external network that is not shared: give `floating-subnet-id` there.").
			from("floating-subnet", c.FloatingSubnet).orClass().
			names("take a public address of a reserved subnet",
				"the quota of the project"),
		annotation(annotationFloatingSubnetTags, text(), &s.FloatingSubnetTags, newFloatingIP,
			"The subnets of the floating IP, by comma-separated tags: any of them or, after `&`, all; a leading `!` negates.").
			from("floating-subnet-tags", c.FloatingSubnetTags).orClass().
			names("take a public address of a reserved subnet",
				"the quota of the project"),
		annotation(annotationFloatingIPID, uuidKind(), &s.FloatingIPID, atOnce,
			"The floating IP, by its ID: an unused one of the project. The Service must be external, with IPv4 as its first family. If `address` or `"+fieldAddress+
				"` requests another address, an event reports that, and the floating IP is not attached.").
			isOwn().names(addressMisuse, addressGuard),
		annotation(annotationFloatingIPTag, floatingIPTag(), &s.FloatingIPTag, atOnce,
			"A pool, by its tag: an unused floating IP of the project that has the tag. fxccm marks it for the Service and, when the Service no longer uses it, removes its marks and never deletes it. If the pool is empty, an event reports that, and fxccm tries again after minutes at most. The Service must be external, with IPv4 as its first family.").
			isOwn().names("use the addresses of a pool that is for others",
			"only an unused floating IP without the tags or the description of another owner is taken; a tag of fxccm or OCCM is refused"),
		annotation(AnnotationKeepFloatingIP, truth(), &s.KeepFloatingIP, atDetaching,
			"Keep the floating IP when the Service is deleted, becomes internal or requests another address. fxccm then removes the Service's tags and description from it."),
	}
}

func appliance(s *Settings, c cloudconf.LoadBalancer) []row {
	return []row{
		annotation(Prefix+"lb-provider", text(), &s.Provider, newBalancer, "Octavia's provider.").
			from("lb-provider", c.LBProvider).ifEmpty("The cloud's default.").
			refusable("").around().isOwn().
			names("use a provider that the operator reserves",
				"the providers that Octavia enables"),
		annotation(Prefix+"flavor-id", uuidKind(), &s.FlavorID, newBalancer, "Octavia's flavor.").
			from("flavor-id", c.FlavorID).ifEmpty("None.").refusable("flavor_id").
			names("use a larger flavor than the operator grants",
				"the flavors that Octavia enables"),
		annotation(Prefix+"availability-zone", text(), &s.AvailabilityZone, newBalancer,
			"Octavia's availability zone.").
			from("availability-zone", c.AvailabilityZone).ifEmpty("None.").
			refusable("availability zone").
			names("use an availability zone that the operator reserves",
				"the zones that Octavia enables"),
		annotation(Prefix+"recreate", truth(), &s.Recreate, atOnce,
			"When something immutable changes, the load balancer is deleted and created again. Connections break, and an address that the Service does not request can change.").
			isOwn(),
	}
}

func listeners(s *Settings, c cloudconf.LoadBalancer) []row {
	return []row{
		annotation(Prefix+"listener-protocols", listenerProtocols(), &s.ListenerProtocols,
			listenersAnew,
			"Comma-separated protocols of single ports, each port by its name in the Service or by its number. A TCP port can have `TCP`, `HTTP`, `HTTPS` (passed through) or `TERMINATED_HTTPS`. A TCP port that is not listed has `TERMINATED_HTTPS` if the Service has a certificate, `HTTP` if it inserts a header, and `TCP` otherwise. UDP and SCTP ports keep their protocol.").
			isOwn(),
		annotation(annotationTLSContainer, tlsContainer(), &s.TLSContainer, firstOrLast,
			"The certificate, by its reference in the key manager. TCP ports become `TERMINATED_HTTPS`. With `container-store = barbican` in cloud.conf it must be a container or a secret of Barbican.").
			from("default-tls-container-ref", c.DefaultTLSContainerRef).ifEmpty("None.").
			refusable("").
			names("serve clients with another owner's certificate and key",
				"the access rights in Barbican; the content is not read"),
		annotation(Prefix+"tls-versions", tlsVersions(), &s.TLSVersions, atOnce,
			"The TLS versions that `TERMINATED_HTTPS` ports accept, with commas between them. Octavia may refuse old ones. The annotation needs such a port and Octavia API 2.17. Without the annotation, a new listener has Octavia's default, and an existing one keeps its versions.").
			refusable("TLS versions").isOwn(),
		annotation(Prefix+"x-forwarded-for", truth(), &s.XForwardedFor, listenersAnew,
			"Insert the client's address as a header. TCP ports become `HTTP`. A Service with this annotation and `proxy-protocol` is refused, as with OCCM."),
		annotation(Prefix+"x-forwarded-port", truth(), &s.XForwardedPort, listenersAnew,
			"Insert the listener's port as a header. TCP ports become `HTTP`.").isOwn(),
		annotation(Prefix+"x-forwarded-proto", truth(), &s.XForwardedProto, listenersAnew,
			"Insert `http` or `https` as a header. TCP ports become `HTTP`.").isOwn(),
		annotation(Prefix+"proxy-protocol", proxyProtocol(), &s.ProxyProtocol, poolsAnew,
			"Send the client's address to members by the PROXY protocol; `true` is version 1. It applies to TCP ports only."),
		entry{
			name: v1.AnnotationLoadBalancerSourceRangesKey, typ: "CIDRs",
			limits: "with commas between them", fatal: true, later: atOnce,
			meaning: "The clients that may connect, if " + fieldSourceRanges + " is empty.",
		},
		annotation(Prefix+"connection-limit", number(-1, math.MaxInt32), &s.ConnectionLimit, atOnce,
			"Maximum number of concurrent connections of each listener; -1 means no limit.").otherwise(-1),
		annotation(Prefix+"timeout-client-data", milliseconds(), &s.TimeoutClientData, atOnce,
			"How long a client may be silent.").otherwise(50000),
		annotation(Prefix+"timeout-member-connect", milliseconds(), &s.TimeoutMemberConnect, atOnce,
			"How long a member may take to accept a connection.").otherwise(5000),
		annotation(Prefix+"timeout-member-data", milliseconds(), &s.TimeoutMemberData, atOnce,
			"How long a member may be silent.").otherwise(50000),
		annotation(Prefix+"timeout-tcp-inspect", milliseconds(), &s.TimeoutTCPInspect, atOnce,
			"How long to wait for more packets to inspect."),
	}
}

func members(s *Settings, c cloudconf.LoadBalancer) []row {
	method := c.LBMethod
	if method == cloudconf.Default().LoadBalancer.LBMethod {
		method = ""
	}
	return []row{
		annotation(Prefix+"lb-method", algorithm(), &s.Algorithm, atOnce,
			"The load balancing algorithm. The ovn provider always uses `SOURCE_IP_PORT`, and an event warns of a requested algorithm that it ignores.").
			from("lb-method", method).ifEmpty("`ROUND_ROBIN`; with ovn `SOURCE_IP_PORT`.").
			refusable(""),
		annotation(Prefix+"node-selector", nodeSelector(), &s.NodeSelector, atOnce,
			"Labels of the nodes that become members, or whose pods do: comma-separated `key=value`, or `key` for any value. A node must have all of them.").
			from("node-selector", ParseNodeSelector(c.NodeSelector)).ifEmpty("All nodes."),
		annotation(Prefix+"member-target", memberTarget(), &s.MemberTarget, membersAnew,
			"The members: `node`, nodes at their node ports; `pod`, the endpoints of the Service at their target ports; or `auto`, which is `pod` if pods of the Service's first IP family can be reached, and otherwise `node`. Pods can be reached if fxccm writes their routes (`router-id` and `--cluster-cidr`) to the router of the load balancer's subnet, or in the ranges of `pod-ranges`. With `pod`, node ports and `externalTrafficPolicy` have no meaning, the health monitor checks the port of the pod, and without a way to the pods the Service is refused.").
			from("member-target", cmp.Or(c.MemberTarget, TargetNode)).orClass().isOwn(),
		annotation(Prefix+"member-subnet-id", uuidKind(), &s.MemberSubnetID, membersAnew,
			"The subnet of members that are nodes; pods are reached from the load balancer's subnet. If neither the annotation, nor the class, nor `member-subnet-id` of cloud.conf is given: `subnet-id` of cloud.conf, or else the subnet of the load balancer.").
			from("member-subnet-id", c.MemberSubnetID).orClass().refusable("").around().
			names("connect the load balancer to a subnet of another owner",
				"the project's rights in Neutron; the addresses are those of nodes"),
	}
}

func monitors(s *Settings, c cloudconf.LoadBalancer) []row {
	preset := cloudconf.Default().LoadBalancer
	delay := monitorTime(c.MonitorDelay, preset.MonitorDelay)
	timeout := monitorTime(c.MonitorTimeout, preset.MonitorTimeout)
	number := number(leastRetries, mostRetries)
	return []row{
		annotation(Prefix+"enable-health-monitor", truth(), &s.Monitor, atOnce,
			"Have Octavia check the members. A Service with `externalTrafficPolicy: Local` needs it: without it, nodes that have no endpoint get connections.").
			from("create-monitor", c.CreateMonitor),
		annotation(annotationHealthMonitorDelay, seconds(), &s.MonitorDelay, atOnce,
			"Time between two checks of a member.").from("monitor-delay", delay).
			refusable("request delay value"),
		annotation(annotationHealthMonitorTimeout, seconds(), &s.MonitorTimeout, atOnce,
			"How long a member may take to answer. It should be shorter than the delay: otherwise an event warns, and both are used.").
			from("monitor-timeout", timeout),
		annotation(Prefix+"health-monitor-max-retries", number, &s.MonitorMaxRetries, atOnce,
			"Successful checks before a member is online again.").
			from("monitor-max-retries", retries(c.MonitorMaxRetries, preset.MonitorMaxRetries)),
		annotation(Prefix+"health-monitor-max-retries-down", number, &s.MonitorMaxRetriesDown,
			atOnce, "Failed checks before a member is taken offline.").
			from("monitor-max-retries-down",
				retries(c.MonitorMaxRetriesDown, preset.MonitorMaxRetriesDown)),
	}
}

func status(s *Settings, c cloudconf.LoadBalancer) []row {
	return []row{
		annotation(Prefix+"hostname", hostname(), &s.Hostname, atOnce,
			"The Service's status shows this instead of an address."),
		annotation(AnnotationShareAs, shareName(), &s.ShareAs, takesApart,
			"The Services of a namespace that have the same name here share a load balancer. They must agree in `class`, in their IP families, and in all annotations and fields about the load balancer itself and its floating IP. Their ports must differ, and `max-shared-listeners` limits the ports of all. Otherwise a Service gets another load balancer of the name, and an event reports that. A class with `share-across-namespaces` shares among all of its namespaces.").
			from("share-as", c.ShareAs).orClass().
			ifEmpty("The Service shares none by a name.").isOwn(),
		annotation(AnnotationLoadBalancerID, uuidKind(), &s.LoadBalancerID, never,
			"The ID of the load balancer. fxccm writes it here. Set it before creation to reuse an existing load balancer: one that a user created, or that of another Service, also in another cluster. At most `max-shared-lb` Services share a load balancer. A load balancer of Services with `share-as` is only for Services that may join it.").
			names("add listeners to the load balancer of another Service",
				"max-shared-lb; the parts of others stay as they are, and one with the UIDs of the cluster but another mark is refused, as is one with OCCM's name or tag for the Service, unless a node of this cluster is a member or the Service's status has its address"),
		entry{
			name: AnnotationLoadBalancerAddress, typ: "address", later: notRead,
			meaning: "The floating IP, or else the load balancer's address. fxccm writes it here, and takes no address from it.",
		},
		entry{
			name: AnnotationLoadBalancerRegion, typ: "name", later: never, own: true,
			meaning: "The region of the load balancer, if cloud.conf has several regions. fxccm writes it here.",
		},
	}
}

func fields() []row {
	return []row{
		entry{
			name: fieldSourceRanges, typ: "CIDRs", fatal: true, later: atOnce,
			meaning: "The clients that may connect. Empty: all, unless the annotation `" +
				v1.AnnotationLoadBalancerSourceRangesKey + "` is there.",
		},
		entry{
			name: fieldAddress, typ: "IP address", fatal: true,
			later:   addressLater,
			meaning: "The requested address. In an external IPv4 Service it is the floating IP, in other Services the address of the load balancer. In a dual-stack Service an address of the second family is the second address of the load balancer. A floating IP is refused if its tags, or a description by fxccm, OCCM or Cluster API's provider, show another owner.",
			misuse:  addressMisuse, guard: addressGuard,
		},
	}
}

// These are what the settings have in common that choose a floating IP.
const (
	addressLater  = "the floating IP: yes; else " + newBalancer
	addressMisuse = "take the floating IP of another Service while it is detached"
	addressGuard  = "a floating IP that is in use, or has the tags or the description of another owner, is refused. The provider checks that again just before it attaches it"
)

// A row of the table is about one annotation, or one field of a Service's spec. A plain [entry] is
// only documented; its value is read elsewhere.
type row interface {
	about() entry
	read(*reader)
	// value is the text of the bound field as in a request; "" for none.
	value() string
}

// entry holds the texts of the reference page.
type entry struct {
	name    string
	meaning string
	// empty is the meaning of an empty value. "": the same as no annotation.
	empty string
	// option of [LoadBalancer] is the default, or ""; of a class, too, if ofClass.
	option  string
	ofClass bool
	later   later
	// own: OCCM does not have this annotation.
	own bool
	// misuse is what a hostile user could do with an annotation that names an object of the cloud,
	// and guard what prevents it besides allowed-annotations. "": it names none.
	misuse, guard string
	// mayBeRefused: the cloud may refuse the value. refusal is how services call it in texts that
	// do not have the value; "" for none. isAround: a text that also names another setting is about
	// the other one.
	mayBeRefused, isAround bool
	refusal                string

	// The kind sets these fields.
	typ, limits string
	fatal       bool
	// preset shows the default.
	preset string
}

func (e entry) about() entry  { return e }
func (e entry) read(*reader)  {}
func (e entry) value() string { return "" }

// later describes whether a change takes effect while the Service has a load balancer.
type later string

const (
	atOnce        later = "yes"
	listenersAnew later = "yes, listeners and pools are recreated"
	firstOrLast   later = "yes; from none to one or back, listeners and pools are recreated"
	poolsAnew     later = "yes, pools are recreated"
	membersAnew   later = "yes, members are recreated"
	newFloatingIP later = "with a new floating IP"
	newBalancer   later = "with a new load balancer"
	atDetaching   later = "yes, it applies when fxccm detaches the floating IP"
	takesApart    later = "yes; a Service that shares its load balancer gets another one"
	never         later = "no"
	notRead       later = ""
)

// A setting is an annotation whose value is a T, bound to a field of Settings.
type setting[T any] struct {
	entry
	kind  kind[T]
	field *T
}

// annotation returns a setting whose default is the zero value.
func annotation[T any](
	name string, kind kind[T], field *T, later later, meaning string,
) setting[T] {
	e := entry{name: name, later: later, meaning: meaning}
	e.typ, e.limits, e.fatal = kind.typ, kind.limits, kind.fatal
	var none T
	return setting[T]{e, kind, field}.otherwise(none)
}

// otherwise sets the default.
func (s setting[T]) otherwise(value T) setting[T] {
	if s.kind.normal != nil {
		value = s.kind.normal(value)
	}
	*s.field, s.preset = value, s.kind.show(value)
	return s
}

// from sets the option of cloud.conf that is the default, and its value.
func (s setting[T]) from(option string, value T) setting[T] {
	s.option = option
	return s.otherwise(value)
}

func (s setting[T]) orClass() setting[T] {
	s.ofClass = true
	return s
}

func (s setting[T]) ifEmpty(meaning string) setting[T] {
	s.empty = meaning
	return s
}

// names declares that the value names an object of the cloud.
func (s setting[T]) names(misuse, guard string) setting[T] {
	s.misuse, s.guard = misuse, guard
	return s
}

// refusable declares that the cloud may refuse the value, and how services then call it in texts
// that do not have the value; "" for none.
func (s setting[T]) refusable(refusal string) setting[T] {
	s.mayBeRefused, s.refusal = true, refusal
	return s
}

// around declares that the value surrounds other settings, as a network does its subnets: a text
// that names both is about the other one.
func (s setting[T]) around() setting[T] {
	s.isAround = true
	return s
}

// value shows lists as octavia.Chosen does.
func (s setting[T]) value() string { return strings.Trim(fmt.Sprint(*s.field), "[]") }

// optionName is the name of an annotation, or of a field, in allowed-annotations.
func (e entry) optionName() string {
	if e.name == fieldAddress {
		return "load-balancer-ip"
	}
	return strings.TrimPrefix(e.name, Prefix)
}

func (s setting[T]) isOwn() setting[T] {
	s.own = true
	return s
}

// A kind defines the values that an annotation can have.
type kind[T any] struct {
	typ, limits string
	// fatal: the default instead of a wrong value would be unsafe or pointless.
	fatal bool
	// parse returns why the value cannot be used, as a clause as in [Problem]; "" if it can.
	parse func(written string, of *v1.Service) (value T, why string)
	show  func(T) string
	// normal, if not nil, normalizes values that were not parsed.
	normal func(T) T
}

func (s setting[T]) read(r *reader) {
	written, ok := r.written(s.name)
	if !ok || written == "" && s.empty == "" || s.misuse != "" && !r.allows(s.entry, written) {
		return
	}
	value, why := s.kind.parse(written, r.service)
	if why == "" {
		*s.field = value
		if written == "" {
			r.emptied = append(r.emptied, s.optionName())
		}
		return
	}
	r.problem(s.name, written, why, s.fatal)
	last := &r.problems[len(r.problems)-1]
	last.AtCreation, last.Default = s.later == newBalancer, s.kind.show(*s.field)
}

// reader reads one Service.
type reader struct {
	service *v1.Service
	// conf is cloud.conf's section, with the options of the class that the Service names.
	conf    cloudconf.LoadBalancer
	classes map[string]cloudconf.LoadBalancerClass
	// class is the class that applies.
	class cloudconf.LoadBalancerClass

	settings Settings
	problems []Problem
	// emptied are the annotations, without the prefix, whose empty value replaces the default.
	emptied []string
}

func (r *reader) written(annotation string) (string, bool) {
	value, ok := r.service.Annotations[annotation]
	return value, ok
}

func (r *reader) says(annotation string) string { return r.service.Annotations[annotation] }

func (r *reader) problem(name, value, why string, fatal bool) {
	r.problems = append(r.problems,
		Problem{Annotation: name, Value: shown(value), Why: why, Fatal: fatal})
}

// sortProblems sorts them in the order of the table.
func (r *reader) sortProblems(table []row) {
	position := map[string]int{}
	for i, row := range table {
		position[row.about().name] = i
	}
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Compare(position[a.Annotation], position[b.Annotation])
	})
}
