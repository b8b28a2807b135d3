package chart

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// valuesPage is the page of the values. Each value has a comment `# -- meaning`.
func valuesPage(values, occm []byte) (string, error) {
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
that a CCM serves, or to create tokens.

| account | verbs | why |
|---|---|---|
| CCM | nodes: get, list, watch, update, patch, delete; nodes/status: patch | initialize nodes, keep their labels, taints, addresses and routes, delete nodes without an instance |
| CCM | services: list, watch, patch; services/status: patch | addresses, finalizers and annotations of load balancers |
| CCM | endpointslices.discovery.k8s.io: list, watch | members of load balancers that forward to pods |
| CCM | namespaces: get, ` + "`kube-system`" + ` only | its UID identifies the cluster in tags |
| CCM | events: create, patch | say what happened to an object |
| CCM | leases: create; get, update, watch of its own only | leader election |
| CCM | configmaps of ` + "`kube-system`" + `: create; get, patch of ` + "`fxccm-routes`" + ` only | a record of the written routes |
| fleet | clusters.cluster.x-k8s.io: list, watch | the clusters, with ` + "`fleet.clusters: clusterapi`" + ` |
| fleet | clusters: get, patch, with ` + "`fleet.cleanUpLoadBalancers`" + ` only | its finalizer |
| fleet | secrets: list, watch, in ` + "`fleet.clustersNamespace`" + ` or, without it, in all namespaces | the kubeconfigs. RBAC cannot restrict a list to labels, so give the clusters a namespace of their own |
| fleet | leases: get, list, watch, create, update, delete, in its own namespace | a Lease for each cluster and each replica |
| fleet | events: create, in its own namespace; with ` + "`fleet.cleanUpLoadBalancers`" + ` also those of Clusters | who leads, and what the clean-up does |
| CCM, fleet | tokenreviews, subjectaccessreviews: create; one configmap of ` + "`kube-system`" + `: get, list, watch | the secure port authenticates and authorizes its clients |
| status | nonResourceURLs ` + "`/statusz`" + `: get | ` + "`fxccm status`" + ` sends a token of this account to the Pods. The user of the command needs ` + "`create`" + ` on ` + "`serviceaccounts/token`" + ` of the account |

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
