package informerview_test

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/informers/internalinterfaces"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"

	"github.com/fxccm/fxccm/internal/informerview"
)

// resource is a typed accessor of a factory, such as Core().V1().Nodes().
type resource struct {
	name  string
	value reflect.Value
}

func (r resource) informer() cache.SharedIndexInformer {
	return r.value.MethodByName("Informer").Call(nil)[0].Interface().(cache.SharedIndexInformer)
}

func (r resource) typedInformer() cache.SharedIndexInformer {
	typed := r.value.MethodByName("TypedInformer").Call(nil)[0].Interface()
	return typed.(cache.SharedIndexInformer)
}

func (r resource) list() reflect.Value {
	return r.value.MethodByName("Lister").Call(nil)[0].MethodByName("List")
}

// object makes an object of the accessor's type.
func (r resource) object() metav1.Object {
	object := reflect.New(r.list().Type().Out(0).Elem().Elem()).Interface().(metav1.Object)
	object.SetName("one")
	return object
}

// resources finds all typed accessors of all groups and versions.
func resources(t *testing.T, factory informers.SharedInformerFactory) []resource {
	t.Helper()
	var found []resource
	each := func(of reflect.Type, value reflect.Value, visit func(
		name string, result reflect.Value),
	) {
		for i := range of.NumMethod() {
			m := of.Method(i)
			if m.Type.NumIn() == 0 && m.Type.NumOut() == 1 &&
				m.Type.Out(0).Kind() == reflect.Interface &&
				strings.HasPrefix(m.Type.Out(0).PkgPath(), "k8s.io/client-go/informers/") {
				visit(m.Name, value.MethodByName(m.Name).Call(nil)[0])
			}
		}
	}
	each(reflect.TypeFor[informers.SharedInformerFactory](), reflect.ValueOf(factory),
		func(group string, v reflect.Value) {
			each(v.Type(), v, func(version string, v reflect.Value) {
				each(v.Type(), v, func(name string, v reflect.Value) {
					found = append(found, resource{group + "." + version + "." + name, v})
				})
			})
		})
	if len(found) < 60 {
		t.Fatalf("only %d typed accessors were found", len(found))
	}
	return found
}

func TestTypedAccessors_EachResource_InformerAndListerComeFromTheView(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	for name, view := range map[string]*informerview.View{
		"host's factory": informerview.NewShared(factory, nil).View(),
		"own factory":    informerview.New(factory),
		"scope":          informerview.New(factory).Scope(),
	} {
		t.Run(name, func(t *testing.T) {
			of := resources(t, factory)
			ofView := resources(t, view)
			for i, r := range ofView {
				if r.informer().GetStore() != of[i].informer().GetStore() {
					t.Errorf("%s: the informer is not the factory's", r.name)
				}
				if err := of[i].informer().GetStore().Add(r.object()); err != nil {
					t.Fatal(err)
				}
				listed := r.list().Call([]reflect.Value{reflect.ValueOf(labels.Everything())})
				if listed[0].Len() != 1 {
					t.Errorf("%s: the lister lists %d objects, expected 1", r.name, listed[0].Len())
				}
			}
			view.Shutdown()
			for _, r := range ofView {
				for _, informer := range []cache.SharedIndexInformer{
					r.informer(),
					r.typedInformer(),
				} {
					if _, err := informer.AddEventHandler(
						cache.ResourceEventHandlerFuncs{}); err == nil {
						t.Errorf("%s: the informer accepts a handler after the term", r.name)
					}
				}
			}
		})
	}
}

// onlyByResource is a factory whose InformerFor must not be called.
type onlyByResource struct {
	informers.SharedInformerFactory
	t *testing.T
}

func (f onlyByResource) InformerFor(
	obj runtime.Object, newFunc internalinterfaces.NewInformerFunc,
) cache.SharedIndexInformer {
	f.t.Errorf("the informer of %T was made without the factory's namespace and list options", obj)
	return f.SharedInformerFactory.InformerFor(obj, newFunc)
}

func TestTypedAccessors_EachResource_InformerHasTheFactorysNamespaceAndOptions(t *testing.T) {
	factory := onlyByResource{informers.NewSharedInformerFactory(fake.NewClientset(), 0), t}
	for _, r := range resources(t, informerview.NewShared(factory, nil).View()) {
		r.informer()
	}
}

func TestForResource_EachKind_ComesFromTheView(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	view := informerview.NewShared(factory, nil).View()
	for _, resource := range knownResources() {
		ofHost, err := factory.ForResource(resource)
		if err != nil {
			continue // not a kind with informers
		}
		generic, err := view.ForResource(resource)
		if err != nil {
			t.Errorf("%s: %v", resource, err)
			continue
		}
		if generic.Informer().GetStore() != ofHost.Informer().GetStore() {
			t.Errorf("%s: the informer is not the factory's", resource)
		}
		again, err := view.ForResource(resource)
		if err != nil || again.Informer() != generic.Informer() {
			t.Errorf("%s: a second request returned another informer (error %v)", resource, err)
		}
	}
	generic, err := view.ForResource(nodesResource)
	if err != nil {
		t.Fatal(err)
	}
	if err := generic.Informer().GetStore().Add(nodes(t, "one")[0]); err != nil {
		t.Fatal(err)
	}
	if objects, err := generic.Lister().List(labels.Everything()); err != nil || len(objects) != 1 {
		t.Errorf("the lister lists %d objects (error %v), expected 1", len(objects), err)
	}
	view.Shutdown()
	if _, err := generic.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{}); !errors.Is(
		err, informerview.ErrTermOver) {
		t.Errorf("AddEventHandler after the term: error %v, expected %v", err,
			informerview.ErrTermOver)
	}
	if _, err := view.ForResource(unknownResource); err == nil {
		t.Error("ForResource of a resource that client-go does not know: no error")
	}
}
