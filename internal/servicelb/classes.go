package servicelb

import (
	"slices"

	v1 "k8s.io/api/core/v1"
	servicehelper "k8s.io/cloud-provider/service/helpers"
)

// AnyClass stands for all load balancer classes in [Classes].
const AnyClass = "*"

// Classes selects the Services of type LoadBalancer that a [Controller] serves.
type Classes struct {
	// Default serves the Services without a class.
	Default bool
	// Names are the served classes. [AnyClass] serves all classes except those that are listed with
	// a "-".
	Names []string
}

func (c Classes) serve(class *string) bool {
	if class == nil {
		return c.Default
	}
	return slices.Contains(c.Names, *class) ||
		slices.Contains(c.Names, AnyClass) && !slices.Contains(c.Names, "-"+*class)
}

// Serves reports whether a Service of type LoadBalancer is served, or whether one of another type
// is cleaned up.
func (c Classes) Serves(service *v1.Service) bool {
	if service.Spec.Type == v1.ServiceTypeLoadBalancer {
		return c.serve(service.Spec.LoadBalancerClass)
	}
	return servicehelper.HasLBFinalizer(service) && c.owner(service) != another
}

// want reports whether a Service has to have a load balancer of these classes.
func (c Classes) want(service *v1.Service) bool {
	return service.Spec.Type == v1.ServiceTypeLoadBalancer && service.DeletionTimestamp == nil &&
		c.serve(service.Spec.LoadBalancerClass)
}

// ServedClass is the annotation of a Service that has a load balancer: the class that it had when
// the load balancer was requested, or the empty string if it had none. The API server removes the
// class of a Service that changes to another type, so the Service itself does not tell which of
// several controllers has to clean up.
const ServedClass = "fxccm.dev/served-load-balancer-class"

// An owner says who cleans up after a Service that these classes do not serve (any more).
type owner int

const (
	// another controller has served the Service, or none has.
	another owner = iota
	// ours are the Services that were served for one of the classes.
	ours
	// unmarked is a Service with the finalizer and without the annotation: of an earlier version,
	// or of another controller. If the cloud has a load balancer for it, it is ours.
	unmarked
)

func (c Classes) owner(service *v1.Service) owner {
	class, marked := service.Annotations[ServedClass]
	isBalanced := service.Spec.Type == v1.ServiceTypeLoadBalancer
	switch {
	case marked && class == "":
		return c.owns(c.Default)
	case marked:
		return c.owns(c.serve(&class))
	case !servicehelper.HasLBFinalizer(service):
		return another
	case isBalanced:
		// Another controller may serve this class right now, even in the same cloud.
		return c.owns(c.serve(service.Spec.LoadBalancerClass))
	case c.Default:
		return unmarked
	}
	return another
}

// mayClaim returns false if another controller has marked the Service for one of its classes and
// has not cleaned up.
func (c Classes) mayClaim(service *v1.Service) bool {
	_, marked := service.Annotations[ServedClass]
	return !marked || !servicehelper.HasLBFinalizer(service) || c.owner(service) == ours
}

func (Classes) owns(is bool) owner {
	if is {
		return ours
	}
	return another
}
