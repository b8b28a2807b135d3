// Package servicelb is the service-lb-controller. It keeps a load balancer for every Service of
// type LoadBalancer that its classes select, with the names, events and metrics of upstream's
// controller, which k8s.io/cloud-provider has in controllers/service.
//
// It looks at a Service as it is now, and at what the provider was last asked for, and makes the
// one call that is missing. So it does not matter which changes came before, or how many.
//
//   - For one Service at most one call is in flight.
//   - A provider that has not finished returns an error that wraps an [api.RetryError]. It is asked
//     again after that time, without an event and without a worker meanwhile.
//   - After a failure it is asked again after 5 seconds, which double up to 5 minutes.
//   - When nodes change, each load balancer gets one update, and then at most one a second.
//   - A provider that is a [members.EndpointBalancer] gets the EndpointSlices of the Services for
//     which it wants them. Their changes lead to one update, and then to at most one in 2 seconds.
//     EndpointSlices are watched from the first such Service on. One watch serves all of them,
//     because a watch for each Service would cost the API server as many.
//
// The controller cleans up what it has served, also if the Service changed hands while no
// controller ran. An annotation of the Service, [ServedClass], has the class for which it was
// served.
//
// The package is a fifth larger than upstream's controller. The queues, the workers and the calls
// for one Service take 800 lines, in controller.go and sync.go. Most of the rest is what upstream's
// lacks: EndpointSlices, the clean-up across classes and restarts, and patches that leave the
// fields of other components alone.
package servicelb
