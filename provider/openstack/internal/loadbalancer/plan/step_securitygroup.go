package plan

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/neutron"
)

type (
	// CreateSecurityGroup creates the group, deletes Neutron's default rules, and tags it. Later
	// steps create its rules.
	CreateSecurityGroup struct{ Group neutron.SecurityGroup }
	// TagSecurityGroup replaces its tags.
	TagSecurityGroup struct {
		ID, Name string
		Tags     []string
	}
	CreateRule struct {
		Group Ref
		Rule  neutron.Rule
	}
	// DeleteRule closes a port. AfterMembers: Octavia must have carried out the changes of the
	// members before, because until then it forwards connections to the port.
	DeleteRule struct {
		ID           string
		Rule         neutron.Rule
		AfterMembers bool
	}
	// AddGroup and RemoveGroup change the groups of a node's port, based on the observed revision.
	// AfterMembers is as in DeleteRule.
	AddGroup struct {
		Group Ref
		Port  neutron.NodePort
		Node  string
	}
	RemoveGroup struct {
		GroupID, GroupName string
		Port               neutron.NodePort
		// Node is "" if it is unknown.
		Node, Why    string
		AfterMembers bool
	}
	DeleteSecurityGroup struct{ ID, Name, Why string }
)

func (s CreateSecurityGroup) String() string { return "create security group " + s.Group.Name }

func (s CreateSecurityGroup) details() []string {
	return append([]string{"description " + s.Group.Description}, tagDetails(s.Group.Tags)...)
}

func (s CreateSecurityGroup) quota() string { return "security groups" }

func (s CreateSecurityGroup) predict(*predicted) bool { return true }

func (s CreateSecurityGroup) take(ctx context.Context, r *run) error {
	return r.withNeutron(func() error {
		made, err := r.Neutron.CreateSecurityGroup(ctx, s.Group)
		r.made[GroupRef().Made] = made.ID
		return err
	})
}

func (s TagSecurityGroup) String() string {
	return fmt.Sprintf("tag security group %s (%s): %s", s.ID, s.Name,
		cmp.Or(strings.Join(s.Tags, ", "), "no tags"))
}

func (s TagSecurityGroup) onlyTags() bool { return true }

func (s TagSecurityGroup) predict(*predicted) bool { return true }

func (s TagSecurityGroup) take(ctx context.Context, r *run) error {
	return r.withNeutron(func() error { return r.Neutron.TagSecurityGroup(ctx, s.ID, s.Tags) })
}

func (s CreateRule) String() string { return "create rule " + ruleText(s.Rule) }

func (s CreateRule) quota() string { return "security group rules" }

func (s CreateRule) predict(*predicted) bool { return true }

func (s CreateRule) take(ctx context.Context, r *run) error {
	return r.withGroup(s.Group,
		func(id string) error { return r.Neutron.CreateRule(ctx, id, s.Rule) })
}

func (s DeleteRule) String() string {
	return fmt.Sprintf("delete rule %s (%s)", s.ID, ruleText(s.Rule))
}

func (s DeleteRule) predict(*predicted) bool { return true }

func (s DeleteRule) take(ctx context.Context, r *run) error {
	if err := r.finishMembers(ctx, s.AfterMembers); err != nil {
		return err
	}
	return r.withNeutron(func() error { return r.Neutron.DeleteRule(ctx, s.ID) })
}

func (s AddGroup) String() string {
	return fmt.Sprintf("put security group %s on port %s of node %s", s.Group, s.Port.ID, s.Node)
}

func (s AddGroup) predict(*predicted) bool { return true }

func (s AddGroup) take(ctx context.Context, r *run) error {
	return r.withGroup(s.Group,
		func(id string) error { return r.Neutron.AddGroup(ctx, s.Port, id) })
}

func (s RemoveGroup) String() string {
	of := "server " + s.Port.ServerID
	if s.Node != "" {
		of = "node " + s.Node
	}
	return fmt.Sprintf("take security group %s off port %s of %s%s", s.GroupName, s.Port.ID, of,
		because(s.Why))
}

func (s RemoveGroup) predict(*predicted) bool { return true }

func (s RemoveGroup) take(ctx context.Context, r *run) error {
	if err := r.finishMembers(ctx, s.AfterMembers); err != nil {
		return err
	}
	return r.withNeutron(func() error { return r.Neutron.RemoveGroup(ctx, s.Port, s.GroupID) })
}

func (s DeleteSecurityGroup) String() string {
	return deletion("security group", s.ID, s.Name, s.Why)
}

func (s DeleteSecurityGroup) predict(*predicted) bool { return true }

func (s DeleteSecurityGroup) take(ctx context.Context, r *run) error {
	return r.withNeutron(func() error { return r.Neutron.DeleteSecurityGroup(ctx, s.ID) })
}
