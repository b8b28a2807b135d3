package cloudcontrollers

import (
	"context"
	"errors"

	servicecontroller "k8s.io/cloud-provider/controllers/service"
)

// ServiceLB builds the service-lb-controller: it keeps a load balancer for every Service of type
// LoadBalancer that has no load balancer class.
//
// A cloud that has not finished yet says so by an error around an [api.RetryError], which tells
// when to call again. To upstream that is an error like any other: a Warning event and a line in
// the log each time. Here it is neither:
//
//   - After EnsureLoadBalancer the Service waits without a worker. EnsureLoadBalancer is called
//     again at the time that the error tells, and upstream goes on when the answer is another one.
//   - After UpdateLoadBalancer the load balancer is ensured.
//   - EnsureLoadBalancerDeleted, and GetLoadBalancer before it, are called again for a minute,
//     during which the Service keeps a worker. After that the error is an error like any other:
//     upstream has no other way to keep a Service that is being deleted.
//
// Upstream's event EnsuringLoadBalancer comes with the beginning and the end of a wait, and with
// each change of the Service meanwhile. What keeps a Service waiting is for the provider to tell.
//
// No more than syncs calls for Services, and as many UpdateLoadBalancer for nodes,
// run at the same time. That many deletions can wait without delaying other Services.
//
// Its Run returns when ctx has ended and no Service waits any more, while upstream's workers may
// still be busy with one Service each.
func ServiceLB(t Term, syncs int32) (Run, error) {
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
	waiting := newWaitingBalancers(balancers, core.Services().Lister(), int(syncs))
	controller, err := servicecontroller.New(
		waitingCloud{t.Cloud(), waiting}, client, waitingServices{core.Services(), waiting}, core.Nodes(), t.ClusterName(),
		nil, // not used by upstream (0.37)
	)
	if err != nil {
		return nil, err
	}
	if waiting.queue == nil {
		return nil, errors.New("upstream's service controller has not registered for Services in the way that is known (0.37)")
	}
	return func(ctx context.Context) error {
		controller.Run(ctx, 2*int(syncs), t.Metrics())
		waiting.close()
		return nil
	}, nil
}
