package apiconn

import (
	"errors"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/fxccm/fxccm/internal/configfile"
)

// Kubeconfig reads kubeconfigs. If they select no cluster, the result's methods fail, because
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

// FromFlags returns the configuration of a kubeconfig file, or of the address of an API server, or
// of both. It never uses the ServiceAccount of a Pod, unlike clientcmd.BuildConfigFromFlags.
func FromFlags(master, kubeconfig string) (*rest.Config, error) {
	if err := configfile.Check(kubeconfig); err != nil {
		return nil, err
	}
	loader, err := Kubeconfig(&clientcmd.ClientConfigLoadingRules{ExplicitPath: kubeconfig},
		&clientcmd.ConfigOverrides{ClusterInfo: clientcmdapi.Cluster{Server: master}})
	if err != nil {
		return nil, err
	}
	config, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, errors.New("the kubeconfig has no current context with a cluster")
	}
	return config, err
}
