package settings

import (
	"errors"
	"fmt"
	"math"
	"net"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	utilnet "k8s.io/utils/net"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/namepattern"
)

// longestText is the most characters that Octavia accepts in a name or a reference.
const longestText = 255

func asIs(value string) string { return value }

// text is for values that only the cloud can validate.
func text() kind[string] {
	return kind[string]{
		typ: "text", show: asIs,
		parse: func(written string, _ *v1.Service) (string, string) {
			if len(written) > longestText {
				return "", fmt.Sprintf("longer than %d bytes", longestText)
			}
			return written, ""
		},
	}
}

// tlsContainer is for the certificate. It is fatal, so that a typo does not make fxccm serve
// traffic in clear that was to be encrypted.
func tlsContainer() kind[string] {
	k := text()
	k.typ, k.fatal = "URL", true
	return k
}

// tlsVersions is fatal, because the default may admit clients that were to be refused.
func tlsVersions() kind[[]string] {
	known := []string{"SSLv3", "TLSv1", "TLSv1.1", "TLSv1.2", "TLSv1.3"}
	return kind[[]string]{
		typ: "versions", limits: "of " + strings.Join(known, ", "), fatal: true,
		show: func(versions []string) string { return strings.Join(versions, ",") },
		parse: func(written string, _ *v1.Service) ([]string, string) {
			var versions []string
			for _, version := range strings.Split(written, ",") {
				version = strings.TrimSpace(version)
				if !slices.Contains(known, version) {
					return nil,
						fmt.Sprintf("not usable: %q is not one of %s", shown(version),
							strings.Join(known, ", "))
				}
				versions = append(versions, version)
			}
			slices.Sort(versions)
			return slices.Compact(versions), ""
		},
	}
}

// uuidKind is fatal, because no other subnet or load balancer may replace the named one. OpenStack
// shows IDs in lower case with hyphens, and they are compared as texts; Octavia accepts other
// forms, too (wsme.types.UuidType).
func uuidKind() kind[string] {
	return kind[string]{
		typ: "UUID", fatal: true, show: asIs,
		parse: func(written string, _ *v1.Service) (string, string) {
			id, ok := parseUUID(written)
			if !ok && written != "" {
				return "", "not a UUID"
			}
			return id, ""
		},
		normal: func(value string) string {
			if id, ok := parseUUID(value); ok {
				return id
			}
			return value
		},
	}
}

// parseUUID reads a UUID with or without hyphens, as Octavia does.
func parseUUID(text string) (string, bool) {
	const withHyphens, withoutHyphens = 36, 32
	id, err := uuid.Parse(text)
	if err != nil || len(text) != withHyphens && len(text) != withoutHyphens {
		return "", false
	}
	return id.String(), true
}

// truth accepts the words for true and false that OCCM accepts.
func truth() kind[bool] {
	return kind[bool]{
		typ: "true or false", show: strconv.FormatBool,
		parse: func(written string, _ *v1.Service) (bool, string) {
			if written != "true" && written != "false" {
				return false, "neither true nor false"
			}
			return written == "true", ""
		},
	}
}

// number includes both bounds.
func number(low, high int) kind[int] { return numberOf("number", low, high) }

// numberOf is a number with a unit, in the plural.
func numberOf(unit string, low, high int) kind[int] {
	limits := fmt.Sprintf("from %d to %d", low, high)
	if high == math.MaxInt32 {
		limits = fmt.Sprintf("at least %d", low)
	}
	why := "not a whole number of " + unit + ", " + limits
	if unit == "number" {
		why = "not a whole number, " + limits
	}
	return kind[int]{
		typ: unit, limits: limits, show: strconv.Itoa,
		parse: func(written string, _ *v1.Service) (int, string) {
			value, err := strconv.Atoi(written)
			if err != nil || value < low || value > high {
				return 0, why
			}
			return value, ""
		},
	}
}

// milliseconds are a timeout of a listener. The maximum of Octavia's API is 24 days.
func milliseconds() kind[int] {
	const most = 24 * 24 * 60 * 60 * 1000
	k := numberOf("milliseconds", 0, most)
	k.limits = fmt.Sprintf("at most %d", most)
	return k
}

// floatingIPTag is fatal, because the default would be an address that is not in the pool. A tag
// that marks an owner is no pool.
func floatingIPTag() kind[string] {
	k := text()
	parse := k.parse
	k.typ, k.fatal = "tag", true
	k.parse = func(written string, of *v1.Service) (string, string) {
		for _, prefix := range []string{"fxccm-", "kube_service_"} {
			if strings.HasPrefix(written, prefix) {
				return "", "not usable: tags that begin with " + prefix +
					" mark the owner of an object"
			}
		}
		return parse(written, of)
	}
	return k
}

// seconds are whole seconds.
func seconds() kind[time.Duration] {
	whole := numberOf("seconds", 1, math.MaxInt32)
	return kind[time.Duration]{
		typ: whole.typ, limits: whole.limits,
		show: func(d time.Duration) string { return strconv.Itoa(int(d / time.Second)) },
		parse: func(written string, of *v1.Service) (time.Duration, string) {
			value, why := whole.parse(written, of)
			return time.Duration(value) * time.Second, why
		},
	}
}

// word is for a few values; values holds the meaning of each.
func word(typ string, values map[string]string, order ...string) kind[string] {
	return kind[string]{
		typ: typ, limits: strings.Join(order, ", "),
		show: func(value string) string {
			for _, written := range order {
				if values[written] == value {
					return written
				}
			}
			return value
		},
		parse: func(written string, _ *v1.Service) (string, string) {
			value, ok := values[written]
			if !ok && written != "" {
				return "", "none of " + strings.Join(order, ", ")
			}
			return value, ""
		},
	}
}

func algorithm() kind[string] {
	all := []string{"ROUND_ROBIN", "LEAST_CONNECTIONS", "SOURCE_IP", "SOURCE_IP_PORT"}
	same := map[string]string{}
	for _, name := range all {
		same[name] = name
	}
	return word("one of", same, all...)
}

// Values of [Settings].MemberTarget.
const (
	// TargetNode: the members are nodes, at their node ports.
	TargetNode = "node"
	// TargetPod: the members are the endpoints of the Service.
	TargetPod = "pod"
	// TargetAuto: the members are the endpoints if they can be reached, and otherwise nodes.
	TargetAuto = "auto"
)

func memberTarget() kind[string] {
	return word("one of", map[string]string{
		TargetNode: TargetNode, TargetPod: TargetPod, TargetAuto: TargetAuto,
	}, TargetNode, TargetPod, TargetAuto)
}

func proxyProtocol() kind[string] {
	return word("one of", map[string]string{
		"false": "", "true": octavia.Proxy, "v1": octavia.Proxy, "v2": octavia.ProxyV2,
	}, "false", "true", "v1", "v2")
}

// subnetPattern is fatal: without the pattern, an address could come from any subnet. Wildcards are
// checked when they are needed.
func subnetPattern() kind[string] {
	return kind[string]{
		typ: "pattern", limits: fmt.Sprintf("at most %d bytes", longestText),
		fatal: true, show: asIs, parse: func(written string, _ *v1.Service) (string, string) {
			if len(written) > longestText {
				return "", fmt.Sprintf("longer than %d bytes", longestText)
			}
			switch err := namepattern.Check(written); {
			case errors.Is(err, namepattern.ErrTooLarge):
				return "", "not usable: " + namepattern.ErrTooLarge.Error()
			case err != nil && strings.HasPrefix(strings.TrimPrefix(written, "!"), "~"):
				return "", `no regular expression after "~"`
			}
			return written, ""
		},
	}
}

// hostname is a hostname that the API server accepts in a status.
func hostname() kind[string] {
	return kind[string]{
		typ: "host name", show: asIs,
		parse: func(written string, _ *v1.Service) (string, string) {
			if len(validation.IsDNS1123Subdomain(written)) > 0 || net.ParseIP(written) != nil {
				return "", "not a host name"
			}
			return written, ""
		},
	}
}

// nodeSelector is fatal: another selector would make the wrong nodes members.
func nodeSelector() kind[NodeSelector] {
	return kind[NodeSelector]{
		typ: "labels", fatal: true, show: NodeSelector.String,
		parse: func(written string, _ *v1.Service) (NodeSelector, string) {
			selector := ParseNodeSelector(written)
			for _, l := range selector.labels {
				if len(validation.IsQualifiedName(l.key)) > 0 ||
					len(validation.IsValidLabelValue(l.value)) > 0 {
					return NodeSelector{},
						fmt.Sprintf("not usable: no node can have the label %q; "+
							"give comma-separated labels, each as key=value or key",
							shown(l.String()))
				}
			}
			return selector, ""
		},
	}
}

// listenerProtocols is fatal: traffic that was to be encrypted or inspected would pass unchanged.
func listenerProtocols() kind[ListenerProtocols] {
	return kind[ListenerProtocols]{
		typ: "port=PROTOCOL, ...", fatal: true, parse: parseListenerProtocols,
		show: func(ListenerProtocols) string { return "" },
	}
}

func parseListenerProtocols(written string, of *v1.Service) (ListenerProtocols, string) {
	protocols := ListenerProtocols{}
	for _, element := range strings.Split(written, ",") {
		name, protocol, found := strings.Cut(element, "=")
		name, protocol = strings.TrimSpace(name), strings.TrimSpace(protocol)
		if !found || name == "" {
			return nil,
				fmt.Sprintf("not usable: %q is not of the form port=PROTOCOL", shown(element))
		}
		ports := portsCalled(name, of)
		if len(ports) == 0 {
			return nil, fmt.Sprintf("not usable: the Service has no port %q", shown(name))
		}
		i := slices.IndexFunc(ports, func(p v1.ServicePort) bool {
			return slices.Contains(protocolsOver(p), protocol)
		})
		if i < 0 {
			return nil,
				fmt.Sprintf("not usable: the protocol of port %s is not one of %s", name,
					strings.Join(protocolsOver(ports[0]), ", "))
		}
		key := portKey(ports[i])
		if _, twice := protocols[key]; twice {
			return nil, fmt.Sprintf("not usable: port %s is there twice", name)
		}
		protocols[key] = protocol
	}
	return protocols, ""
}

// portsCalled returns the ports of the Service with the name, or else with the number: a UDP port
// can have the number of a TCP port.
func portsCalled(name string, service *v1.Service) []v1.ServicePort {
	var byName, byNumber []v1.ServicePort
	for _, port := range service.Spec.Ports {
		switch name {
		case port.Name:
			byName = append(byName, port)
		case strconv.Itoa(int(port.Port)):
			byNumber = append(byNumber, port)
		}
	}
	if len(byName) > 0 {
		return byName
	}
	return byNumber
}

func portKey(port v1.ServicePort) string {
	if port.Name != "" {
		return port.Name
	}
	return strconv.Itoa(int(port.Port))
}

// protocolsOver returns the protocols of listeners that a port of a Service can have.
func protocolsOver(port v1.ServicePort) []string {
	switch port.Protocol {
	case v1.ProtocolUDP:
		return []string{octavia.UDP}
	case v1.ProtocolSCTP:
		return []string{octavia.SCTP}
	}
	return []string{octavia.TCP, octavia.HTTP, octavia.HTTPS, octavia.TerminatedHTTPS}
}

// parseRanges reads CIDRs as the API server does. It leaves invalid ones out, and returns the first
// of them.
func parseRanges(written []string) (ranges []string, wrong string, ok bool) {
	ranges, ok = []string{}, true
	for _, element := range written {
		_, cidr, err := utilnet.ParseCIDRSloppy(strings.TrimSpace(element))
		switch {
		case err == nil:
			ranges = append(ranges, cidr.String())
		case ok:
			wrong, ok = element, false
		}
	}
	slices.Sort(ranges)
	return slices.Compact(ranges), wrong, ok
}

// isSecretRef reports whether a reference has a form that can be looked up in Barbican:
// .../containers/<id> or .../secrets/<id>.
func isSecretRef(ref string) bool {
	kind := path.Base(path.Dir(ref))
	return (kind == "containers" || kind == "secrets") && !strings.HasSuffix(ref, "/")
}

// NodeSelector chooses the nodes that become members. The zero value chooses all.
type NodeSelector struct {
	// labels are sorted by unique keys.
	labels []label
}

// label with the value "" matches any value.
type label struct{ key, value string }

func (l label) String() string {
	if l.value == "" {
		return l.key
	}
	return l.key + "=" + l.value
}

// ParseNodeSelector parses labels: key=value or key, with commas between them. The last of a
// repeated key is used. An invalid label selects no node.
func ParseNodeSelector(text string) NodeSelector {
	wanted := map[string]string{}
	for element := range strings.SplitSeq(text, ",") {
		key, value, found := strings.Cut(element, "=")
		key = strings.TrimSpace(key)
		if key == "" && !found {
			continue
		}
		wanted[key] = strings.TrimSpace(value)
	}
	var s NodeSelector
	for key, value := range wanted {
		s.labels = append(s.labels, label{key, value})
	}
	slices.SortFunc(s.labels, func(a, b label) int { return strings.Compare(a.key, b.key) })
	return s
}

// Matches reports whether a node with these labels is selected.
func (s NodeSelector) Matches(labels map[string]string) bool {
	for _, wanted := range s.labels {
		value, ok := labels[wanted.key]
		if !ok || wanted.value != "" && value != wanted.value {
			return false
		}
	}
	return true
}

// String returns the form that [ParseNodeSelector] parses.
func (s NodeSelector) String() string {
	var all []string
	for _, l := range s.labels {
		all = append(all, l.String())
	}
	return strings.Join(all, ",")
}
