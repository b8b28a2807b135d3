package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/internal/requestlog"
)

// SecretsConfig is the input of [Secrets].
type SecretsConfig struct {
	// Management is the client configuration of the management cluster. Required.
	Management *rest.Config

	// Namespace is the namespace of the Secrets. Required.
	Namespace string

	// Selector is a label selector. Default "fxccm.dev/fleet-cluster=true".
	Selector string

	// Key is the key of the kubeconfig in a Secret, and CloudKey that of the provider's
	// configuration. Default "kubeconfig" and "cloud.conf".
	Key, CloudKey string
}

// Secrets is a [Source] of clusters that are Secrets of a namespace. The Secret's name and labels
// are those of the cluster. The source lists and watches Secrets.
func Secrets(config SecretsConfig) Source {
	config.Selector = cmp.Or(config.Selector, "fxccm.dev/fleet-cluster=true")
	config.Key = cmp.Or(config.Key, kubeconfigFile)
	config.CloudKey = cmp.Or(config.CloudKey, cloudConfigFile)
	return kubeconfigSource(config.run)
}

func (c SecretsConfig) run(
	ctx context.Context, parse parser, update func([]Cluster),
) error {
	if c.Management == nil || c.Namespace == "" {
		return errors.New("fleet.Secrets needs a client configuration and a namespace")
	}
	client, err := kubernetes.NewForConfig(apiconn.WithoutRedirects(c.Management))
	if err != nil {
		return fmt.Errorf("client of the management cluster: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	factory := secretsFactory(client, c.Namespace, c.Selector, c.Key, c.CloudKey)
	secrets := factory.Core().V1().Secrets().Informer()
	factory.StartWithContext(requestlog.WithoutBodies(ctx))
	defer factory.Shutdown()
	defer stop()
	var parsed kubeconfigs
	return passOn(ctx, []cache.SharedIndexInformer{secrets}, func() []Cluster {
		var clusters []Cluster
		last := parsed
		parsed = kubeconfigs{}
		for _, obj := range secrets.GetStore().List() {
			clusters = append(clusters, c.cluster(obj.(*corev1.Secret),
				func(name string, data []byte) (*rest.Config, error) {
					return parsed.parse(parse, name, data, last)
				}))
		}
		return clusters
	}, update)
}

// cluster returns the cluster of a Secret.
func (c SecretsConfig) cluster(
	secret *corev1.Secret, parse func(name string, data []byte) (*rest.Config, error),
) Cluster {
	cluster := Cluster{
		Name: secret.Name, UID: string(secret.UID), Labels: secret.Labels,
		CloudConfig: secret.Data[c.CloudKey],
	}
	if data, ok := secret.Data[c.Key]; ok {
		cluster.RESTConfig, cluster.Err = parse(cluster.Name, data)
	} else {
		cluster.Err = fmt.Errorf("the Secret has no key %q", c.Key)
	}
	return cluster
}

// secretsFactory makes the informer of Secrets, which keeps only the data of some keys.
func secretsFactory(
	client kubernetes.Interface, namespace, selector string, keys ...string,
) informers.SharedInformerFactory {
	return informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(namespace),
		informers.WithTransform(func(obj any) (any, error) {
			if secret, ok := obj.(*corev1.Secret); ok {
				secret.ManagedFields, secret.Annotations = nil, nil
				maps.DeleteFunc(secret.Data, func(key string, _ []byte) bool {
					return !slices.Contains(keys, key)
				})
			}
			return obj, nil
		}),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
}
