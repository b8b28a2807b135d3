package controllers_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

// manyPasses are more events than client-go sends for one object: 25 events, and then one in five
// minutes.
const manyPasses = 40

// unready is the answer of a cloud that still builds the load balancer.
func unready() error {
	return fmt.Errorf("load balancer a1b2: %w",
		cloudproviderapi.NewRetryError("still building", 5*time.Millisecond))
}

// wantAtMost fails the test if an event was recorded more often.
func wantAtMost(t *testing.T, events []corev1.Event, times int32) {
	t.Helper()
	for _, e := range events {
		if e.Count > times {
			t.Errorf("%s %s was told %d times, want at most %d: %s", e.Type, e.Reason, e.Count,
				times, e.Message)
		}
	}
}

func TestServiceWait_WhileTheCloudBuilds_NoEventIsRecorded(t *testing.T) {
	for name, nodes := range map[string]int{"wait-nodes": 1, "wait-nodeless": 0} {
		t.Run(name, func(t *testing.T) {
			first := []string{
				"Normal EnsuringLoadBalancer",
				"Warning UnAvailableLoadBalancer",
			}[:2-nodes]
			for i := range nodes {
				ccmtest.CreateNode(t, shared.Client(t),
					ccmtest.ReadyNode(fmt.Sprintf("%s-%d", name, i)))
			}
			cloud := newCloud(t, nil)
			cloud.On("EnsureLoadBalancer").Times(manyPasses).Fail(unready())
			runServiceLB(t, cloud)
			service := createLoadBalancer(t, name)
			served := append(first, "Normal EnsuredLoadBalancer")
			wantAtMost(t, waitServiceEvents(t, service, served...), 1)
			if n := len(
				cloud.Calls(callsOf("EnsureLoadBalancer", "default/"+name))); n != manyPasses+1 {
				t.Errorf("the cloud got %d calls, want %d", n, manyPasses+1)
			}

			// A later failure is reported as usual, and so are the following events.
			cloud.On("EnsureLoadBalancer").Times(1).Fail(errors.New("quota exceeded"))
			editService(t, name, annotate("another"))
			events := waitServiceEvents(t, service,
				append(served, "Warning SyncLoadBalancerFailed")...)
			if got, want := events[len(events)-1].Message,
				"Error syncing load balancer: quota exceeded"; got != want {
				t.Errorf("the failure is reported as %q, want %q", got, want)
			}
		})
	}
}

// The Service is deleted while it waits to be served.
func TestServiceWait_Deleted_IsReportedAsADeletion(t *testing.T) {
	t.Parallel()
	cloud := newCloud(t, nil)
	cloud.On("EnsureLoadBalancer").AfterEffect().Fail(unready())
	runServiceLB(t, cloud)
	service := ccmtest.CreateService(t, shared.Client(t),
		ccmtest.LoadBalancerService("wait-given-up"))
	waitCalls(t, cloud, "the load balancer is waited for", 3,
		callsOf("EnsureLoadBalancer", keyOf(service)))
	deleteService(t, service.Name)
	ccmtest.Eventually(t, "the Service is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Services("default").Get, service.Name))
	wantAtMost(t,
		waitServiceEvents(t, service, "Normal EnsuringLoadBalancer",
			"Warning UnAvailableLoadBalancer",
			"Normal DeletingLoadBalancer", "Normal DeletedLoadBalancer"), 1)
}
