package cloudcontrollers

import (
	"context"
	"errors"

	servicecontroller "k8s.io/cloud-provider/controllers/service"
)

// ServiceLB builds the service-lb-controller: it keeps a load balancer for every Service of type
// LoadBalancer that the classes select.
//
// A cloud that has not finished returns an error that wraps an [api.RetryError], which says when to
// call again. Upstream would log it and write a Warning event each time. Here it is not a failure:
//
//   - After EnsureLoadBalancer the Service waits without a worker. EnsureLoadBalancer is repeated
//     after the time in the error. After any other result, upstream continues.
//   - After UpdateLoadBalancer the load balancer is ensured.
//   - EnsureLoadBalancerDeleted, and GetLoadBalancer before it, are repeated for a minute, during
//     which the Service keeps a worker. Then the error goes to upstream, which has no other way to
//     keep a Service that is being deleted.
//
// Upstream writes its event EnsuringLoadBalancer when a wait begins and when it ends, and after
// each change of the Service meanwhile. The provider reports why a Service waits.
//
// At most syncs calls for Services, and as many calls of UpdateLoadBalancer for nodes, are in
// flight at once. As many deletions can wait without delaying other Services.
//
// Its Run returns when ctx has ended and no Service waits any more, while each of upstream's
// workers may still be busy with one Service.
func ServiceLB(t Term, syncs int32, classes Classes) (Run, error) {
	balancers, ok := t.Cloud().LoadBalancer()
	// Upstream's constructor leaks two queues if the provider does not serve load balancers.
	if !ok {
		return nil, notServed("load balancers")
	}
	client, err := t.Client(serviceClient)
	if err != nil {
		return nil, err
	}
	core := t.Informers().Core().V1()
	services := &servedServices{ServiceInformer: core.Services(), classes: classes}
	retrying := newRetryingBalancers(balancers, services.Lister(), int(syncs))
	events := &recording{client: client, component: "service-controller"}
	controller, err := servicecontroller.New(
		retryingCloud{t.Cloud(), retrying}, client,
		services, events.nodes(core.Nodes()), t.ClusterName(),
		nil, // not used by upstream (0.37)
	)
	if err != nil {
		return nil, err
	}
	retrying.queue = services.handler
	if retrying.queue == nil {
		return nil, errors.New(
			"upstream's service controller did not register an event handler for Services as in version 0.37")
	}
	return func(ctx context.Context) error {
		events.record(ctx, controller, func() { controller.Run(ctx, 2*int(syncs), t.Metrics()) })
		retrying.close()
		return nil
	}, nil
}
