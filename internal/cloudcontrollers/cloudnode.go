package cloudcontrollers

import (
	"cmp"
	"context"
	"time"

	nodecontroller "k8s.io/cloud-provider/controllers/node"
)

// CloudNode builds the cloud-node-controller: it initializes nodes that carry the taint
// node.cloudprovider.kubernetes.io/uninitialized, and keeps the addresses of all nodes.
//
// It initializes syncs nodes at once, and refreshes the addresses of statusUpdates nodes at once; 0
// is syncs. Its Run returns when ctx ends, while each of upstream's workers may still be busy with
// one node.
func CloudNode(
	t Term, statusUpdateFrequency time.Duration, syncs, statusUpdates int32,
) (Run, error) {
	if err := servesInstances(t.Cloud()); err != nil {
		return nil, err
	}
	client, err := t.Client(nodeClient)
	if err != nil {
		return nil, err
	}
	events := &recording{client: client, component: "cloud-node-controller"}
	controller, err := nodecontroller.NewCloudNodeController(
		events.nodes(t.Informers().Core().V1().Nodes()), client, t.Cloud(),
		statusUpdateFrequency, syncs, cmp.Or(statusUpdates, syncs),
	)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		events.record(ctx, controller, func() { controller.RunWithContext(ctx, t.Metrics()) })
		return nil
	}, nil
}
