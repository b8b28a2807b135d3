package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	applycorev1 "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/client-go/kubernetes"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/ccm"
)

const (
	censusName      = "node-census"
	censusNamespace = "kube-system"
)

// nodeCensus is a controller beside the four: it writes the number of nodes in each zone to the
// ConfigMap kube-system/node-census. --ccm-controllers=*,-node-census turns it off.
func nodeCensus() ccm.Controller {
	// Other controllers do not need the census, so its failure does not end the term.
	return ccm.Controller{Name: censusName, RestartOnFailure: true, New: newCensus}
}

// census lasts for a term. After the term, its client is refused, and its handler is removed from
// the host's informer.
type census struct {
	client  kubernetes.Interface
	nodes   listers.NodeLister
	changed chan struct{}
}

func newCensus(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
	client, err := t.Client(censusName)
	if err != nil {
		return nil, err
	}
	nodes := t.Informers().Core().V1().Nodes()
	c := &census{client: client, nodes: nodes.Lister(), changed: make(chan struct{}, 1)}
	_, err = nodes.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.notify() },
		UpdateFunc: func(any, any) { c.notify() },
		DeleteFunc: func(any) { c.notify() },
	})
	return c, err
}

// notify does not wait: one more pass is enough for any number of changes.
func (c *census) notify() {
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// Run implements ccm.Runnable.
func (c *census) Run(ctx context.Context) error {
	var written map[string]string
	c.notify() // also without any node
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-c.changed:
		}
		counted, err := c.count()
		if err != nil {
			return err
		}
		if written != nil && maps.Equal(counted, written) {
			continue // a heartbeat every few seconds
		}
		if err := c.write(ctx, counted); err != nil {
			return err
		}
		written = counted
	}
}

func (c *census) count() (map[string]string, error) {
	nodes, err := c.nodes.List(labels.Everything())
	if err != nil {
		return nil, fmt.Errorf("list nodes: %w", err)
	}
	zones := map[string]int{}
	for _, node := range nodes {
		zones[cmp.Or(node.Labels[corev1.LabelTopologyZone], "none")]++
	}
	counted := map[string]string{}
	for zone, n := range zones {
		counted[zone] = strconv.Itoa(n)
	}
	return counted, nil
}

func (c *census) write(ctx context.Context, counted map[string]string) error {
	_, err := c.client.CoreV1().ConfigMaps(censusNamespace).Apply(ctx,
		applycorev1.ConfigMap(censusName, censusNamespace).WithData(counted),
		metav1.ApplyOptions{FieldManager: censusName, Force: true})
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("write ConfigMap %s/%s: %w", censusNamespace, censusName, err)
	}
	return nil
}
