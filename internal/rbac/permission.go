package rbac

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// Permission is one verb on one resource. A field that a rule may leave open is empty.
type Permission struct {
	Verb     string
	APIGroup string
	// Resource has its subresource behind a slash, such as nodes/status.
	Resource string
	// ResourceName restricts the permission to one object.
	ResourceName string
	// Namespace is the namespace of the RoleBinding that grants it. Empty means the whole cluster.
	Namespace string
	// NonResourceURL is a path, instead of APIGroup, Resource and ResourceName.
	NonResourceURL string
}

// String formats the permission like this: create leases.coordination.k8s.io in kube-system.
func (p Permission) String() string {
	if p.NonResourceURL != "" {
		return p.Verb + " " + p.NonResourceURL
	}
	resource, subresource, _ := strings.Cut(p.Resource, "/")
	text := p.Verb + " " + resource
	if p.APIGroup != "" {
		text += "." + p.APIGroup
	}
	if subresource != "" {
		text += "/" + subresource
	}
	if p.ResourceName != "" {
		text += " " + p.ResourceName
	}
	if p.Namespace != "" {
		text += " in " + p.Namespace
	}
	return text
}

// Permissions are the permissions that the manifests grant to user, sorted and without duplicates.
// It returns an error if a binding of the user leads to a role that the manifests do not have, to
// an aggregated role, or goes through a group.
func (m *Manifests) Permissions(user string) ([]Permission, error) {
	var granted []Permission
	for _, b := range m.ClusterRoleBindings {
		rules, err := m.boundRules(user, b.Subjects, b.RoleRef, "")
		if err != nil {
			return nil, fmt.Errorf("ClusterRoleBinding %s: %w", b.Name, err)
		}
		granted = append(granted, expand(rules, "")...)
	}
	for _, b := range m.RoleBindings {
		rules, err := m.boundRules(user, b.Subjects, b.RoleRef, b.Namespace)
		if err != nil {
			return nil, fmt.Errorf("RoleBinding %s/%s: %w", b.Namespace, b.Name, err)
		}
		granted = append(granted, expand(rules, b.Namespace)...)
	}
	slices.SortFunc(granted, compare)
	return slices.Compact(granted), nil
}

// boundRules returns the rules of the role if the binding is for the user.
func (m *Manifests) boundRules(
	user string, subjects []rbacv1.Subject, role rbacv1.RoleRef, namespace string,
) ([]rbacv1.PolicyRule, error) {
	bound, err := binds(subjects, user)
	if err != nil || !bound {
		return nil, err
	}
	switch role.Kind {
	case "ClusterRole":
		for _, r := range m.ClusterRoles {
			if r.Name != role.Name {
				continue
			}
			if r.AggregationRule != nil {
				return nil,
					fmt.Errorf(
						"ClusterRole %s is aggregated, so its rules are not in the manifests",
						role.Name)
			}
			return r.Rules, nil
		}
	case "Role":
		for _, r := range m.Roles {
			if r.Name == role.Name && r.Namespace == namespace {
				return r.Rules, nil
			}
		}
	}
	return nil, fmt.Errorf("the manifests hold no %s %s", role.Kind, role.Name)
}

func binds(subjects []rbacv1.Subject, user string) (bool, error) {
	for _, s := range subjects {
		switch s.Kind {
		case rbacv1.ServiceAccountKind:
			if controlplane.ServiceAccountUser(s.Namespace, s.Name) == user {
				return true, nil
			}
		case rbacv1.UserKind:
			if s.Name == user {
				return true, nil
			}
		default:
			return false,
				fmt.Errorf("it is not known whether %s is in the %s %s", user, s.Kind, s.Name)
		}
	}
	return false, nil
}

func expand(rules []rbacv1.PolicyRule, namespace string) []Permission {
	var all []Permission
	for _, r := range rules {
		names := r.ResourceNames
		if len(names) == 0 {
			names = []string{""}
		}
		for _, verb := range r.Verbs {
			for _, group := range r.APIGroups {
				for _, resource := range r.Resources {
					for _, name := range names {
						all = append(all,
							Permission{
								Verb: verb, APIGroup: group, Resource: resource,
								ResourceName: name, Namespace: namespace,
							})
					}
				}
			}
			for _, path := range r.NonResourceURLs {
				all = append(all, Permission{Verb: verb, NonResourceURL: path})
			}
		}
	}
	return all
}

func compare(a, b Permission) int {
	return cmp.Or(
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.APIGroup, b.APIGroup),
		cmp.Compare(a.Resource, b.Resource),
		cmp.Compare(a.ResourceName, b.ResourceName),
		cmp.Compare(a.NonResourceURL, b.NonResourceURL),
		cmp.Compare(a.Verb, b.Verb),
	)
}

// Allows reports whether the permission allows the request by the rules of RBAC.
func (p Permission) Allows(r controlplane.AuditRecord) bool {
	if !p.allowsVerb(r) {
		return false
	}
	if r.Resource == "" || p.NonResourceURL != "" {
		return r.Resource == "" && p.NonResourceURL != "" &&
			matchesPath(p.NonResourceURL, r.RequestURI)
	}
	return matches(p.APIGroup, r.APIGroup) &&
		p.allowsResource(r) &&
		(p.ResourceName == "" || p.ResourceName == authorizedName(r)) &&
		(p.Namespace == "" || p.Namespace == r.Namespace)
}

// allowsVerb also treats a watch that requests the initial state as a list. Such a watch is an
// informer's, which falls back to a list if the server cannot stream (KEP-3157), and so needs both
// verbs.
func (p Permission) allowsVerb(r controlplane.AuditRecord) bool {
	return matches(p.Verb, r.Verb) || p.Verb == "list" && r.Verb == "watch" &&
		streamsInitialState(r.RequestURI)
}

func streamsInitialState(requestURI string) bool {
	u, err := url.Parse(requestURI)
	return err == nil && u.Query().Get("sendInitialEvents") == "true"
}

func (p Permission) allowsResource(r controlplane.AuditRecord) bool {
	if p.Resource == rbacv1.ResourceAll || p.Resource == r.ResourcePath() {
		return true
	}
	return r.Subresource != "" && p.Resource == "*/"+r.Subresource
}

// authorizedName is the name that authorization sees. The name of a new object is in the body of
// the request, which only the audit log sees.
func authorizedName(r controlplane.AuditRecord) string {
	if r.Verb == "create" && r.Subresource == "" {
		return ""
	}
	return r.Name
}

func matches(rule, value string) bool { return rule == "*" || rule == value }

func matchesPath(rule, requestURI string) bool {
	path, _, _ := strings.Cut(requestURI, "?")
	if prefix, ok := strings.CutSuffix(rule, "*"); ok {
		return strings.HasPrefix(path, prefix)
	}
	return rule == path
}
