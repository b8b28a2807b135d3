package neutron

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/groups"
	"github.com/gophercloud/gophercloud/v2/openstack/networking/v2/extensions/security/rules"
)

// SecurityGroup returns the security group of the project with that name, and its rules; nil if it
// does not exist. If several have the name, it returns the oldest. Concurrent calls share their
// requests.
func (a *API) SecurityGroup(ctx context.Context, name string) (*SecurityGroup, error) {
	found, _, err := a.groups.One(ctx, name)
	return found, err
}

// LeftSecurityGroup is SecurityGroup for a group that an earlier CCM may have left. It may only be
// used if this process creates no groups. All names are listed once an hour, so most calls make no
// request.
func (a *API) LeftSecurityGroup(ctx context.Context, name string) (*SecurityGroup, error) {
	names, _, err := a.groupNames.One(ctx, "")
	if err != nil || !names[name] {
		return nil, err
	}
	return a.SecurityGroup(ctx, name)
}

// TaggedSecurityGroups returns the security groups of the project with the tag. It uses no cache.
func (a *API) TaggedSecurityGroups(ctx context.Context, tag string) ([]SecurityGroup, error) {
	all, err := listGroups[SecurityGroup](ctx, a, nil, "id", "name", "description", "tags")
	// A Neutron without tags ignores a filter for them.
	return slices.DeleteFunc(all,
		func(g SecurityGroup) bool { return !slices.Contains(g.Tags, tag) }), err
}

func (a *API) readGroupNames(ctx context.Context, _ []string) (map[string]map[string]bool, error) {
	all, err := listGroups[SecurityGroup](ctx, a, nil, "id", "name")
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, g := range all {
		names[g.Name] = true
	}
	return map[string]map[string]bool{"": names}, nil
}

// datedGroup is a security group and its creation time, in a form that sorts by time. The time is
// empty if the cloud keeps none.
type datedGroup struct {
	SecurityGroup
	CreatedAt string `json:"created_at"`
}

func (a *API) readSecurityGroups(
	ctx context.Context, names []string,
) (map[string]*SecurityGroup, error) {
	all, err := listGroups[datedGroup](ctx, a, names, "id", "name", "description", "tags",
		"created_at", "security_group_rules")
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all,
		func(a, b datedGroup) int { return cmp.Compare(a.CreatedAt, b.CreatedAt) })
	found := map[string]*SecurityGroup{}
	for _, g := range all {
		if found[g.Name] == nil {
			g.Tags = a.shownTags(g.Tags)
			found[g.Name] = &g.SecurityGroup
		}
	}
	return found, nil
}

// listGroups lists the security groups of the project with one of the names; nil: all of them.
func listGroups[T item](
	ctx context.Context, a *API, names []string, fields ...string,
) ([]T, error) {
	project, err := a.config.Project(ctx)
	if err != nil {
		return nil, fmt.Errorf("list security groups: %w", err)
	}
	const path, collection = "security-groups", "security_groups"
	query := url.Values{"project_id": {project}, "fields": fields}
	if names == nil {
		return list[T](ctx, a, path, collection, query)
	}
	return listBy[T](ctx, a, path, collection, "name", names, query)
}

// CreateSecurityGroup creates a security group without rules, and tags it. Neutron adds two rules
// to each new group, which admit all outgoing traffic. They are deleted, as OCCM does, because a
// Service does not decide about the outgoing traffic of a node. A group with an ID beside an error
// was created, but may lack its tags or keep such rules.
func (a *API) CreateSecurityGroup(
	ctx context.Context, group SecurityGroup,
) (SecurityGroup, error) {
	var made SecurityGroup
	err := a.request(ctx, "create security group "+group.Name,
		func(client *gophercloud.ServiceClient) (err error) {
			made, err = extract[SecurityGroup](
				groups.Create(ctx, client,
					groups.CreateOpts{Name: group.Name, Description: group.Description}).Result,
				"security_group")
			return err
		})
	if err != nil {
		return SecurityGroup{}, err
	}
	for len(made.Rules) > 0 {
		if err := a.DeleteRule(ctx, made.Rules[0].ID); err != nil {
			return made, err
		}
		made.Rules = made.Rules[1:]
	}
	if len(group.Tags) == 0 {
		return made, nil
	}
	if err := a.TagSecurityGroup(ctx, made.ID, group.Tags); err != nil {
		return made, err
	}
	if !a.isUntagged() {
		made.Tags = group.Tags
	}
	return made, nil
}

// TagSecurityGroup replaces the tags. It is a no-op on a cloud that does not keep tags.
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
			_, err := extract[Rule](rules.Create(ctx, client, rules.CreateOpts{
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

// DeleteRule succeeds if the rule does not exist.
func (a *API) DeleteRule(ctx context.Context, id string) error {
	return a.remove(ctx, "delete security group rule "+id,
		func(client *gophercloud.ServiceClient) error {
			return rules.Delete(ctx, client, id).ExtractErr()
		})
}
