package settings

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	utilnet "k8s.io/utils/net"

	"github.com/fxccm/fxccm/internal/nearest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// chooseClass applies the class that the Service names.
func (r *reader) chooseClass() {
	name := r.says(annotationClass)
	if name == "" {
		return
	}
	class, ok := r.classes[name]
	if !ok {
		r.problem(annotationClass, name, noSuchClass(name, slices.Sorted(maps.Keys(r.classes))),
			true)
	}
	if namespaces := class.Namespaces; len(namespaces) > 0 &&
		!slices.Contains(namespaces, r.service.Namespace) {
		r.problem(annotationClass, name, "not allowed in namespace "+r.service.Namespace+
			": namespaces of this class in cloud.conf does not list it", true)
		return
	}
	r.class, r.conf = class, withClass(r.conf, class)
}

// refuseOtherRegion: a load balancer cannot move, so an existing one is served where it is.
func (r *reader) refuseOtherRegion(known Regions) {
	if removed := known.Removed(r.service); removed != "" {
		r.problem(AnnotationLoadBalancerRegion, removed, "not a region of cloud.conf that has "+
			"load balancers; add it again, or remove the annotation if the load balancer is deleted",
			true)
		r.problems[len(r.problems)-1].AtCreation = true
		return
	}
	name := cmp.Or(r.says(AnnotationRegion), known.Default)
	if len(known.All) == 0 || name == known.Here {
		return
	}
	why := "not the region of the load balancer, " + known.Here + ", which cannot move; set the " +
		"annotation to that, or delete the Service and create it again"
	if !slices.Contains(known.All, name) {
		why = "not a region of cloud.conf that has load balancers: these are " +
			strings.Join(known.All, ", ")
		if near := nearest.Name(name, known.All); near != "" {
			why += fmt.Sprintf("; did you mean %q?", near)
		}
	}
	r.problem(AnnotationRegion, name, why, true)
	r.problems[len(r.problems)-1].AtCreation = true
}

// allows reports whether the operator allows users to name this object of the cloud. If not, the
// Service is refused: served without the object, it would be something else than requested.
func (r *reader) allows(e entry, written string) bool {
	if e.name == AnnotationLoadBalancerID || r.lists(e) {
		// The ID is also written by fxccm. Only a load balancer of another owner is refused, when
		// it is found.
		return true
	}
	r.problem(e.name, written, "not allowed: allowed-annotations of cloud.conf does not list "+
		e.optionName()+"; remove it, or list it there", true)
	return false
}

// lists reports whether allowed-annotations has the annotation or field.
func (r *reader) lists(e entry) bool {
	return r.conf.Allows(e.optionName())
}

func (r *reader) listsSharing() bool { return r.lists(entry{name: AnnotationLoadBalancerID}) }

// withClass overrides the options that the class has.
func withClass(
	conf cloudconf.LoadBalancer, class cloudconf.LoadBalancerClass,
) cloudconf.LoadBalancer {
	conf.MemberSubnetID = cmp.Or(class.MemberSubnetID, conf.MemberSubnetID)
	conf.AllowedAnnotations = cmp.Or(class.AllowedAnnotations, conf.AllowedAnnotations)
	conf.MemberTarget = cmp.Or(class.MemberTarget, conf.MemberTarget)
	conf.ShareAs = cmp.Or(class.ShareAs, conf.ShareAs)
	conf.NetworkID = cmp.Or(class.NetworkID, conf.NetworkID)
	conf.SubnetID = cmp.Or(class.SubnetID, conf.SubnetID)
	conf.FloatingNetworkID = cmp.Or(class.FloatingNetworkID, conf.FloatingNetworkID)
	// The subnet's ID of one source must not be combined with a pattern of another.
	if cmp.Or(class.FloatingSubnetID, class.FloatingSubnet, class.FloatingSubnetTags) != "" {
		conf.FloatingSubnetID, conf.FloatingSubnet, conf.FloatingSubnetTags =
			class.FloatingSubnetID, class.FloatingSubnet, class.FloatingSubnetTags
	}
	return conf
}

// mostClasses is how many class names an event lists.
const mostClasses = 10

func noSuchClass(name string, known []string) string {
	if len(known) == 0 {
		return "not a load balancer class: cloud.conf has no section [LoadBalancerClass]"
	}
	why := "not a load balancer class: cloud.conf has " +
		shown(strings.Join(known[:min(len(known), mostClasses)], ", "))
	if more := len(known) - mostClasses; more > 0 {
		why += fmt.Sprintf(" and %d more", more)
	}
	if near := nearest.Name(name, known); near != "" {
		why += fmt.Sprintf("; did you mean %q?", near)
	}
	return why
}

// takeSourceRanges reads the ranges of the spec, or else of the annotation.
func (r *reader) takeSourceRanges() {
	name, written := fieldSourceRanges, r.service.Spec.LoadBalancerSourceRanges
	if len(written) == 0 {
		name = v1.AnnotationLoadBalancerSourceRangesKey
		said := strings.TrimSpace(r.says(name))
		if said == "" {
			return
		}
		written = strings.Split(said, ",")
	}
	ranges, wrong, ok := parseRanges(written)
	if !ok {
		r.problem(name, strings.Join(written, ","),
			fmt.Sprintf("not usable: %q is not a CIDR", shown(wrong)), true)
	}
	r.settings.SourceRanges = ranges
}

// takeAddresses reads the addresses of the spec and of the annotation. An invalid one is fatal,
// because no other address may replace it.
func (r *reader) takeAddresses() {
	written := r.service.Spec.LoadBalancerIP
	if written != "" && r.allows(entry{name: fieldAddress}, written) {
		if ip := utilnet.ParseIPSloppy(written); ip != nil {
			*r.addressField(ip) = ip.String()
		} else {
			r.problem(fieldAddress, written, "not an IP address", true)
		}
	}
	written = r.says(annotationAddress)
	if written == "" || !r.allows(entry{name: annotationAddress}, written) {
		return
	}
	requested, why := r.parseAddresses(written)
	if why != "" {
		r.problem(annotationAddress, written, "not usable: "+why, true)
		return
	}
	for _, ip := range requested {
		*r.addressField(ip) = ip.String()
	}
}

// parseAddresses reads the annotation: one address of each IP family of the Service at most. It
// returns why the annotation cannot be used, as a clause; "" if it can.
func (r *reader) parseAddresses(written string) (addresses []net.IP, why string) {
	families := familiesOf(r.service)
	seen := map[v1.IPFamily]bool{}
	for element := range strings.SplitSeq(written, ",") {
		element = strings.TrimSpace(element)
		ip := utilnet.ParseIPSloppy(element)
		if ip == nil {
			return nil, fmt.Sprintf("%q is not an IP address", shown(element))
		}
		family := familyOf(ip)
		has := *r.addressField(ip)
		switch {
		case !slices.Contains(families, family):
			return nil, fmt.Sprintf("%s is an %s address, and spec.ipFamilies has only %s", ip,
				family, families[0])
		case seen[family]:
			return nil, fmt.Sprintf("it has two %s addresses", family)
		case has != "" && has != ip.String():
			return nil, fmt.Sprintf("%s requests %s; remove one of them", fieldAddress, has)
		}
		seen[family] = true
		addresses = append(addresses, ip)
	}
	return addresses, ""
}

// addressField returns the setting for an address: it depends on the family.
func (r *reader) addressField(ip net.IP) *string {
	if families := familiesOf(r.service); len(families) > 1 && familyOf(ip) == families[1] {
		return &r.settings.AdditionalAddress
	}
	return &r.settings.Address
}

// familiesOf returns the IP families of the Service. One from before dual-stack is IPv4.
func familiesOf(service *v1.Service) []v1.IPFamily {
	if len(service.Spec.IPFamilies) > 0 {
		return service.Spec.IPFamilies
	}
	return []v1.IPFamily{v1.IPv4Protocol}
}

func familyOf(ip net.IP) v1.IPFamily {
	if utilnet.IsIPv6(ip) {
		return v1.IPv6Protocol
	}
	return v1.IPv4Protocol
}

// AddressSource names the setting of a Service that requests an address, for people.
func AddressSource(service *v1.Service, address string) string {
	ofSpec := utilnet.ParseIPSloppy(service.Spec.LoadBalancerIP)
	if service.Annotations[annotationAddress] == "" || ofSpec != nil && ofSpec.String() == address {
		return fieldAddress
	}
	return "annotation " + annotationAddress
}

// refuseTwoClientAddresses refuses the combination that OCCM refuses.
func (r *reader) refuseTwoClientAddresses() {
	const forwarded = Prefix + "x-forwarded-for"
	if r.settings.ProxyProtocol != "" && r.settings.XForwardedFor {
		r.problem(forwarded, r.says(forwarded), "not allowed together with proxy-protocol: both "+
			"pass the address of the client; remove one of them", true)
	}
}

// internalByOrder applies the operator's setting that forbids floating IPs.
func (r *reader) internalByOrder() {
	if !r.conf.InternalLB {
		return
	}
	r.settings.Internal = true
	if said := r.says(annotationInternal); said == "false" {
		r.problem(annotationInternal, said, "not allowed here: cloud.conf says internal-lb = true",
			false)
	}
}

// refuseFloatingIPConflicts refuses two choices of a floating IP, and one for a Service that has
// none. Whether a named floating IP has the requested address, only Neutron shows.
func (r *reader) refuseFloatingIPConflicts() {
	s := r.settings
	name := s.FloatingIPBy()
	if name == "" {
		return
	}
	if s.FloatingIPTag != "" {
		other := ""
		switch {
		case s.FloatingIPID != "":
			other = annotationFloatingIPID
		case s.Address != "":
			other = AddressSource(r.service, s.Address)
		}
		if other != "" {
			r.problem(annotationFloatingIPTag, r.says(annotationFloatingIPTag), "not allowed "+
				"together with "+other+": both choose the floating IP; remove one of them", true)
			return
		}
	}
	written := r.says(name)
	switch {
	case r.conf.InternalLB:
		r.problem(name, written, "not allowed here: cloud.conf says internal-lb = true", true)
	case r.settings.Internal:
		r.problem(name, written, "not allowed together with "+annotationInternal+
			": an internal load balancer has no floating IP; remove one of them", true)
	case familiesOf(r.service)[0] == v1.IPv6Protocol:
		r.problem(name, written, "not usable: the first of spec.ipFamilies is IPv6, which has no "+
			"floating IPs", true)
	}
}

// floatingSubnetsOfOneSource: any of the floating-subnet annotations overrides cloud.conf for all
// three. The ID has priority.
func (r *reader) floatingSubnetsOfOneSource() {
	s := &r.settings
	id, pattern, tags := r.says(annotationFloatingSubnetID), r.says(annotationFloatingSubnet),
		r.says(annotationFloatingSubnetTags)
	if cmp.Or(id, pattern, tags) != "" {
		// An invalid setting was normalized to "".
		s.FloatingSubnetID = onlyIf(id != "", s.FloatingSubnetID)
		s.FloatingSubnet = onlyIf(pattern != "", s.FloatingSubnet)
		s.FloatingSubnetTags = onlyIf(tags != "", s.FloatingSubnetTags)
	}
	if s.FloatingSubnetID != "" {
		s.FloatingSubnet, s.FloatingSubnetTags = "", ""
	}
}

func onlyIf(wanted bool, value string) string {
	if wanted {
		return value
	}
	return ""
}

// warnOfMonitorTimes warns of a timeout that is not shorter than the delay. Octavia's documentation
// demands that, but Octavia accepts the times, and so does OCCM. Other times would change how soon
// a member fails. The operator has a warning about those of cloud.conf.
// https://docs.openstack.org/api-ref/load-balancer/v2/#create-health-monitor
func (r *reader) warnOfMonitorTimes() {
	name := annotationHealthMonitorTimeout
	if r.says(name) == "" {
		name = annotationHealthMonitorDelay
	}
	s := &r.settings
	isInvalid := slices.ContainsFunc(r.problems,
		func(p Problem) bool { return p.Annotation == name })
	if r.says(name) == "" || isInvalid || s.MonitorTimeout < s.MonitorDelay {
		return
	}
	r.problems = append(r.problems, Problem{
		Annotation: name, Value: shown(r.says(name)), Used: true,
		Why: fmt.Sprintf("used, although the timeout (%d s) should be shorter than the delay (%d s)",
			int(s.MonitorTimeout/time.Second), int(s.MonitorDelay/time.Second)),
	})
}

// monitorTime returns cloud.conf's value as OCCM reads it: in whole seconds. It returns OCCM's
// default if Octavia would refuse the value.
func monitorTime(value, otherwise time.Duration) time.Duration {
	value = value.Truncate(time.Second)
	if value < time.Second || value > math.MaxInt32*time.Second {
		return otherwise
	}
	return value
}

// retries returns cloud.conf's value, or OCCM's default if Octavia would refuse it.
func retries(value, otherwise int) int {
	if value < leastRetries || value > mostRetries {
		return otherwise
	}
	return value
}

// certificateThatCanBeChecked ignores a certificate that cannot be looked up, if the check of
// certificates is enabled, as OCCM does. The certificate in cloud.conf is the operator's
// responsibility.
func (r *reader) certificateThatCanBeChecked() {
	said := r.says(annotationTLSContainer)
	if r.settings.CheckCertificates && said != "" && len(said) <= longestText &&
		!isSecretRef(said) {
		r.problem(annotationTLSContainer, said,
			"not a reference to a container or a secret of Barbican", true)
		r.settings.TLSContainer = ""
	}
}
