package controllers

import (
	"context"

	servicecontroller "k8s.io/cloud-provider/controllers/service"
)

// ServiceLB builds the service-lb-controller: it keeps a load balancer for every Service of type
// LoadBalancer that has no load balancer class.
//
// Its Run returns when ctx ends, while upstream's workers may still be busy with one Service each.
func ServiceLB(t Term, cfg ServiceConfig) (Run, error) {
	// Asked here because upstream's constructor leaks two queues when the answer is no.
	if _, ok := t.Cloud().LoadBalancer(); !ok {
		return nil, notServed("load balancers")
	}
	client, err := t.Client(serviceClient)
	if err != nil {
		return nil, err
	}
	core := t.Informers().Core().V1()
	// The feature gate argument is not used by upstream (0.37).
	controller, err := servicecontroller.New(t.Cloud(), client, core.Services(), core.Nodes(), t.ClusterName(), nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		controller.Run(ctx, int(cfg.ConcurrentSyncs), t.Metrics())
		return nil
	}, nil
}
