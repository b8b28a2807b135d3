package cloudcontrollers

import (
	"fmt"
	"slices"
	"testing"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
)

func ofClass(class string) *v1.Service {
	service := web("1")
	if class != "" {
		service.Spec.LoadBalancerClass = &class
	}
	return service
}

func retyped() *v1.Service {
	service := web("1")
	service.Spec.Type = v1.ServiceTypeClusterIP
	return service
}

func TestClasses_SelectServices_UpstreamSeesTheSelectedWithoutClass(t *testing.T) {
	for name, test := range map[string]struct {
		classes Classes
		served  []string
	}{
		"default":               {Classes{Default: true}, []string{""}},
		"only one":              {Classes{Names: []string{"b"}}, []string{"b"}},
		"default and one":       {Classes{Default: true, Names: []string{"b"}}, []string{"", "b"}},
		"all":                   {Classes{Default: true, Names: []string{"*"}}, []string{"", "a", "b"}},
		"all but one":           {Classes{Default: true, Names: []string{"-a", "*"}}, []string{"", "b"}},
		"all but the classless": {Classes{Names: []string{"*"}}, []string{"a", "b"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, class := range []string{"", "a", "b"} {
				service := ofClass(class)
				seen := test.classes.view(service)
				if want := slices.Contains(test.served, class); (seen != nil) != want {
					t.Errorf("upstream sees class %q: %t, want %t", class, seen != nil, want)
				}
				if seen != nil && seen.Spec.LoadBalancerClass != nil {
					t.Errorf("upstream sees the class %q", *seen.Spec.LoadBalancerClass)
				}
				if class != "" && service.Spec.LoadBalancerClass == nil {
					t.Error("the class of the informer's object was removed")
				}
			}
		})
	}
}

// recorder records the events that upstream gets.
type recorder struct{ events []string }

func (r *recorder) OnAdd(object any, _ bool) { r.note("add", object) }
func (r *recorder) OnDelete(object any)      { r.note("delete", object) }
func (r *recorder) OnUpdate(before, after any) {
	r.note("update", before, after)
}

func (r *recorder) note(event string, objects ...any) {
	for _, o := range objects {
		spec := o.(*v1.Service).Spec
		event += " " + string(spec.Type)
		if spec.LoadBalancerClass != nil {
			event += fmt.Sprintf(" of %q", *spec.LoadBalancerClass)
		}
	}
	r.events = append(r.events, event)
}

func TestClasses_ServiceChanges_UpstreamGetsTheEventsOfServedServices(t *testing.T) {
	for name, test := range map[string]struct {
		before, after *v1.Service
		want          []string
	}{
		"created, served":             {nil, ofClass("ours"), []string{"add LoadBalancer"}},
		"created, another's":          {nil, ofClass("other"), nil},
		"changed, served":             {ofClass("ours"), ofClass("ours"), []string{"update LoadBalancer LoadBalancer"}},
		"changed, another's":          {ofClass("other"), ofClass("other"), nil},
		"served one changes its type": {ofClass("ours"), retyped(), []string{"update LoadBalancer ClusterIP"}},
		"another's changes its type":  {ofClass("other"), retyped(), []string{"add ClusterIP"}},
		"becomes another's":           {retyped(), ofClass("other"), []string{`update ClusterIP LoadBalancer of "other"`}},
		"replaced by another's":       {ofClass("ours"), ofClass("other"), []string{`update LoadBalancer LoadBalancer of "other"`}},
		"replaces another's":          {ofClass("other"), ofClass("ours"), []string{"add LoadBalancer"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got recorder
			handler := servedHandler{&got, Classes{Names: []string{"ours"}}}
			if test.before == nil {
				handler.OnAdd(test.after, false)
			} else {
				handler.OnUpdate(test.before, test.after)
			}
			if !slices.Equal(got.events, test.want) {
				t.Errorf("upstream gets %q, want %q", got.events, test.want)
			}
		})
	}
}

func TestClasses_ServiceOfAnotherClass_IsNotFoundByUpstream(t *testing.T) {
	indexer := cache.NewIndexer(cache.MetaNamespaceKeyFunc,
		cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})
	for class, found := range map[string]bool{"ours": true, "other": false, "": false} {
		if err := indexer.Update(ofClass(class)); err != nil {
			t.Fatal(err)
		}
		lister := servedLister{
			corelisters.NewServiceLister(indexer), Classes{Names: []string{"ours"}},
		}
		_, err := lister.Services("default").Get("web")
		if found && err != nil || !found && !apierrors.IsNotFound(err) {
			t.Errorf("class %q: %v", class, err)
		}
	}
}
