package neutron

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SecurityGroup is a security group of Neutron's.
type SecurityGroup struct {
	ID, Name, Description string
	// ProjectID is the owner. Default: [DefaultProject].
	ProjectID string
	// Stateless groups have no rules for answers: extension stateful-security-group.
	Stateless bool
	Tags      []string
	// The rest is the cloud's to give.
	RevisionNumber       int
	CreatedAt, UpdatedAt time.Time
}

// SecurityGroupRule lets traffic pass.
type SecurityGroupRule struct {
	ID, Description string
	// ProjectID is the owner. Default: [DefaultProject].
	ProjectID       string
	SecurityGroupID string
	// Direction is ingress or egress.
	Direction string
	// EtherType is IPv4 or IPv6. Default: IPv4.
	EtherType string
	// Protocol is a name or a number. Default: all.
	Protocol string
	// PortMin and PortMax are included. Default (nil): all.
	PortMin, PortMax *int
	// RemotePrefix or RemoteGroupID is the other side. Default: all.
	RemotePrefix, RemoteGroupID string
	// The rest is the cloud's to give.
	RevisionNumber       int
	CreatedAt, UpdatedAt time.Time
}

func (g *SecurityGroup) standard() standard {
	return standard{
		id: &g.ID, name: &g.Name, description: &g.Description, project: &g.ProjectID, tags: &g.Tags,
		revision: &g.RevisionNumber, created: &g.CreatedAt, updated: &g.UpdatedAt,
	}
}

func (r *SecurityGroupRule) standard() standard {
	return standard{
		id: &r.ID, description: &r.Description, project: &r.ProjectID,
		revision: &r.RevisionNumber, created: &r.CreatedAt, updated: &r.UpdatedAt,
	}
}

// AddSecurityGroup creates a security group, with the two rules for egress that each new one has,
// and returns its id. It panics if the cloud would refuse it.
func (n *Service) AddSecurityGroup(spec SecurityGroup) string {
	return add(n, n.securityGroups, spec)
}

// AddSecurityGroupRule creates a rule and returns its id. It panics if the cloud would refuse it.
func (n *Service) AddSecurityGroupRule(spec SecurityGroupRule) string {
	return add(n, n.securityGroupRules, spec)
}

// SecurityGroups are all security groups, of all projects, in the order of their ids.
func (n *Service) SecurityGroups() []SecurityGroup { return snapshot(n, n.securityGroups) }

// SecurityGroupRules are all rules, of all projects, in the order of their ids.
func (n *Service) SecurityGroupRules() []SecurityGroupRule {
	return snapshot(n, n.securityGroupRules)
}

// DeleteSecurityGroup deletes a security group with its rules, as another client does. It is an
// error if it is in use.
func (n *Service) DeleteSecurityGroup(id string) error { return remove(n, n.securityGroups, id) }

// DeleteSecurityGroupRule deletes a rule, as another client does.
func (n *Service) DeleteSecurityGroupRule(id string) error {
	return remove(n, n.securityGroupRules, id)
}

const defaultGroupName = "default"

func (n *Service) securityGroupKind() *kind[SecurityGroup] {
	k := &kind[SecurityGroup]{
		network: n, rows: map[string]*SecurityGroup{},
		member: "security_group", collection: "security_groups", path: "security-groups",
		operation: "security_group", extension: "security-group",
		standard: (*SecurityGroup).standard,
		missing: func(id string) error {
			return neutronNotFound("SecurityGroupNotFound", "Security group %s does not exist", id)
		},
		expect:  func(c caller) { n.expectDefaultGroup(c.project) },
		admit:   n.admitSecurityGroup,
		settled: n.settleSecurityGroup,
		held:    n.holdSecurityGroup,
		dismiss: n.dismissSecurityGroup,
	}
	k.attributes = append(standardAttributes((*SecurityGroup).standard),
		unless("stateful",
			func(row *SecurityGroup) *bool {
				return &row.Stateless
			}).noFilter().of("stateful-security-group"),
		// That others may use it, by a policy of the extension rbac-security-groups, which is not
		// served.
		shown("shared", func(*SecurityGroup) any { return false }),
		shown("security_group_rules", func(row *SecurityGroup) any {
			rules := []object{}
			for _, rule := range n.rulesOf(row.ID) {
				rules = append(rules, n.securityGroupRules.render(neutronItself(), rule, nil))
			}
			return rules
		}).noFilter(),
	)
	return k
}

func (n *Service) rulesOf(groupID string) []*SecurityGroupRule {
	return slices.DeleteFunc(n.securityGroupRules.all(),
		func(rule *SecurityGroupRule) bool { return rule.SecurityGroupID != groupID })
}

// expectDefaultGroup makes the group "default" of a project when it is first needed.
func (n *Service) expectDefaultGroup(project string) {
	if project != "" {
		n.defaultGroup(project)
	}
}

func (n *Service) defaultGroup(project string) *SecurityGroup {
	for _, group := range n.securityGroups.all() {
		if group.ProjectID == project && group.Name == defaultGroupName {
			return group
		}
	}
	group := &SecurityGroup{
		Name: defaultGroupName, Description: "Default security group",
		ProjectID: project,
	}
	// Nothing refuses it: it is Neutron itself that asks.
	_ = n.securityGroups.insert(neutronItself(), group)
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

// settleSecurityGroup gives a new group its rules: all may leave, and in a group "default" its
// members reach each other.
func (n *Service) settleSecurityGroup(_ caller, old, row *SecurityGroup) error {
	if old != nil {
		return nil
	}
	for _, family := range []string{"IPv4", "IPv6"} {
		rules := []*SecurityGroupRule{{Direction: "egress"}}
		if row.Name == defaultGroupName {
			rules = append(rules, &SecurityGroupRule{Direction: "ingress", RemoteGroupID: row.ID})
		}
		for _, rule := range rules {
			rule.SecurityGroupID, rule.ProjectID, rule.EtherType = row.ID, row.ProjectID, family
			if err := n.securityGroupRules.insert(neutronItself(), rule); err != nil {
				return err
			}
		}
	}
	return nil
}

func (n *Service) holdSecurityGroup(c caller, row *SecurityGroup) error {
	for _, port := range n.ports.all() {
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

func (n *Service) dismissSecurityGroup(_ caller, row *SecurityGroup) error {
	for _, rule := range n.securityGroupRules.all() {
		if rule.SecurityGroupID == row.ID || rule.RemoteGroupID == row.ID {
			n.securityGroupRules.forget(rule)
		}
	}
	return nil
}

func (n *Service) securityGroupRuleKind() *kind[SecurityGroupRule] {
	type row = SecurityGroupRule
	k := &kind[SecurityGroupRule]{
		network: n, rows: map[string]*SecurityGroupRule{},
		member: "security_group_rule", collection: "security_group_rules",
		path:      "security-group-rules",
		operation: "security_group_rule", extension: "security-group",
		standard: (*SecurityGroupRule).standard,
		missing: func(id string) error {
			return neutronNotFound("SecurityGroupRuleNotFound",
				"Security group rule %s does not exist", id)
		},
		expect:  func(c caller) { n.expectDefaultGroup(c.project) },
		admit:   n.admitRule,
		settled: n.settleRule,
		dismiss: func(_ caller, row *SecurityGroupRule) error { n.touchGroup(row); return nil },
	}
	k.attributes = append(standardAttributes((*SecurityGroupRule).standard),
		fieldOf("security_group_id", func(r *row) *string { return &r.SecurityGroupID }).needed(),
		fieldOf("direction", func(r *row) *string { return &r.Direction }).needed(),
		etherTypeAttribute().atCreation(),
		protocolAttribute().atCreation(),
		portAttribute("port_range_min", func(r *row) **int { return &r.PortMin }),
		portAttribute("port_range_max", func(r *row) **int { return &r.PortMax }),
		reference("remote_ip_prefix", func(r *row) *string { return &r.RemotePrefix }).atCreation(),
		reference("remote_group_id", func(r *row) *string { return &r.RemoteGroupID }).atCreation(),
	)
	return k
}

// etherTypeAttribute may be given in any case.
func etherTypeAttribute() attribute[SecurityGroupRule] {
	a := reference("ethertype", func(row *SecurityGroupRule) *string { return &row.EtherType })
	set := a.set
	a.set = func(row *SecurityGroupRule, raw json.RawMessage) error {
		err := set(row, raw)
		for _, known := range []string{"IPv4", "IPv6"} {
			if strings.EqualFold(row.EtherType, known) {
				row.EtherType = known
			}
		}
		return err
	}
	return a
}

// protocolAttribute may be given as a number, and is shown as a text.
func protocolAttribute() attribute[SecurityGroupRule] {
	a := reference("protocol", func(row *SecurityGroupRule) *string { return &row.Protocol })
	setText := a.set
	a.set = func(row *SecurityGroupRule, raw json.RawMessage) error {
		if number, err := strconv.Atoi(string(raw)); err == nil {
			row.Protocol = strconv.Itoa(number)
			return nil
		}
		if err := setText(row, raw); err != nil {
			return err
		}
		row.Protocol = strings.ToLower(row.Protocol)
		return nil
	}
	return a
}

func portAttribute(name string, field func(*SecurityGroupRule) **int) attribute[SecurityGroupRule] {
	a := fieldOf(name, field).atCreation()
	set := a.set
	a.set = func(row *SecurityGroupRule, raw json.RawMessage) error {
		// It may be given as a text.
		var text string
		if json.Unmarshal(raw, &text) == nil {
			raw = json.RawMessage(text)
		}
		return set(row, raw)
	}
	a.get = func(row *SecurityGroupRule) any {
		if port := *field(row); port != nil {
			return *port
		}
		return nil
	}
	return a
}

// protocols are those that the API knows by name.
func protocols() []string {
	return []string{
		"ah", "dccp", "egp", "esp", "gre", "hopopt", "icmp", "icmpv6", "igmp", "ip", "ipip",
		"ipv6-encap", "ipv6-frag", "ipv6-icmp",
		"ipv6-nonxt", "ipv6-opts", "ipv6-route", "ospf", "pgm", "rsvp", "sctp", "tcp", "udp",
		"udplite", "vrrp",
	}
}

func (n *Service) admitRule(c caller, old, row *SecurityGroupRule) error {
	group, err := n.securityGroups.findFor(c, row.SecurityGroupID)
	if err != nil {
		return err
	}
	if row.RemoteGroupID != "" {
		if _, err := n.securityGroups.findFor(c, row.RemoteGroupID); err != nil {
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

// checkRule is what Neutron's securitygroups_db checks of a rule by itself.
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
		// It is spelt so.
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
		// An address is shown as its network, and the bits of the host are kept.
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
	case "icmp", "ipv6-icmp":
		return checkICMP(row)
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

// checkICMP: the "ports" are type and code.
func checkICMP(row *SecurityGroupRule) error {
	for _, part := range []struct {
		name  string
		value *int
	}{{"type (port_range_min)", row.PortMin}, {"code (port_range_max)", row.PortMax}} {
		if part.value != nil && (*part.value < 0 || *part.value > 255) {
			return neutronBadRequest("SecurityGroupInvalidIcmpValue",
				"Invalid value for ICMP %s %d. It must be 0 to 255.", part.name, *part.value)
		}
	}
	if row.PortMin == nil {
		return neutronBadRequest("SecurityGroupMissingIcmpType",
			"ICMP code (port-range-max) %d is provided but ICMP type (port-range-min) is missing.",
			*row.PortMax)
	}
	return nil
}

// canonicalProtocol is the protocol by the name that all of its names and numbers have in common.
func canonicalProtocol(row *SecurityGroupRule) string {
	switch row.Protocol {
	case "1":
		return "icmp"
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "33":
		return "dccp"
	case "58", "icmpv6":
		return "ipv6-icmp"
	case "132":
		return "sctp"
	case "136":
		return "udplite"
	case "icmp":
		if row.EtherType == "IPv6" {
			return "ipv6-icmp"
		}
	}
	return row.Protocol
}

// sameRule tells whether Neutron takes two rules for one: names and numbers of a protocol are the
// same to it, and so are no prefix and the prefix of all addresses, and no ports and all ports
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

func (n *Service) settleRule(_ caller, old, row *SecurityGroupRule) error {
	if old == nil {
		n.touchGroup(row)
	}
	return nil
}

// touchGroup counts a change of a group's rules as one of the group, as Neutron does.
func (n *Service) touchGroup(row *SecurityGroupRule) {
	if group, exists := n.securityGroups.rows[row.SecurityGroupID]; exists {
		n.securityGroups.touch(group)
	}
}
