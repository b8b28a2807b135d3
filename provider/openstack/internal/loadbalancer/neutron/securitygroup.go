package neutron

import (
	"cmp"
	"context"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
)

// securityGroup is a security group as Neutron shows it.
type securityGroup struct {
	ID          string   `json:"id"`
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Tags        []string `json:"tags"`
	// CreatedAt has a form that sorts by time. It is empty if the cloud keeps no times.
	CreatedAt string `json:"created_at"`
	Rules     []rule `json:"security_group_rules"`
}

func (g securityGroup) identifier() string { return g.ID }

func (g securityGroup) value() *SecurityGroup {
	value := &SecurityGroup{
		ID: g.ID, Name: g.Name, Description: g.Description,
		Tags: g.Tags,
	}
	for _, r := range g.Rules {
		value.Rules = append(value.Rules, r.value())
	}
	return value
}

// rule is a rule as Neutron shows it: null matches everything.
type rule struct {
	ID                   string `json:"id"`
	Direction            string `json:"direction"`
	EtherType            string `json:"ethertype"`
	Protocol             string `json:"protocol"`
	PortMin              int    `json:"port_range_min"`
	PortMax              int    `json:"port_range_max"`
	RemotePrefix         string `json:"remote_ip_prefix"`
	RemoteGroupID        string `json:"remote_group_id"`
	RemoteAddressGroupID string `json:"remote_address_group_id"`
}

func (r rule) value() Rule {
	return Rule{
		ID: r.ID, Direction: strings.ToLower(r.Direction), EtherType: etherType(r.EtherType),
		Protocol: protocolName(r.Protocol),
		PortMin:  r.PortMin, PortMax: r.PortMax, RemotePrefix: r.remote(),
	}
}

// remote returns the remote side as a canonical CIDR: Neutron treats no prefix and the prefix of
// all addresses as duplicates. For the members of a group it returns a description, so that the
// rule equals no desired rule.
func (r rule) remote() string {
	switch {
	case r.RemoteGroupID != "":
		return "security group " + r.RemoteGroupID
	case r.RemoteAddressGroupID != "":
		return "address group " + r.RemoteAddressGroupID
	case r.RemotePrefix == "" && etherType(r.EtherType) == "IPv6":
		return "::/0"
	case r.RemotePrefix == "":
		return "0.0.0.0/0"
	}
	if prefix, err := netip.ParsePrefix(r.RemotePrefix); err == nil {
		return prefix.Masked().String()
	}
	if address, err := netip.ParseAddr(r.RemotePrefix); err == nil {
		return netip.PrefixFrom(address, address.BitLen()).String()
	}
	return r.RemotePrefix
}

func etherType(text string) string {
	switch strings.ToLower(text) {
	case "ipv4":
		return "IPv4"
	case "ipv6":
		return "IPv6"
	}
	return text
}

// protocolName returns the name of a protocol, which Neutron shows as a number if the creator of
// the rule used one.
func protocolName(text string) string {
	switch text {
	case "6":
		return "tcp"
	case "17":
		return "udp"
	case "132":
		return "sctp"
	}
	return strings.ToLower(text)
}

// SecurityGroup returns the security group of the project with that name, and its rules; nil if it
// does not exist. If several have the name, it returns the oldest. Concurrent calls share their
// requests.
func (a *API) SecurityGroup(ctx context.Context, name string) (*SecurityGroup, error) {
	found, _, err := a.groups.one(ctx, name)
	return found, err
}

// LeftSecurityGroup is SecurityGroup for a group that an earlier CCM may have left. It may only be
// used if this process creates no groups. All names are listed once an hour, so most calls make no
// request.
func (a *API) LeftSecurityGroup(ctx context.Context, name string) (*SecurityGroup, error) {
	names, _, err := a.groupNames.one(ctx, "")
	if err != nil || !names[name] {
		return nil, err
	}
	return a.SecurityGroup(ctx, name)
}

// TaggedSecurityGroups returns the security groups of the project with the tag. It uses no cache.
func (a *API) TaggedSecurityGroups(ctx context.Context, tag string) ([]SecurityGroup, error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return nil, fmt.Errorf("list security groups: %w", err)
	}
	all, err := list[securityGroup](ctx, a, "security-groups", "security_groups", url.Values{
		"project_id": {project}, "fields": {"id", "name", "description", "tags"},
	})
	if err != nil {
		return nil, err
	}
	var found []SecurityGroup
	for _, g := range all {
		if slices.Contains(g.Tags, tag) { // a Neutron without tags ignores a filter for them
			found = append(found, *g.value())
		}
	}
	return found, nil
}

func (a *API) readGroupNames(ctx context.Context, _ []string) (map[string]map[string]bool, error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return nil, fmt.Errorf("list security groups: %w", err)
	}
	all, err := list[securityGroup](ctx, a, "security-groups", "security_groups",
		url.Values{"project_id": {project}, "fields": {"id", "name"}})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, g := range all {
		names[g.Name] = true
	}
	return map[string]map[string]bool{"": names}, nil
}

func (a *API) readSecurityGroups(
	ctx context.Context, names []string,
) (map[string]*SecurityGroup, error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return nil, fmt.Errorf("list security groups: %w", err)
	}
	all, err := listBy[securityGroup](ctx, a, "security-groups", "security_groups", "name", names,
		url.Values{
			"project_id": {project},
			"fields": {
				"id", "name", "description", "tags", "created_at",
				"security_group_rules",
			},
		})
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all,
		func(a, b securityGroup) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	found := map[string]*SecurityGroup{}
	for _, g := range all {
		if found[g.Name] == nil {
			found[g.Name] = g.value()
		}
	}
	return found, nil
}

// CreateSecurityGroup creates a security group without rules, and tags it. Neutron adds two rules
// to each new group, which admit all outgoing traffic. They are deleted, as OCCM does, because a
// Service does not decide about the outgoing traffic of a node. A group with an ID beside an error
// was created, but may lack its tags or keep such rules.
func (a *API) CreateSecurityGroup(
	ctx context.Context, group SecurityGroup,
) (SecurityGroup, error) {
	var made securityGroup
	err := a.request(ctx, "create security group "+group.Name,
		func(client *gophercloud.ServiceClient) (err error) {
			made, err = extract[securityGroup](
				groups.Create(ctx, client,
					groups.CreateOpts{Name: group.Name, Description: group.Description}).Result,
				"security_group")
			return err
		})
	if err != nil {
		return SecurityGroup{}, err
	}
	value := *made.value()
	for len(value.Rules) > 0 {
		if err := a.DeleteRule(ctx, value.Rules[0].ID); err != nil {
			return value, err
		}
		value.Rules = value.Rules[1:]
	}
	if len(group.Tags) == 0 {
		return value, nil
	}
	if err := a.TagSecurityGroup(ctx, made.ID, group.Tags); err != nil {
		return value, err
	}
	value.Tags = group.Tags
	return value, nil
}

// TagSecurityGroup replaces the tags. It is a no-op on a cloud without tags.
func (a *API) TagSecurityGroup(ctx context.Context, id string, tags []string) error {
	return a.replaceTags(ctx, "security-groups", id, tags)
}

// DeleteSecurityGroup fails while a port has the group. It succeeds if the group does not exist.
func (a *API) DeleteSecurityGroup(ctx context.Context, id string) error {
	return a.remove(ctx, "delete security group "+id,
		func(client *gophercloud.ServiceClient) error {
			return groups.Delete(ctx, client, id).ExtractErr()
		})
}

// CreateRule adds a rule to a group. It succeeds if the rule exists.
func (a *API) CreateRule(ctx context.Context, groupID string, r Rule) error {
	err := a.request(ctx, "create a rule of security group "+groupID,
		func(client *gophercloud.ServiceClient) error {
			_, err := extract[made](rules.Create(ctx, client, rules.CreateOpts{
				SecGroupID: groupID, Direction: rules.RuleDirection(r.Direction),
				EtherType: rules.RuleEtherType(r.EtherType),
				Protocol:  rules.RuleProtocol(r.Protocol), PortRangeMin: r.PortMin,
				PortRangeMax: r.PortMax, RemoteIPPrefix: r.RemotePrefix,
			}).Result, "security_group_rule")
			return err
		})
	if isKind(err, "SecurityGroupRuleExists") {
		return nil
	}
	return err
}

// made reads the ID of a new object.
type made struct {
	ID string `json:"id"`
}

func (m made) identifier() string { return m.ID }

// DeleteRule succeeds if the rule does not exist.
func (a *API) DeleteRule(ctx context.Context, id string) error {
	return a.remove(ctx, "delete security group rule "+id,
		func(client *gophercloud.ServiceClient) error {
			return rules.Delete(ctx, client, id).ExtractErr()
		})
}
