package controllers

import (
	"context"

	nodecontroller "k8s.io/cloud-provider/controllers/node"
)

// CloudNode builds the cloud-node-controller: it initialises nodes that carry the taint
// node.cloudprovider.kubernetes.io/uninitialized, and keeps the addresses of all nodes.
//
// Its Run returns when ctx ends, while upstream's workers may still be busy with one node each.
func CloudNode(t Term, cfg NodeConfig) (Run, error) {
	if err := servesInstances(t.Cloud()); err != nil {
		return nil, err
	}
	client, err := t.Client(nodeClient)
	if err != nil {
		return nil, err
	}
	controller, err := nodecontroller.NewCloudNodeController(
		t.Informers().Core().V1().Nodes(), client, t.Cloud(),
		cfg.StatusUpdateFrequency.Duration, cfg.ConcurrentSyncs, cfg.statusUpdates(),
	)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		controller.RunWithContext(ctx, t.Metrics())
		return nil
	}, nil
}

func (c NodeConfig) statusUpdates() int32 {
	if c.ConcurrentStatusUpdates == 0 {
		return c.ConcurrentSyncs
	}
	return c.ConcurrentStatusUpdates
}
