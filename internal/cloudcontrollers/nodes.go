package cloudcontrollers

import (
	"cmp"
	"context"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/fxccm/fxccm/internal/nodes"
)

// CloudNode builds the cloud-node-controller: it initializes the nodes with the taint
// node.cloudprovider.kubernetes.io/uninitialized, syncs of them at once, and refreshes all nodes
// after each period. refresh.Syncs is syncs if it is 0.
//
// A provider without instances initializes no node. The controller then reports each node that
// waits.
func CloudNode(
	t Term, selector labels.Selector, period time.Duration, syncs int32, refresh nodes.Refresh,
) (Run, error) {
	params, err := nodeParams(t, "cloud-node-controller", selector, period, syncs)
	if err != nil {
		return nil, err
	}
	refresh.Syncs = cmp.Or(refresh.Syncs, int(syncs))
	controller, err := nodes.New(params, refresh)
	if err != nil {
		return nil, err
	}
	return counted(t, "cloud-node", controller.Run), nil
}

// CloudNodeLifecycle builds the cloud-node-lifecycle-controller: it deletes nodes that are not
// ready and whose instance is gone, and taints those whose instance is shut down. It checks syncs
// nodes at once.
func CloudNodeLifecycle(
	t Term, selector labels.Selector, period time.Duration, syncs int32,
) (Run, error) {
	if !nodes.Serve(t.Cloud()) {
		return nil, notServed("instances")
	}
	params, err := nodeParams(t, "cloud-node-lifecycle-controller", selector, period, syncs)
	if err != nil {
		return nil, err
	}
	return counted(t, "cloud-node-lifecycle", nodes.NewLifecycle(params).Run), nil
}

func nodeParams(
	t Term, component string, selector labels.Selector, period time.Duration, syncs int32,
) (nodes.Params, error) {
	client, err := t.Client(nodeClient)
	if err != nil {
		return nodes.Params{}, err
	}
	return nodes.Params{
		Cloud: t.Cloud(), Selector: selector, Client: client.CoreV1(),
		Nodes: t.Informers().Core().V1().Nodes(), Recorder: t.Recorder(component),
		Record: t.NodeRecord(), Registry: t.Registerer(), Syncs: int(syncs), Period: period,
	}, nil
}

// counted counts a controller while it runs.
func counted(t Term, name string, run func(context.Context)) Run {
	return func(ctx context.Context) error {
		t.Metrics().ControllerStarted(name)
		defer t.Metrics().ControllerStopped(name)
		run(ctx)
		return nil
	}
}
