package rbac_test

import (
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rbac"
)

const user = "system:serviceaccount:kube-system:ccm"

const manifest = `
# a document of comments
---
apiVersion: v1
kind: ServiceAccount
metadata: {name: ccm, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: ccm}
rules:
- apiGroups: [""]
  resources: [nodes, nodes/status]
  verbs: [get, patch]
- nonResourceURLs: ["/metrics"]
  verbs: [get]
- apiGroups: [""]
  resources: [nodes]
  verbs: [get] # given twice
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: ccm}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: ccm}
subjects: [{kind: ServiceAccount, name: ccm, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: ccm, namespace: kube-system}
rules:
- apiGroups: [coordination.k8s.io]
  resources: [leases]
  resourceNames: [a, b]
  verbs: [update]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: ccm, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: ccm}
subjects: [{kind: ServiceAccount, name: ccm, namespace: kube-system}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: others, namespace: kube-system}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: not-here}
subjects: [{kind: User, name: someuser}]
`

func load(t *testing.T, content string) (*rbac.Manifests, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rbac.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return rbac.Load(path)
}

func TestPermissions_BindingsOfAUser_AreListed(t *testing.T) {
	m, err := load(t, manifest)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := m.Permissions(user)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, p := range granted {
		got = append(got, p.String())
	}
	want := []string{
		"get /metrics",
		"get nodes",
		"patch nodes",
		"get nodes/status",
		"patch nodes/status",
		"update leases.coordination.k8s.io a in kube-system",
		"update leases.coordination.k8s.io b in kube-system",
	}
	if !slices.Equal(got, want) {
		t.Errorf("the permissions are\n%s\nwant\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
	if granted, err := m.Permissions("system:serviceaccount:default:ccm"); err != nil ||
		len(granted) > 0 {
		t.Errorf("an account of the same name elsewhere has %v, %v, want no permission", granted, err)
	}
	if _, err := m.Permissions("someuser"); err == nil ||
		!strings.Contains(err.Error(),
			"RoleBinding kube-system/others: the manifests hold no Role not-here") {
		t.Errorf("a binding to a role that is not in the manifests: %v", err)
	}
}

func TestPermissions_UnsupportedBinding_IsAnError(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"a group":            {"kind: ServiceAccount, name: ccm, namespace: kube-system}]", "kind: Group, name: g}]", "Group g"},
		"an aggregated role": {"rules:\n- apiGroups: [\"\"]", "aggregationRule: {}\nrules:\n- apiGroups: [\"\"]", "ClusterRole ccm is aggregated"},
	} {
		t.Run(name, func(t *testing.T) {
			m, err := load(t, strings.Replace(manifest, test.old, test.new, 1))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := m.Permissions(user); err == nil ||
				!strings.Contains(err.Error(), test.want) {
				t.Errorf("Permissions: %v, want an error that says %q", err, test.want)
			}
		})
	}
}

func TestLoad_InvalidManifest_ErrorNamesFileAndCause(t *testing.T) {
	const role = "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\n"
	for name, test := range map[string]struct{ manifest, want string }{
		"not YAML":            {"{", "document 1"},
		"another kind":        {manifest + "---\nkind: Deployment\napiVersion: apps/v1\n", `document 8: kind "Deployment" of "apps/v1" is not one of`},
		"another version":     {"kind: Role\napiVersion: rbac.authorization.k8s.io/v1beta1\n", "v1beta1"},
		"an unknown field":    {role + "metadata: {name: r, namespace: ns}\nrule: []\n", `unknown field "rule"`},
		"a field given twice": {role + "kind: Role\n", "kind"},
		"no namespace":        {role + "metadata: {name: r}\n", `Role r: its namespace is ""`},
		"no name":             {role + "metadata: {namespace: ns}\n", "Role without a name"},
		"an unneeded namespace": {strings.ReplaceAll(role, "Role", "ClusterRole") +
			"metadata: {name: r, namespace: ns}\n", `ClusterRole r: its namespace is "ns"`},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := load(t, test.manifest); err == nil ||
				!strings.Contains(err.Error(), test.want) ||
				!strings.Contains(err.Error(), "rbac.yaml") {
				t.Errorf("Load: %v, want an error that names the file and says %q", err, test.want)
			}
		})
	}
	if _, err := rbac.Load("no-such-file.yaml"); err == nil ||
		!strings.Contains(err.Error(), "no-such-file.yaml") {
		t.Errorf("a missing file: %v, want an error that names it", err)
	}
}

// request is a record of an allowed request.
func request(change func(*controlplane.AuditRecord)) controlplane.AuditRecord {
	r := controlplane.AuditRecord{
		User: user, Verb: "get", Resource: "nodes", Name: "n1", RequestURI: "/api/v1/nodes/n1",
		Code: http.StatusOK, Decision: "allow",
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestAllows_RequestAndPermission_MatchAsInRBAC(t *testing.T) {
	lease := func(verb, namespace, name string) controlplane.AuditRecord {
		return request(func(r *controlplane.AuditRecord) {
			r.Verb, r.APIGroup, r.Resource, r.Namespace, r.Name = verb, "coordination.k8s.io",
				"leases", namespace, name
		})
	}
	named := func(verb, name string) rbac.Permission {
		return rbac.Permission{
			Verb: verb, APIGroup: "coordination.k8s.io", Resource: "leases",
			ResourceName: name, Namespace: "kube-system",
		}
	}
	watch := func(uri string) controlplane.AuditRecord {
		return request(func(r *controlplane.AuditRecord) {
			r.Verb, r.Name, r.RequestURI = "watch", "", uri
		})
	}
	status := request(func(r *controlplane.AuditRecord) {
		r.Verb, r.Subresource = "patch", "status"
	})
	token := request(func(r *controlplane.AuditRecord) {
		r.Verb, r.Resource, r.Subresource, r.Name = "create", "serviceaccounts", "token", "robot"
	})
	path := request(func(r *controlplane.AuditRecord) {
		r.Resource, r.Name, r.RequestURI = "", "", "/metrics/slis?x=y"
	})

	for name, test := range map[string]struct {
		permission rbac.Permission
		request    controlplane.AuditRecord
		want       bool
	}{
		"the same":                           {rbac.Permission{Verb: "get", Resource: "nodes"}, request(nil), true},
		"another verb":                       {rbac.Permission{Verb: "list", Resource: "nodes"}, request(nil), false},
		"another group":                      {rbac.Permission{Verb: "get", APIGroup: "apps", Resource: "nodes"}, request(nil), false},
		"another resource":                   {rbac.Permission{Verb: "get", Resource: "services"}, request(nil), false},
		"any verb, group and resource":       {rbac.Permission{Verb: "*", APIGroup: "*", Resource: "*"}, status, true},
		"the subresource":                    {rbac.Permission{Verb: "patch", Resource: "nodes/status"}, status, true},
		"that subresource of any resource":   {rbac.Permission{Verb: "patch", Resource: "*/status"}, status, true},
		"not the resource itself":            {rbac.Permission{Verb: "patch", Resource: "nodes"}, status, false},
		"the name":                           {named("update", "a"), lease("update", "kube-system", "a"), true},
		"another name":                       {named("update", "a"), lease("update", "kube-system", "b"), false},
		"another namespace":                  {named("update", "a"), lease("update", "default", "a"), false},
		"a name does not allow a creation":   {named("create", "a"), lease("create", "kube-system", "a"), false},
		"no name does":                       {named("create", ""), lease("create", "kube-system", "a"), true},
		"the cluster holds all namespaces":   {rbac.Permission{Verb: "get", APIGroup: "coordination.k8s.io", Resource: "leases"}, lease("get", "x", "a"), true},
		"a created subresource has its name": {rbac.Permission{Verb: "create", Resource: "serviceaccounts/token", ResourceName: "robot"}, token, true},
		"an informer that streams may list": {
			rbac.Permission{Verb: "list", Resource: "nodes"},
			watch("/api/v1/nodes?sendInitialEvents=true&watch=true"), true,
		},
		"a plain watch does not list": {rbac.Permission{Verb: "list", Resource: "nodes"}, watch("/api/v1/nodes?watch=true"), false},
		"a list does not watch": {
			rbac.Permission{Verb: "watch", Resource: "nodes"},
			request(func(r *controlplane.AuditRecord) {
				r.Verb, r.RequestURI = "list", "/api/v1/nodes?sendInitialEvents=true"
			}), false,
		},
		"a path":                     {rbac.Permission{Verb: "get", NonResourceURL: "/metrics/slis"}, path, true},
		"a path and what is below":   {rbac.Permission{Verb: "get", NonResourceURL: "/metrics/*"}, path, true},
		"another path":               {rbac.Permission{Verb: "get", NonResourceURL: "/metrics"}, path, false},
		"a path is no resource":      {rbac.Permission{Verb: "get", APIGroup: "*", Resource: "*"}, path, false},
		"a resource is not its path": {rbac.Permission{Verb: "get", NonResourceURL: "/api/v1/nodes/n1"}, request(nil), false},
	} {
		if got := test.permission.Allows(test.request); got != test.want {
			t.Errorf("%s: %s allows %s: %t, want %t", name, test.permission, test.request, got,
				test.want)
		}
	}
}

func TestCompare_RulesAndRequests_MissingAndUnusedAreListed(t *testing.T) {
	get, del := rbac.Permission{Verb: "get", Resource: "nodes"},
		rbac.Permission{Verb: "delete", Resource: "nodes"}
	granted := []rbac.Permission{get, del}
	change := func(verb, decision, by string, code int) controlplane.AuditRecord {
		return request(func(r *controlplane.AuditRecord) {
			r.Verb, r.Decision, r.User, r.Code = verb, decision, by, code
		})
	}
	const allow, forbid = "allow", "forbid"
	deniedUpdate := change("update", forbid, user, http.StatusForbidden)
	update := rbac.Permission{Verb: "update", Resource: "nodes"}
	second := deniedUpdate
	second.Name = "n2"
	deniedPath := request(func(r *controlplane.AuditRecord) {
		r.Resource, r.Name, r.RequestURI, r.Decision, r.Code = "", "", "/metrics?x=y", forbid,
			http.StatusForbidden
	})

	for name, test := range map[string]struct {
		records []controlplane.AuditRecord
		want    rbac.Report
	}{
		"no request": {nil, rbac.Report{Unused: granted}},
		"all permissions used, no request denied": {
			[]controlplane.AuditRecord{request(nil), change("delete", allow, user, 200)},
			rbac.Report{},
		},
		"requests of other users do not count": {
			[]controlplane.AuditRecord{
				change("delete", allow, "admin", 200),
				change("update", forbid, "admin", 403),
			},
			rbac.Report{Unused: granted},
		},
		"not found and refused by admission are used": {
			[]controlplane.AuditRecord{
				change("get", allow, user, 404),
				change("delete", allow, user, 403),
			},
			rbac.Report{},
		},
		"a request without authorization is neither used nor denied": {
			[]controlplane.AuditRecord{request(nil), change("delete", "", user, 401)},
			rbac.Report{Unused: []rbac.Permission{del}},
		},
		"a denied request does not use a permission that came later": {
			[]controlplane.AuditRecord{request(nil), change("delete", forbid, user, 403)},
			rbac.Report{
				Unused: []rbac.Permission{del},
				Denied: []rbac.Denial{{
					Missing: del, Count: 1,
					First: change("delete", forbid, user, 403),
				}},
			},
		},
		"denials for one missing permission are grouped": {
			[]controlplane.AuditRecord{
				request(nil), change("delete", allow, user, 200),
				deniedUpdate, deniedPath, second,
			},
			rbac.Report{Denied: []rbac.Denial{
				{Missing: update, Count: 2, First: deniedUpdate},
				{Missing: rbac.Permission{Verb: "get", NonResourceURL: "/metrics"}, Count: 1, First: deniedPath},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := rbac.Compare(granted, test.records, user)
			if !reflect.DeepEqual(got, test.want) {
				t.Errorf("the report is\n%s\nwant\n%s", got, test.want)
			}
			if got.OK() != (got.String() == "") {
				t.Errorf("OK is %t, the report says %q", got.OK(), got)
			}
		})
	}
}
