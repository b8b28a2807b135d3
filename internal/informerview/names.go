package informerview

import (
	"fmt"
	"reflect"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/printable"
)

// maxShown is how many characters of a refused name are in its error.
const maxShown = 40

// RefuseNames returns a transform for the informers of one term. It refuses Nodes, Services and
// EndpointSlices that no API server of Kubernetes accepts, because of their name, namespace or UID.
// Otherwise a hostile API server could fill queues, caches and logs with names of megabytes. Other
// objects go to next.
//
// refused must end the term: client-go keeps a refused object out of the informer, but logs each
// one, and fails each list that has one.
func RefuseNames(refused func(error), next cache.TransformFunc) cache.TransformFunc {
	return func(obj any) (any, error) {
		if err := checkNames(obj); err != nil {
			reflect.ValueOf(obj).Elem().SetZero() // client-go logs the object
			refused(err)
			return nil, err
		}
		return next(obj)
	}
}

func checkNames(obj any) error {
	var kind string
	switch obj.(type) {
	case *corev1.Node:
		kind = "Node"
	case *corev1.Service:
		kind = "Service"
	case *discoveryv1.EndpointSlice:
		kind = "EndpointSlice"
	default:
		return nil // controllers of the host know more kinds, whose names have other rules
	}
	object := obj.(metav1.Object)
	name, namespace, uid := object.GetName(), object.GetNamespace(), string(object.GetUID())
	switch {
	case !isName(name):
		return refuseName(kind, "name", name)
	case namespace != "" && !isName(namespace):
		return refuseName(kind, "namespace", namespace)
	case len(uid) > validation.DNS1123SubdomainMaxLength:
		return refuseName(kind, "UID", uid)
	}
	return nil
}

// isName checks the length first, because the rest takes a second for a name of some megabytes.
func isName(name string) bool {
	return len(name) <= validation.DNS1123SubdomainMaxLength &&
		len(validation.IsDNS1123Subdomain(name)) == 0
}

func refuseName(kind, field, value string) error {
	return fmt.Errorf("the API server sent an object of the kind %s with the %s %q (%d bytes), "+
		"which no API server of Kubernetes accepts", kind, field,
		printable.Text(value, maxShown), len(value))
}
