package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// SecretsConfig is the input of [Secrets].
type SecretsConfig struct {
	// Management is the client configuration of the management cluster. Required.
	Management *rest.Config

	// Namespace has the Secrets. Required.
	Namespace string

	// Selector is a label selector. Default "fxccm.dev/fleet-cluster=true".
	Selector string

	// Key is the key of the kubeconfig in a Secret, and CloudKey that of the provider's
	// configuration. Default "kubeconfig" and "cloud.conf".
	Key, CloudKey string
}

// Secrets is a [Source] of clusters that are Secrets of a namespace. The Secret's name is the
// cluster's, and the Secret's labels are the cluster's. It lists and watches Secrets.
func Secrets(config SecretsConfig) Source {
	if config.Selector == "" {
		config.Selector = "fxccm.dev/fleet-cluster=true"
	}
	if config.Key == "" {
		config.Key = kubeconfigFile
	}
	if config.CloudKey == "" {
		config.CloudKey = cloudConfigFile
	}
	return SourceFunc(config.run)
}

func (c SecretsConfig) run(ctx context.Context, update func([]Cluster)) error {
	if c.Management == nil || c.Namespace == "" {
		return errors.New("fleet.Secrets needs a client configuration and a namespace")
	}
	client, err := kubernetes.NewForConfig(c.Management)
	if err != nil {
		return fmt.Errorf("client of the management cluster: %w", err)
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0,
		informers.WithNamespace(c.Namespace),
		informers.WithTransform(keepData(c.Key, c.CloudKey)),
		informers.WithTweakListOptions(func(o *metav1.ListOptions) {
			o.LabelSelector = c.Selector
		}))
	secrets := secretClusters{
		config: c, clusters: map[string]Cluster{}, dirty: make(chan struct{}, 1),
	}
	registration, err := factory.Core().V1().Secrets().Informer().AddEventHandler(
		cache.ResourceEventHandlerFuncs{
			AddFunc:    secrets.set,
			UpdateFunc: func(_, obj any) { secrets.set(obj) },
			DeleteFunc: secrets.delete,
		})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	defer stop()
	if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
		return nil
	}
	for {
		update(secrets.all())
		select {
		case <-secrets.dirty:
		case <-ctx.Done():
			return nil
		}
		// Changes come in crowds; one update serves them.
		select {
		case <-time.After(gatherTime):
		case <-ctx.Done():
			return nil
		}
	}
}

// gatherTime is how long changes of clusters gather before they are passed on.
const gatherTime = 100 * time.Millisecond

// keepData drops from a Secret what the source does not read.
func keepData(keys ...string) cache.TransformFunc {
	return func(obj any) (any, error) {
		secret, ok := obj.(*corev1.Secret)
		if !ok {
			return obj, nil
		}
		secret.ManagedFields, secret.Annotations = nil, nil
		maps.DeleteFunc(secret.Data, func(key string, _ []byte) bool {
			return !slices.Contains(keys, key)
		})
		return secret, nil
	}
}

// secretClusters is the set of clusters that the Secrets describe. It is safe for concurrent use.
type secretClusters struct {
	config SecretsConfig
	dirty  chan struct{}

	mu       sync.Mutex
	clusters map[string]Cluster
	// kubeconfigs are those that were parsed, to parse none twice.
	kubeconfigs map[string][]byte
}

func (s *secretClusters) set(obj any) {
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	cluster := Cluster{
		Name: secret.Name, UID: string(secret.UID), Labels: secret.Labels,
		CloudConfig: secret.Data[s.config.CloudKey],
	}
	data, ok := secret.Data[s.config.Key]
	last := s.clusters[secret.Name]
	switch {
	case !ok:
		cluster.Err = fmt.Errorf("the Secret has no key %q", s.config.Key)
	case last.RESTConfig != nil && bytes.Equal(s.kubeconfigs[secret.Name], data):
		cluster.RESTConfig = last.RESTConfig
	default:
		cluster.RESTConfig, cluster.Err = parseKubeconfig(data)
	}
	if s.kubeconfigs == nil {
		s.kubeconfigs = map[string][]byte{}
	}
	s.clusters[secret.Name], s.kubeconfigs[secret.Name] = cluster, data
	s.changed()
}

func (s *secretClusters) delete(obj any) {
	if last, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		obj = last.Obj
	}
	secret, ok := obj.(*corev1.Secret)
	if !ok {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.clusters, secret.Name)
	delete(s.kubeconfigs, secret.Name)
	s.changed()
}

func (s *secretClusters) changed() {
	select {
	case s.dirty <- struct{}{}:
	default:
	}
}

func (s *secretClusters) all() []Cluster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.clusters), func(a, b Cluster) int {
		return strings.Compare(a.Name, b.Name)
	})
}
