package cloudcontrollers

import (
	"context"
	"time"

	"k8s.io/cloud-provider/controllers/nodelifecycle"
)

// CloudNodeLifecycle builds the cloud-node-lifecycle-controller: it deletes nodes that are not
// ready and whose instance is gone, and taints those whose instance is shut down.
func CloudNodeLifecycle(t Term, monitorPeriod time.Duration, syncs int32) (Run, error) {
	if err := servesInstances(t.Cloud()); err != nil {
		return nil, err
	}
	client, err := t.Client(nodeClient)
	if err != nil {
		return nil, err
	}
	nodes := t.Informers().Core().V1().Nodes()
	// Upstream requests only the lister. A factory that starts before the first call of Lister
	// would not start the informer.
	nodes.Informer()
	events := &recording{client: client, component: "cloud-node-lifecycle-controller"}
	controller, err := nodelifecycle.NewCloudNodeLifecycleController(
		events.nodes(nodes), client, t.Cloud(), monitorPeriod, int(syncs),
	)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		events.record(ctx, controller, func() { controller.Run(ctx, t.Metrics()) })
		return nil
	}, nil
}
