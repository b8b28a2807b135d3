package apiconn

import (
	"k8s.io/client-go/tools/clientcmd"
)

// Kubeconfig reads kubeconfigs. One that selects no cluster is an error of the result, because
// clientcmd's deferred loader would use the ServiceAccount of a Pod, which is of another cluster.
func Kubeconfig(
	rules clientcmd.ClientConfigLoader, overrides *clientcmd.ConfigOverrides,
) (clientcmd.ClientConfig, error) {
	config, err := rules.Load()
	if err != nil {
		return nil, err
	}
	return clientcmd.NewNonInteractiveClientConfig(*config, overrides.CurrentContext, overrides,
		rules), nil
}
