package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// valuesPage is the page of the values. Each value has a comment `# -- meaning`. rules is the table
// of the rendered rules.
func valuesPage(values, occm []byte, rules string) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal(values, &document); err != nil {
		return "", err
	}
	var out strings.Builder
	out.WriteString(`# Values of the Helm chart

Generated from [values.yaml](../../deploy/chart/values.yaml). [values.schema.json](../../deploy/chart/values.schema.json) checks them:
a value with an unknown name or of the wrong type is an error.

## Rules

The rules are in [rbac.yaml](../../deploy/chart/templates/rbac.yaml), each with its reason. No rule allows to escalate, bind or impersonate, to read Secrets of the cluster
that a CCM serves, or to create tokens. The names and namespaces in the table are the defaults: a fleet is in ` + "`fxccm-system`" + `.

`)
	out.WriteString(rules)
	out.WriteString(`
With ` + "`--use-service-account-credentials`" + ` the CCM also needs to create ` + "`serviceaccounts/token`" + `. Name the accounts of the controllers as ` + "`resourceNames`" + `:
a rule without them gives the rights of every account of the namespace.

## Pod Security

[Security](../explanation/security.md) lists what an attacker can try. The Pods have a seccomp profile, a read-only root, no capabilities and a user without privileges. Without ` + "`hostNetwork`" + ` and ` + "`hostCertificates`" + ` they run in a namespace with the
label ` + "`pod-security.kubernetes.io/enforce: restricted`" + `. With one of these the namespace needs ` + "`privileged`" + `. The manifests of a fleet set the label of their
namespace; the chart creates no namespace, so set it there: ` + "`kubectl label namespace NAMESPACE pod-security.kubernetes.io/enforce=restricted`" + `.

## Values

| value | default | meaning |
|---|---|---|
`)
	if err := describe(&out, "", document.Content[0]); err != nil {
		return "", err
	}
	var others map[string]string
	if err := yaml.Unmarshal(occm, &others); err != nil {
		return "", err
	}
	out.WriteString(`
## Values of openstack-cloud-controller-manager's chart

These values have another name here, or none. The chart refuses them with the same text. The values that are missing here, such as ` + "`resources`" + ` and
` + "`extraVolumes`" + `, have the same names in both charts. [fxccm migrate](../how-to/migrate-from-occm.md) reads the installed objects and needs no values.

| value | instead |
|---|---|
`)
	for _, name := range slices.Sorted(maps.Keys(others)) {
		fmt.Fprintf(&out, "| `%s` | %s |\n", name, others[name])
	}
	return out.String(), nil
}

func describe(out *strings.Builder, prefix string, mapping *yaml.Node) error {
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		name := prefix + key.Value
		meaning, documented := strings.CutPrefix(lastLine(key.HeadComment), "# -- ")
		if !documented || value.Kind == yaml.MappingNode && len(value.Content) > 0 {
			if value.Kind != yaml.MappingNode {
				return fmt.Errorf("line %d: %s has no comment that begins with --", key.Line, name)
			}
			if documented {
				fmt.Fprintf(out, "| `%s` | | %s |\n", name, meaning)
			}
			if err := describe(out, name+".", value); err != nil {
				return err
			}
			continue
		}
		var content any
		if err := value.Decode(&content); err != nil {
			return err
		}
		text, err := json.Marshal(content)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "| `%s` | `%s` | %s |\n", name, text, meaning)
	}
	return nil
}

func lastLine(text string) string {
	return text[strings.LastIndex(text, "\n")+1:]
}

// reasons explain the rendered rules: for each account and each of its objects.
var reasons = []struct{ account, object, why string }{
	{
		"CCM", "nodes",
		"initialize nodes, keep their labels and taints, delete nodes without an instance",
	},
	{"CCM", "nodes/status", "addresses, and the condition of a node's route"},
	{"CCM", "services", "load balancers, whose IDs and addresses are annotations"},
	{"CCM", "services/status", "addresses, finalizers and conditions of load balancers"},
	{
		"CCM", "endpointslices.discovery.k8s.io",
		"members of load balancers that forward to pods",
	},
	{"CCM", "namespaces kube-system", "its UID identifies the cluster in tags"},
	{"CCM", "events", "say what happened to an object"},
	{
		"CCM", "leases.coordination.k8s.io in kube-system",
		"leader election. RBAC cannot restrict a creation to a name",
	},
	{
		"CCM", "leases.coordination.k8s.io cloud-controller-manager in kube-system",
		"leader election",
	},
	{
		"CCM", "configmaps in kube-system",
		"a record of the written routes. RBAC cannot restrict a creation to a name",
	},
	{"CCM", "configmaps fxccm-routes in kube-system", "the same record"},
	{
		"fleet", "clusters.cluster.x-k8s.io",
		"the clusters, with `fleet.clusters: clusterapi`; their finalizer",
	},
	{
		"fleet", "secrets", "the kubeconfigs, in `fleet.clustersNamespace` or, with " +
			"`fleet.allNamespaces`, in all namespaces. RBAC cannot restrict a list to labels, so " +
			"give the clusters a namespace of their own",
	},
	{"fleet", "events", "what the clean-up does"},
	{"fleet", "events in fxccm-system", "which replica serves a cluster"},
	{
		"fleet", "leases.coordination.k8s.io in fxccm-system",
		"a Lease for each cluster and each replica",
	},
	{
		"CCM, fleet", "tokenreviews.authentication.k8s.io",
		"the secure port authenticates its clients",
	},
	{
		"CCM, fleet", "subjectaccessreviews.authorization.k8s.io",
		"the secure port authorizes its clients",
	},
	{
		"CCM, fleet", "configmaps extension-apiserver-authentication in kube-system",
		"the authorities of client certificates and of the front proxy",
	},
	{
		"status", "/statusz", "`fxccm status` sends a token of this account to the Pods. The user of " +
			"the command needs `create` on `serviceaccounts/token` of the account",
	},
}

// rulesTable is the table of the rules that the chart renders for one cluster and for a fleet. Each
// rule has a reason, and each reason a rule.
func rulesTable(t *testing.T) string {
	t.Helper()
	cleanUp := strings.Replace(fleetValues(t), "enabled: true",
		"enabled: true\n  cleanUpLoadBalancers: true", 1)
	// verbs are those of an account for an object, such as "get, list".
	verbs := map[[2]string][]string{}
	for _, of := range []struct{ account, namespace, values, user, condition string }{
		{"CCM", "kube-system", "", "cloud-controller-manager", ""},
		{"status", "kube-system", "", "cloud-controller-manager-status", ""},
		{"fleet", "fxccm-system", fleetValues(t), "fxccm-fleet", ""},
		{"status", "fxccm-system", fleetValues(t), "fxccm-fleet-status", ""},
		{
			"fleet", "fxccm-system", cleanUp, "fxccm-fleet",
			" with `fleet.cleanUpLoadBalancers`",
		},
	} {
		user := "system:serviceaccount:" + of.namespace + ":" + of.user
		for _, granted := range permissionsIn(t, of.namespace, of.values, user) {
			verb, object, _ := strings.Cut(granted.String(), " ")
			key := [2]string{of.account, object}
			if !slices.Contains(verbs[key], verb) {
				verbs[key] = append(verbs[key], verb+of.condition)
			}
		}
	}
	out := "| account | object | verbs | why |\n|---|---|---|---|\n"
	for _, r := range reasons {
		accounts := strings.Split(r.account, ", ")
		found := verbs[[2]string{accounts[0], r.object}]
		for _, account := range accounts {
			key := [2]string{account, r.object}
			if len(verbs[key]) == 0 || !slices.Equal(verbs[key], found) {
				t.Errorf("no rule, or another one than for %s, gives %s to the account %s: %q",
					accounts[0], r.object, account, verbs[key])
			}
			delete(verbs, key)
		}
		out += fmt.Sprintf("| %s | %s | %s | %s |\n", r.account, r.object,
			strings.Join(found, ", "), r.why)
	}
	for key, found := range verbs {
		t.Errorf("the rule of the account %s for %s (%s) has no reason", key[0], key[1],
			strings.Join(found, ", "))
	}
	return out
}
