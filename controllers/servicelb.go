package controllers

import (
	"context"

	servicecontroller "k8s.io/cloud-provider/controllers/service"
)

// ServiceLB builds the service-lb-controller: it keeps a load balancer for every Service of type
// LoadBalancer that has no load balancer class.
//
// A cloud that has not finished yet says so by an error around an [api.RetryError], which tells when to ask again. To upstream that is
// an error like any other, but for the time of the next try: a Warning event each time. Here it is none: a Service that waits has the
// event EnsuringLoadBalancer (or DeletingLoadBalancer) of the beginning, and then what comes of it. What keeps it waiting is for the
// provider to tell. That holds for EnsureLoadBalancer, UpdateLoadBalancer, EnsureLoadBalancerDeleted and GetLoadBalancer of any
// provider; the last two are asked again after upstream's growing pauses (5 s to 5 min), whatever time the error tells.
//
// Its Run returns when ctx ends, while upstream's workers may still be busy with one Service each.
func ServiceLB(t Term, cfg ServiceConfig) (Run, error) {
	balancers, ok := t.Cloud().LoadBalancer()
	// Asked here because upstream's constructor leaks two queues when the answer is no.
	if !ok {
		return nil, notServed("load balancers")
	}
	client, err := t.Client(serviceClient)
	if err != nil {
		return nil, err
	}
	core := t.Informers().Core().V1()
	waits := newWaits()
	controller, err := servicecontroller.New(
		waitingCloud{t.Cloud(), waitingBalancers{balancers, waits}},
		waitingClient{client, waits},
		waitingServices{core.Services(), waits},
		core.Nodes(), t.ClusterName(),
		nil, // not used by upstream (0.37)
	)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		controller.Run(ctx, int(cfg.ConcurrentSyncs), t.Metrics())
		return nil
	}, nil
}
