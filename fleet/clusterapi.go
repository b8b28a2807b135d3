package fleet

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/requestlog"
)

// ClusterAPIConfig is the input of [ClusterAPI].
type ClusterAPIConfig struct {
	// Management is the client configuration of the management cluster. Required.
	Management *rest.Config

	// Namespace is the namespace of the Clusters. Default: all namespaces.
	Namespace string

	// Selector is a label selector for the Clusters. Default: all Clusters.
	Selector string

	// CloudSuffix is appended to a Cluster's name for the name of the Secret with the provider's
	// configuration, and CloudKey is its key there. The Secret must have the label
	// "cluster.x-k8s.io/cluster-name" with the Cluster's name, like the Cluster's other Secrets.
	// Default "-cloud-config" and "cloud.conf". The Secret is optional.
	CloudSuffix, CloudKey string

	// CleanUpLoadBalancers deletes the remaining load balancers of a deleted Cluster when its API
	// server is gone, if the cloud provider is a ccm.ClusterCleaner. Default false.
	//
	// Each Cluster that the fleet serves gets the finalizer "fxccm.dev/load-balancers", which is
	// removed when no load balancer is left. An operator who removes it ends the clean-up. The
	// clean-up needs [LockManagement], and params of the Manager without Clients of their own.
	CleanUpLoadBalancers bool
}

// Names that Cluster API gives its objects.
const (
	clusterAPIGroup  = "cluster.x-k8s.io"
	clusterNameLabel = "cluster.x-k8s.io/cluster-name"
	kubeconfigSuffix = "-kubeconfig"
	kubeconfigKey    = "value"
	cloudSuffix      = "-cloud-config"
)

// ClusterAPI is a [Source] of the Clusters of Cluster API, in the version that the management
// cluster prefers. A cluster's name is "<namespace>.<name>", and its labels are the Cluster's. Its
// client configuration is the kubeconfig in the Secret "<name>-kubeconfig" that each provider of
// control planes writes. A Cluster without this Secret is shown with an error.
//
// A Cluster that is being deleted stays in the fleet until its object is gone, because its nodes
// and Services need their controllers until they are gone. A paused Cluster is served, too. While
// Clusters are moved to another management cluster, both clusters have them: stop the fleet of the
// first before the move.
//
// The source lists and watches Clusters and Secrets. It reads only the metadata of Clusters, and
// does not keep the Secrets' private keys. With CleanUpLoadBalancers, the fleet also gets and
// patches Clusters, and creates Events in their namespaces.
func ClusterAPI(config ClusterAPIConfig) Source {
	config.CloudSuffix = cmp.Or(config.CloudSuffix, cloudSuffix)
	config.CloudKey = cmp.Or(config.CloudKey, cloudConfigFile)
	return kubeconfigSource(config.run)
}

func (c ClusterAPIConfig) run(
	ctx context.Context, parse parser, update func([]Cluster),
) error {
	if c.Management == nil {
		return errors.New("fleet.ClusterAPI needs a client configuration")
	}
	management := apiconn.WithoutRedirects(c.Management)
	client, err := kubernetes.NewForConfig(management)
	if err != nil {
		return fmt.Errorf("client of the management cluster: %w", err)
	}
	objects, err := metadata.NewForConfig(management)
	if err != nil {
		return fmt.Errorf("client of the management cluster: %w", err)
	}
	resource, err := clusterResource(client.Discovery())
	if err != nil {
		return err
	}
	full, err := dynamic.NewForConfig(management)
	if err != nil {
		return fmt.Errorf("client of the management cluster: %w", err)
	}
	all := &clusterObjects{
		client: client, objects: full, metadata: objects, resource: resource,
		namespace: c.Namespace,
	}
	watching, stop := context.WithCancelCause(ctx)
	secretsOf := secretsFactory(client, c.Namespace, clusterNameLabel, kubeconfigKey, c.CloudKey)
	secrets := secretsOf.Core().V1().Secrets().Informer()
	clusters := metadatainformer.NewFilteredMetadataInformer(objects, resource, c.Namespace, 0,
		cache.Indexers{}, func(o *metav1.ListOptions) { o.LabelSelector = c.Selector }).Informer()
	if err := errors.Join(
		clusters.SetTransform(informerview.StripManagedFields),
		// A version that is no longer served does not return. The fleet calls Run again, which
		// discovers the version that is served now.
		clusters.SetWatchErrorHandlerWithContext(
			func(ctx context.Context, r *cache.Reflector, err error) {
				cache.DefaultWatchErrorHandler(ctx, r, err)
				if apierrors.IsNotFound(err) {
					stop(fmt.Errorf("list Clusters of %s: %w", resource.Version, err))
				}
			}),
	); err != nil {
		stop(nil)
		return err
	}
	secretsOf.StartWithContext(requestlog.WithoutBodies(watching))
	defer secretsOf.Shutdown()
	var running sync.WaitGroup
	defer running.Wait()
	defer stop(nil)
	running.Go(func() { clusters.RunWithContext(watching) })

	secret := func(namespace, name string) *corev1.Secret {
		obj, _, _ := secrets.GetStore().GetByKey(cache.NewObjectName(namespace, name).String())
		found, _ := obj.(*corev1.Secret)
		return found
	}
	var parsed kubeconfigs
	err = passOn(watching, []cache.SharedIndexInformer{secrets, clusters}, func() []Cluster {
		last := parsed
		parsed = kubeconfigs{}
		var found []Cluster
		for _, obj := range clusters.GetStore().List() {
			found = append(found, c.cluster(obj.(*metav1.PartialObjectMetadata), all, secret,
				func(name string, data []byte) (*rest.Config, error) {
					return parsed.parse(parse, name, data, last)
				}))
		}
		return found
	}, update)
	if err != nil || ctx.Err() != nil {
		return err
	}
	return context.Cause(watching)
}

// cluster returns the cluster of a Cluster. secret returns nil if there is no such Secret.
func (c ClusterAPIConfig) cluster(
	object *metav1.PartialObjectMetadata, all *clusterObjects,
	secret func(namespace, name string) *corev1.Secret,
	parse func(name string, data []byte) (*rest.Config, error),
) Cluster {
	cluster := Cluster{
		Name: object.Namespace + "." + object.Name, UID: string(object.UID),
		Labels: object.Labels,
		// Unlike its UID, the name survives a move to another management cluster.
		owner: object.Namespace + "/" + object.Name,
	}
	read := func(suffix, key string) ([]byte, bool) {
		found := secret(object.Namespace, object.Name+suffix)
		if found == nil || found.Labels[clusterNameLabel] != object.Name {
			return nil, false
		}
		data, ok := found.Data[key]
		return data, ok
	}
	cluster.CloudConfig, _ = read(c.CloudSuffix, c.CloudKey)
	data, hasKubeconfig := read(kubeconfigSuffix, kubeconfigKey)
	if hasKubeconfig {
		cluster.RESTConfig, cluster.Err = parse(cluster.Name, data)
	} else {
		cluster.Err = fmt.Errorf("there is no Secret %s%s with the key %q yet",
			object.Name, kubeconfigSuffix, kubeconfigKey)
	}
	if c.CleanUpLoadBalancers {
		cluster.object = all.of(object)
		cluster.object.noKubeconfig = !hasKubeconfig
	}
	return cluster
}

// clusterResource returns the resource of Clusters in the version that the API server prefers.
func clusterResource(client discovery.DiscoveryInterface) (schema.GroupVersionResource, error) {
	groups, err := restmapper.GetAPIGroupResources(client)
	if err != nil {
		return schema.GroupVersionResource{}, fmt.Errorf("discover the Cluster API: %w", err)
	}
	mapping, err := restmapper.NewDiscoveryRESTMapper(groups).RESTMapping(
		schema.GroupKind{Group: clusterAPIGroup, Kind: "Cluster"})
	if meta.IsNoMatchError(err) {
		return schema.GroupVersionResource{},
			errors.New("the management cluster has no Cluster API: install its types first")
	}
	if err != nil {
		return schema.GroupVersionResource{}, err
	}
	return mapping.Resource, nil
}
