package neutron

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// SecurityGroup is a security group of Neutron.
type SecurityGroup struct {
	ID          string `api:"id,ro"`
	Name        string `api:"name"`
	Description string `api:"description"`
	// ProjectID is the owner. Default: the default project.
	ProjectID string `api:"project_id|tenant_id,ro"`
	// Stateless groups have no rules for answers: extension stateful-security-group.
	Stateless bool     `api:"stateful,not,nofilter,feature=stateful-security-group"`
	Tags      []string `api:"tags,ro,feature=standard-attr-tag"`
	Stamps
}

// SecurityGroupRule allows traffic.
type SecurityGroupRule struct {
	ID          string `api:"id,ro"`
	Description string `api:"description"`
	// ProjectID is the owner. Default: the default project.
	ProjectID       string `api:"project_id|tenant_id,ro"`
	SecurityGroupID string `api:"security_group_id,create,required"`
	// Direction is ingress or egress.
	Direction string `api:"direction,create,required"`
	// EtherType is IPv4 or IPv6. Default: IPv4.
	EtherType string `api:"ethertype,create,null"`
	// Protocol is a name or a number. Default: all.
	Protocol string `api:"protocol,create,null"`
	// PortMin and PortMax are inclusive. Default (nil): all.
	PortMin *int `api:"port_range_min,create,loose"`
	PortMax *int `api:"port_range_max,create,loose"`
	// RemotePrefix or RemoteGroupID is the peer. Default: all.
	RemotePrefix  string `api:"remote_ip_prefix,create,null"`
	RemoteGroupID string `api:"remote_group_id,create,null"`
	Stamps
}

const defaultGroupName = "default"

func (n *Service) securityGroupKind() *kind[SecurityGroup] {
	return newKind(n, kind[SecurityGroup]{
		member: "security_group", extension: "security-group",
		missing: notFound("SecurityGroupNotFound", "Security group %s does not exist"),
		expect:  func(c caller) { n.expectDefaultGroup(c.project) },
		admit:   n.admitSecurityGroup,
		settled: n.settleSecurityGroup,
		held:    n.holdSecurityGroup,
		dismiss: n.dismissSecurityGroup,
	}, resource.Field[SecurityGroup]{
		Name: "security_group_rules", Unfiltered: true,
		Get: func(row *SecurityGroup) any {
			rules := []object{}
			for _, rule := range n.rulesOf(row.ID) {
				rules = append(rules, n.SecurityGroupRules.render(neutronItself(), rule, nil))
			}
			return rules
		},
	})
}

func (n *Service) rulesOf(groupID string) []*SecurityGroupRule {
	return slices.DeleteFunc(n.SecurityGroupRules.All(),
		func(rule *SecurityGroupRule) bool { return rule.SecurityGroupID != groupID })
}

// expectDefaultGroup creates the group "default" of a project when it is first needed.
func (n *Service) expectDefaultGroup(project string) {
	if project != "" {
		n.defaultGroup(project)
	}
}

func (n *Service) defaultGroup(project string) *SecurityGroup {
	for _, group := range n.SecurityGroups.All() {
		if group.ProjectID == project && group.Name == defaultGroupName {
			return group
		}
	}
	group := &SecurityGroup{
		Name: defaultGroupName, Description: "Default security group",
		ProjectID: project,
	}
	// It cannot fail, because the caller is Neutron itself.
	_ = n.SecurityGroups.insert(neutronItself(), group)
	return group
}

func (n *Service) admitSecurityGroup(c caller, old, row *SecurityGroup) error {
	renamed := old == nil || old.Name != row.Name
	if renamed && row.Name == defaultGroupName && !c.neutron {
		return neutronConflict("SecurityGroupDefaultAlreadyExists",
			"Default security group already exists.")
	}
	if old != nil && renamed && old.Name == defaultGroupName {
		return neutronConflict("SecurityGroupCannotUpdateDefault",
			"Updating default security group not allowed.")
	}
	return nil
}

// settleSecurityGroup creates the rules of a new group: all egress, and in a group "default" also
// traffic between its members.
func (n *Service) settleSecurityGroup(_ caller, old, row *SecurityGroup) {
	if old != nil {
		return
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		rules := []*SecurityGroupRule{{Direction: "egress"}}
		if row.Name == defaultGroupName {
			rules = append(rules, &SecurityGroupRule{Direction: "ingress", RemoteGroupID: row.ID})
		}
		for _, rule := range rules {
			rule.SecurityGroupID, rule.ProjectID, rule.EtherType = row.ID, row.ProjectID, family
			// It cannot fail, because the group has no other rules.
			_ = n.SecurityGroupRules.insert(neutronItself(), rule)
		}
	}
}

func (n *Service) holdSecurityGroup(c caller, row *SecurityGroup) error {
	for _, port := range n.Ports.All() {
		if slices.Contains(port.SecurityGroups, row.ID) {
			return neutronConflict("SecurityGroupInUse", "Security Group %s in use.", row.ID)
		}
	}
	if row.Name == defaultGroupName && !c.admin {
		return neutronConflict("SecurityGroupCannotRemoveDefault",
			"Insufficient rights for removing default security group.")
	}
	return nil
}

func (n *Service) dismissSecurityGroup(row *SecurityGroup) {
	for _, rule := range n.SecurityGroupRules.All() {
		if rule.SecurityGroupID == row.ID || rule.RemoteGroupID == row.ID {
			n.SecurityGroupRules.forget(rule)
		}
	}
}

func (n *Service) securityGroupRuleKind() *kind[SecurityGroupRule] {
	k := newKind(n, kind[SecurityGroupRule]{
		member: "security_group_rule", extension: "security-group",
		missing: notFound("SecurityGroupRuleNotFound", "Security group rule %s does not exist"),
		expect:  func(c caller) { n.expectDefaultGroup(c.project) },
		admit:   n.admitRule,
		settled: n.settleRule,
		dismiss: n.touchGroup,
	})
	// Clients write the family in upper or lower case, and may use the protocol's number.
	k.fields.Change("ethertype", func(row *SecurityGroupRule, _ json.RawMessage) error {
		for _, known := range []string{"IPv4", "IPv6"} {
			if strings.EqualFold(row.EtherType, known) {
				row.EtherType = known
			}
		}
		return nil
	})
	protocol := k.fields.Field("protocol")
	setText := protocol.Set
	protocol.Set = func(row *SecurityGroupRule, raw json.RawMessage) error {
		if number, err := strconv.Atoi(string(raw)); err == nil {
			raw = json.RawMessage(strconv.Quote(strconv.Itoa(number)))
		}
		err := setText(row, raw)
		row.Protocol = strings.ToLower(row.Protocol)
		return err
	}
	return k
}

// protocols are the protocols that have a name in the API.
func protocols() []string {
	return []string{
		"ah", "dccp", "egp", "esp", "gre", "hopopt", "icmp", "icmpv6", "igmp", "ip", "ipip",
		"ipv6-encap", "ipv6-frag", "ipv6-icmp",
		"ipv6-nonxt", "ipv6-opts", "ipv6-route", "ospf", "pgm", "rsvp", "sctp", "tcp", "udp",
		"udplite", "vrrp",
	}
}

func (n *Service) admitRule(c caller, old, row *SecurityGroupRule) error {
	group, err := n.SecurityGroups.findFor(c, row.SecurityGroupID)
	if err != nil {
		return err
	}
	if row.RemoteGroupID != "" {
		if _, err := n.SecurityGroups.findFor(c, row.RemoteGroupID); err != nil {
			return err
		}
	}
	if row.EtherType == "" {
		row.EtherType = "IPv4"
	}
	if row.ProjectID == "" {
		row.ProjectID = group.ProjectID
	}
	if err := checkRule(row); err != nil {
		return err
	}
	for _, other := range n.rulesOf(row.SecurityGroupID) {
		if old == nil && sameRule(other, row) {
			return neutronConflict("SecurityGroupRuleExists",
				"Security group rule already exists. Rule id is %s.", other.ID)
		}
	}
	return nil
}

// checkRule has the checks of a single rule in Neutron's securitygroups_db.
func checkRule(row *SecurityGroupRule) error {
	invalid := func(kind, text string) error { return neutronBadRequest(kind, "%s", text) }
	if row.Direction != "ingress" && row.Direction != "egress" {
		return invalidInput("direction", row.Direction+" is not in valid_values")
	}
	if row.EtherType != "IPv4" && row.EtherType != "IPv6" {
		return invalid("SecurityGroupRuleInvalidEtherType",
			"Security group rule for ethertype '"+row.EtherType+
				"' not supported. Allowed values are ['IPv4', 'IPv6'].")
	}
	if number, err := strconv.Atoi(row.Protocol); row.Protocol != "" &&
		!slices.Contains(protocols(), row.Protocol) &&
		(err != nil || number < 0 || number > 255) {
		return invalid("SecurityGroupRuleInvalidProtocol",
			"Security group rule protocol "+row.Protocol+
				" not supported. Only protocol values [None, '"+strings.Join(protocols(), "', '")+
				"'] and integer representations [0 to 255] are supported.")
	}
	if strings.HasPrefix(canonicalProtocol(row), "ipv6") && row.EtherType == "IPv4" {
		return invalid("SecurityGroupEthertypeConflictWithProtocol",
			"Invalid ethertype IPv4 for protocol "+row.Protocol+".")
	}
	if row.RemotePrefix != "" && row.RemoteGroupID != "" {
		// The typo is Neutron's.
		return invalid("SecurityGroupMultipleRemoteEntites",
			"Only one of remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.")
	}
	if row.RemotePrefix != "" {
		prefix, err := prefixOf(row.RemotePrefix)
		if err != nil {
			return invalid("InvalidCIDR", "Invalid CIDR "+row.RemotePrefix+" given as IP prefix.")
		}
		if prefix.Addr().Is4() != (row.EtherType == "IPv4") {
			return invalid("SecurityGroupRuleParameterConflict",
				"Conflicting value ethertype "+row.EtherType+" for CIDR "+row.RemotePrefix)
		}
		// An address is shown as its network, with the bits of the host.
		row.RemotePrefix = prefix.String()
	}
	return checkPortRange(row)
}

func prefixOf(text string) (netip.Prefix, error) {
	if address, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(address, address.BitLen()), nil
	}
	return netip.ParsePrefix(text)
}

func checkPortRange(row *SecurityGroupRule) error {
	if row.PortMin == nil && row.PortMax == nil {
		return nil
	}
	switch canonicalProtocol(row) {
	case "":
		return neutronBadRequest("SecurityGroupProtocolRequiredWithPorts",
			"Must also specify protocol if port range is given.")
	case "tcp", "udp", "sctp", "dccp", "udplite":
		return checkPorts(row)
	}
	return nil
}

func checkPorts(row *SecurityGroupRule) error {
	for _, port := range []*int{row.PortMin, row.PortMax} {
		if port != nil && (*port < 1 || *port > 65535) {
			return neutronBadRequest("SecurityGroupInvalidPortValue", "Invalid value for port %d",
				*port)
		}
	}
	if row.PortMin == nil || row.PortMax == nil || *row.PortMin > *row.PortMax {
		return neutronBadRequest("SecurityGroupInvalidPortRange",
			"For TCP/UDP protocols, port_range_min must be <= port_range_max")
	}
	return nil
}

// canonicalProtocol replaces a number or an older name by the name, for the protocols that Services
// and neighbor discovery need.
func canonicalProtocol(row *SecurityGroupRule) string {
	switch row.Protocol {
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "58", "icmpv6":
		return "ipv6-icmp"
	case "132":
		return "sctp"
	}
	return row.Protocol
}

// sameRule reports whether Neutron treats two rules as equal. A protocol's name equals its number,
// no prefix equals the prefix of all addresses, and no ports equal all ports
// (neutron/db/securitygroups_db.py, _rules_equal).
func sameRule(a, b *SecurityGroupRule) bool {
	type essence struct{ direction, family, protocol, ports, prefix, group string }
	of := func(rule *SecurityGroupRule) essence {
		ports, _ := json.Marshal([]*int{rule.PortMin, rule.PortMax})
		if rule.PortMin != nil && rule.PortMax != nil && *rule.PortMin == 1 &&
			*rule.PortMax == 65535 {
			ports, _ = json.Marshal([]*int{nil, nil})
		}
		prefix := rule.RemotePrefix
		if prefix == "0.0.0.0/0" || prefix == "::/0" {
			prefix = ""
		}
		return essence{
			rule.Direction, rule.EtherType, canonicalProtocol(rule), string(ports),
			prefix, rule.RemoteGroupID,
		}
	}
	return of(a) == of(b)
}

func (n *Service) settleRule(_ caller, old, row *SecurityGroupRule) {
	if old == nil {
		n.touchGroup(row)
	}
}

// touchGroup gives the group a new revision when its rules change, like Neutron.
func (n *Service) touchGroup(row *SecurityGroupRule) {
	if group, exists := n.SecurityGroups.rows[row.SecurityGroupID]; exists {
		n.SecurityGroups.touch(group)
	}
}
