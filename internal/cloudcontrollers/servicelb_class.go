package cloudcontrollers

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// AnyClass stands for all load balancer classes in [Classes].
const AnyClass = "*"

// Classes selects the Services of type LoadBalancer that [ServiceLB] serves.
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

// view returns the Service as upstream sees it, or nil if upstream must not see it. Upstream
// ignores Services with a class, so it gets a served one without. Its patches change only metadata
// and status.
//
// Upstream would remove the finalizer of every Service that is being deleted. A Service of another
// class belongs to another controller, and so does its finalizer.
//
// The API server removes the class of a Service that changes to another type. Upstream sees all
// Services of other types, and checks with the provider whether they still have a load balancer.
func (c Classes) view(service *v1.Service) *v1.Service {
	if service.Spec.Type != v1.ServiceTypeLoadBalancer {
		return service
	}
	if !c.serve(service.Spec.LoadBalancerClass) {
		return nil
	}
	if service.Spec.LoadBalancerClass == nil {
		return service
	}
	seen := *service
	seen.Spec.LoadBalancerClass = nil
	return &seen
}

// servedServices gives upstream the view of the Services, and keeps the event handler that upstream
// registers.
type servedServices struct {
	coreinformers.ServiceInformer
	classes Classes
	// handler is upstream's event handler.
	handler cache.ResourceEventHandler
}

// Informer implements coreinformers.ServiceInformer.
func (s *servedServices) Informer() cache.SharedIndexInformer {
	return servedInformer{s.ServiceInformer.Informer(), s}
}

// Lister implements coreinformers.ServiceInformer.
func (s *servedServices) Lister() corelisters.ServiceLister {
	return servedLister{s.ServiceInformer.Lister(), s.classes}
}

type servedInformer struct {
	cache.SharedIndexInformer
	services *servedServices
}

// AddEventHandlerWithResyncPeriod implements cache.SharedInformer.
func (i servedInformer) AddEventHandlerWithResyncPeriod(
	handler cache.ResourceEventHandler, period time.Duration,
) (cache.ResourceEventHandlerRegistration, error) {
	i.services.handler = handler
	return i.SharedIndexInformer.AddEventHandlerWithResyncPeriod(
		servedHandler{handler, i.services.classes}, period)
}

// servedHandler passes upstream the events of the Services in its view.
type servedHandler struct {
	cache.ResourceEventHandler
	classes Classes
}

// OnAdd implements cache.ResourceEventHandler.
func (h servedHandler) OnAdd(object any, initial bool) {
	if service, ok := object.(*v1.Service); ok {
		if seen := h.classes.view(service); seen != nil {
			h.ResourceEventHandler.OnAdd(seen, initial)
		}
	}
}

// OnUpdate implements cache.ResourceEventHandler. A Service in upstream's view may be replaced by a
// Service of the same name that is not. Upstream gets the new one with its class, and finds that it
// needs no load balancer.
func (h servedHandler) OnUpdate(before, after any) {
	was, ok1 := before.(*v1.Service)
	is, ok2 := after.(*v1.Service)
	if !ok1 || !ok2 {
		return
	}
	seen, sees := h.classes.view(was), h.classes.view(is)
	switch {
	case seen == nil && sees == nil:
	case seen == nil:
		h.ResourceEventHandler.OnAdd(sees, false)
	case sees == nil:
		h.ResourceEventHandler.OnUpdate(seen, is)
	default:
		h.ResourceEventHandler.OnUpdate(seen, sees)
	}
}

// servedLister finds the Services in upstream's view. Upstream uses only Get.
type servedLister struct {
	corelisters.ServiceLister
	classes Classes
}

// Services implements corelisters.ServiceLister.
func (l servedLister) Services(namespace string) corelisters.ServiceNamespaceLister {
	return servedNamespaceLister{l.ServiceLister.Services(namespace), l.classes}
}

type servedNamespaceLister struct {
	corelisters.ServiceNamespaceLister
	classes Classes
}

// Get implements corelisters.ServiceNamespaceLister.
func (l servedNamespaceLister) Get(name string) (*v1.Service, error) {
	service, err := l.ServiceNamespaceLister.Get(name)
	if err != nil {
		return nil, err
	}
	if seen := l.classes.view(service); seen != nil {
		return seen, nil
	}
	return nil, apierrors.NewNotFound(v1.Resource("services"), name)
}
