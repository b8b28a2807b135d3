package cloudcontrollers

import (
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	coreinformers "k8s.io/client-go/informers/core/v1"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

// shownNodes gives upstream a lister of the nodes that show selects.
type shownNodes struct {
	coreinformers.NodeInformer
	show func(all []*v1.Node) []*v1.Node
	// handles gets the event handlers that upstream registers.
	handles func(cache.ResourceEventHandler)
}

// Informer implements coreinformers.NodeInformer.
func (n shownNodes) Informer() cache.SharedIndexInformer {
	return handledInformer{n.NodeInformer.Informer(), n.handles}
}

// Lister implements coreinformers.NodeInformer.
func (n shownNodes) Lister() corelisters.NodeLister {
	return shownLister{n.NodeInformer.Lister(), n.show}
}

type handledInformer struct {
	cache.SharedIndexInformer
	handles func(cache.ResourceEventHandler)
}

// AddEventHandler implements cache.SharedInformer.
func (i handledInformer) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	i.handles(handler)
	return i.SharedIndexInformer.AddEventHandler(handler)
}

type shownLister struct {
	corelisters.NodeLister
	show func(all []*v1.Node) []*v1.Node
}

// List implements corelisters.NodeLister.
func (l shownLister) List(selector labels.Selector) ([]*v1.Node, error) {
	all, err := l.NodeLister.List(selector)
	if err != nil {
		return nil, err
	}
	return l.show(all), nil
}
