package controllers_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

func finalizers(names ...string) ccmtest.ServiceOption {
	return func(s *corev1.Service) { s.Finalizers = names }
}

// A class belongs to one controller. The finalizer of service controllers may belong to
// another Manager. If it is removed, that Manager's load balancer is leaked.
func TestService_ManagerServesOneClass_OthersAreNotTouched(t *testing.T) {
	t.Parallel()
	const ours, other = "example.com/ours", "example.com/other"
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud, func(p *ccm.Params) {
		p.Config.Service.DefaultLoadBalancer = false
		p.Config.Service.LoadBalancerClasses = []string{ours}
	})
	mark := shared.Audit().Mark()
	client := shared.Client(t)
	foreign := []string{"class-other", "class-none"}
	ccmtest.CreateService(t, client, ccmtest.LoadBalancerService(foreign[0],
		ccmtest.ServiceClass(other), finalizers(servicehelpers.LoadBalancerCleanupFinalizer)))
	ccmtest.CreateService(t, client, ccmtest.LoadBalancerService(foreign[1],
		finalizers(servicehelpers.LoadBalancerCleanupFinalizer)))
	for _, name := range foreign {
		editService(t, name, annotate("changed"))
		deleteService(t, name)
	}

	for _, name := range []string{"class-deleted", "class-retyped"} {
		createLoadBalancer(t, name, ccmtest.ServiceClass(ours))
		s := getService(t, name)
		if c := s.Spec.LoadBalancerClass; c == nil || *c != ours ||
			!servicehelpers.HasLBFinalizer(s) {
			t.Errorf("%s has the class %v and the finalizers %q", name, c, s.Finalizers)
		}
	}
	deleteService(t, "class-deleted")
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(client.CoreV1().Services("default").Get, "class-deleted"))
	editService(t, "class-retyped", func(s *corev1.Service) {
		s.Spec.Type, s.Spec.LoadBalancerClass = corev1.ServiceTypeClusterIP, nil
	})
	waittest.Until(t, "the finalizer of class-retyped is removed", func() error {
		if s := getService(t, "class-retyped"); servicehelpers.HasLBFinalizer(s) {
			return fmt.Errorf("the finalizers are %q", s.Finalizers)
		}
		return nil
	})

	want := []fake.Method{"EnsureLoadBalancer", "EnsureLoadBalancerDeleted"}
	for _, name := range []string{"class-deleted", "class-retyped"} {
		if got := mutatingCalls(cloud, "default/"+name); !slices.Equal(got, want) {
			t.Errorf("the cloud had the calls %q for %s, want %q", got, name, want)
		}
	}
	for _, name := range foreign {
		if s := getService(t, name); !servicehelpers.HasLBFinalizer(s) {
			t.Errorf("%s has lost the finalizer of its controller", name)
		}
		calls := cloud.Calls(fake.CallFilter{Object: "default/" + name}.Matches)
		if len(calls) > 0 {
			t.Errorf("the cloud was called for %s: %+v", name, calls[0])
		}
		if r := requests(t, mark, controlplane.ByName(name)); len(r) > 0 {
			t.Errorf("%s was touched: %s", name, r[0])
		}
	}
}
