package loadbalancer

import (
	"errors"
	"fmt"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// remembered counts the cached states of Services.
func (l *LoadBalancers) remembered() string {
	return fmt.Sprintf("%d states, %d names, %d locks, %d reports", len(l.states.all()),
		len(l.tracked.all()), l.locks.Held(), len(l.Reports()))
}

const nothing = "0 states, 0 names, 0 locks, 0 reports"

// newSkipping returns a cluster of internal load balancers whose clock advances while a caller
// waits.
func newSkipping(t *testing.T, options ...openstacktest.Option) *cluster {
	t.Helper()
	s, _ := newTickingSite(t, options...)
	s.defaults.LoadBalancer.SubnetID, s.defaults.LoadBalancer.InternalLB = s.subnet, true
	return s.begin("cluster-1", s.kube)
}

// each calls do for the Services, a few at a time.
func each(services []*v1.Service, do func(*v1.Service) error) error {
	const workers = 100
	todo := make(chan *v1.Service)
	failed := make([]error, workers)
	var all sync.WaitGroup
	for i := range workers {
		all.Go(func() {
			for service := range todo {
				if err := do(service); err != nil {
					failed[i] = errors.Join(failed[i], fmt.Errorf("%s: %w", service.Name, err))
				}
			}
		})
	}
	for _, service := range services {
		todo <- service
	}
	close(todo)
	all.Wait()
	return errors.Join(failed...)
}

// waits returns an error unless err only means that the reconcile came too early.
func waits(err error) error {
	if isWait(err) {
		return nil
	}
	return fmt.Errorf("the error is %w, want an api.RetryError", err)
}

func TestMemory_OfServicesThatAreGone_IsFreed(t *testing.T) {
	const many = 20
	for name, test := range map[string]struct {
		change func(*v1.Service)
		live   func(*cluster, *v1.Service) error
	}{
		"served and deleted": {annotations(), func(c *cluster, service *v1.Service) error {
			if err := c.serve(service); err != nil {
				return err
			}
			return c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", deleted(service))
		}},
		"refused and deleted": {
			annotations("flavor-id", "large"),
			func(c *cluster, service *v1.Service) error {
				if _, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", service,
					nil); waits(err) != nil {
					return waits(err)
				}
				return c.wantNone(deleted(service))
			},
		},
		"deleted between two looks": {annotations(), func(c *cluster, service *v1.Service) error {
			if err := c.serve(service); err != nil {
				return err
			}
			id := c.site.now(service).Annotations[settings.AnnotationLoadBalancerID]
			c.site.Provision(
				openstacktest.ProvisioningRule{LoadBalancer: id, Times: 1, Never: true})
			if err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes",
				deleted(service)); waits(err) != nil {
				return waits(err)
			}
			if err := c.site.DeleteLoadBalancer(id); err != nil {
				return err
			}
			if err := c.forgetList(); err != nil {
				return err
			}
			return c.wantNone(deleted(service))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newSkipping(t)
			var services []*v1.Service
			for i := range many {
				service := c.site.addService(fmt.Sprint("web-", i), 80)
				test.change(service)
				services = append(services, service)
			}
			if err := each(services,
				func(service *v1.Service) error { return test.live(c, service) }); err != nil {
				t.Fatal(err)
			}
			if got := c.remembered(); got != nothing {
				t.Errorf("after the deletion of %d Services, %s remain", many, got)
			}
		})
	}
}

// serve makes passes until the Service is served.
func (c *cluster) serve(service *v1.Service) error {
	for {
		_, err := c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", service, nil)
		var retry *api.RetryError
		if !errors.As(err, &retry) {
			return err
		}
		<-c.config.Clock.After(retry.RetryAfter())
	}
}

// wantNone reads the load balancer as the service controller does before a deletion.
func (c *cluster) wantNone(service *v1.Service) error {
	_, exists, err := c.GetLoadBalancer(c.site.t.Context(), "kubernetes", service)
	if err == nil && exists {
		err = errors.New("the load balancer still exists")
	}
	return err
}

func deleted(service *v1.Service) *v1.Service {
	gone, now := service.DeepCopy(), metav1.Now()
	gone.DeletionTimestamp = &now
	return gone
}

// Upstream's node sync uses its own copies of Services.
func TestMemory_UpdateAfterTheDeletion_LeavesNothing(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	service := c.site.addService("web", 80)
	c.ensure(service, node)
	if got := c.remembered(); got == nothing {
		t.Fatal("a Service that is served has no cached state")
	}
	c.remove(service)
	if err := c.UpdateLoadBalancer(t.Context(), "kubernetes", service,
		[]*v1.Node{node}); err == nil {
		t.Error("a deleted load balancer was updated")
	}
	if got := c.remembered(); got != nothing {
		t.Errorf("%s remain", got)
	}
}
