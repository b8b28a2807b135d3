package fleet

import (
	"bytes"
	"context"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
)

// gatherTime is how long changes of clusters gather before they are passed on, because they come in
// bursts.
const gatherTime = 100 * time.Millisecond

// passOn passes all clusters to the fleet when the informers have synced, and again after each
// change, until ctx ends. The informers already run. The error is that of an informer that has
// stopped.
func passOn(
	ctx context.Context, informers []cache.SharedIndexInformer,
	all func() []Cluster, update func([]Cluster),
) error {
	changed := make(chan struct{}, 1)
	change := func(any) {
		select {
		case changed <- struct{}{}:
		default:
		}
	}
	for _, informer := range informers {
		registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: change, UpdateFunc: func(_, obj any) { change(obj) }, DeleteFunc: change,
		})
		if err != nil {
			return err
		}
		if !cache.WaitForCacheSync(ctx.Done(), registration.HasSynced) {
			return nil
		}
	}
	for {
		update(all())
		select {
		case <-changed:
		case <-ctx.Done():
			return nil
		}
		select {
		case <-time.After(gatherTime):
		case <-ctx.Done():
			return nil
		}
	}
}

// kubeconfigs are the parsed kubeconfigs, by the cluster's name. An unchanged kubeconfig is not
// parsed again, so that the cluster's client configuration stays the same.
type kubeconfigs map[string]kubeconfig

type kubeconfig struct {
	data   []byte
	config *rest.Config
	err    error
}

// parse returns the client configuration of a cluster. last has the kubeconfigs of the previous
// update.
func (k kubeconfigs) parse(
	parse parser, cluster string, data []byte, last kubeconfigs,
) (*rest.Config, error) {
	parsed, ok := last[cluster]
	if !ok || !bytes.Equal(parsed.data, data) {
		parsed = kubeconfig{data: data}
		parsed.config, parsed.err = parse(data)
	}
	k[cluster] = parsed
	return parsed.config, parsed.err
}
