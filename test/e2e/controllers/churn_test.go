//go:build !race

// Upstream's service controller writes in its service workers, without a lock, what its node worker
// reads (k8s.io/cloud-provider v0.37, controllers/service: cachedService.state). The race detector
// finds that whenever nodes change while there are load balancers, so these tests run without it.

package controllers_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudproviderapi "k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/fake"
)

func createReadyNodes(t *testing.T, names ...string) {
	t.Helper()
	for _, name := range names {
		ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode(name))
	}
}

func deleteNode(t *testing.T, name string) {
	t.Helper()
	if err := shared.Client(t).CoreV1().Nodes().Delete(t.Context(), name,
		metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitMembers(t *testing.T, cloud *fake.Cloud, service string, want ...string) {
	t.Helper()
	ccmtest.WaitCloud(t, cloud,
		fmt.Sprintf("the load balancer of %s has the nodes %v", service, want), func() error {
			if b, _ := cloud.LoadBalancer(service); !slices.Equal(b.Members, want) {
				return fmt.Errorf("it has %v", b.Members)
			}
			return nil
		})
}

func TestChurn_NodesThatComeAndGoReachEveryLoadBalancer(t *testing.T) {
	createReadyNodes(t, "churn-1", "churn-2")
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	services := []string{"default/churn-a", "default/churn-b"}
	createLoadBalancer(t, "churn-a")
	createLoadBalancer(t, "churn-b")
	ccmtest.CreateService(t, shared.Client(t),
		ccmtest.LoadBalancerService("churn-class", ccmtest.ServiceClass("example.org/other")))
	updates := 0
	// Each change comes to one update of each load balancer.
	expect := func(what string, members ...string) {
		t.Helper()
		updates++
		for _, service := range services {
			waitCalls(t, cloud,
				fmt.Sprintf("the load balancer of %s is updated because %s", service, what),
				updates,
				fake.CallFilter{
					Method: fake.UpdateLoadBalancer, Object: service,
					Finished: true,
				}.Matches)
			waitMembers(t, cloud, service, members...)
			if n := len(cloud.Calls(callsOf(fake.UpdateLoadBalancer, service))); n != updates {
				t.Errorf("%s was updated %d times when %s, want %d", service, n, what, updates)
			}
		}
	}

	createReadyNodes(t, "churn-3")
	expect("a node came", "churn-1", "churn-2", "churn-3")
	patchNode(t, "churn-1",
		`{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":"true"}}}`)
	expect("a node was excluded", "churn-2", "churn-3")
	patchNode(t, "churn-1",
		`{"metadata":{"labels":{"node.kubernetes.io/exclude-from-external-load-balancers":null}}}`)
	expect("a node was included", "churn-1", "churn-2", "churn-3")
	patchNode(t, "churn-2", `{"spec":{"providerID":"fake://region-1/churn-2"}}`)
	expect("a node got its provider ID", "churn-1", "churn-2", "churn-3")

	// None of these is a reason; a node that is about to go leaves with the next one.
	patchNode(t, "churn-1", `{"spec":{"unschedulable":true}}`)
	patchNode(t, "churn-2", `{"status":{"conditions":[{"type":"Ready","status":"False"}]}}`,
		"status")
	patchNode(t, "churn-3",
		`{"spec":{"taints":[{"key":"ToBeDeletedByClusterAutoscaler","effect":"NoSchedule"}]}}`)
	createReadyNodes(t, "churn-4")
	expect("the next node came", "churn-1", "churn-2", "churn-4")
	deleteNode(t, "churn-4")
	expect("a node went", "churn-1", "churn-2")

	for _, service := range services {
		if n := len(cloud.Calls(callsOf(fake.EnsureLoadBalancer, service))); n != 1 {
			t.Errorf("%s was ensured %d times, want once", service, n)
		}
	}
	if calls := cloud.Calls(fake.CallFilter{Object: "default/churn-class"}.Matches); len(
		calls) > 0 {
		t.Errorf("the Service with a class was touched: %+v", calls)
	}
}

func TestChurn_WhenAnUpdateIsToBeAskedForAgain_NobodyIsTold(t *testing.T) {
	createReadyNodes(t, "later-1")
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud)
	service := createLoadBalancer(t, "later-update")
	busy := cloudproviderapi.NewRetryError("busy", 10*time.Millisecond)
	cloud.On(fake.UpdateLoadBalancer).Times(1).Fail(busy)
	cloud.On(fake.EnsureLoadBalancer).Times(20).Fail(busy)
	createReadyNodes(t, "later-2")
	waitMembers(t, cloud, keyOf(service), "later-1", "later-2")
	wantAtMost(t,
		waitServiceEvents(t, service, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer"),
		3)
	deleteNode(t, "later-1")
	waitMembers(t, cloud, keyOf(service), "later-2")
	deleteNode(t, "later-2")
	waitServiceEvents(t, service, "Normal EnsuringLoadBalancer", "Normal EnsuredLoadBalancer",
		"Normal UpdatedLoadBalancer",
		"Warning UnAvailableLoadBalancer")
}

func TestChurn_AsManyLoadBalancersAreUpdatedAtOnceAsConfigured_AndOneNodeAfterTheOther(
	t *testing.T,
) {
	createReadyNodes(t, "limit-1")
	cloud := newCloud(t, nil)
	runServiceLB(t, cloud, serviceWorkers(2))
	for i := range 3 {
		createLoadBalancer(t, fmt.Sprintf("limit-%d", i))
	}
	updates := fake.CallFilter{Method: fake.UpdateLoadBalancer}.Matches
	release := cloud.On(fake.UpdateLoadBalancer).Hang()
	createReadyNodes(t, "limit-2")
	waitCalls(t, cloud, "two load balancers are being updated", 2, updates)
	// The next change of the nodes waits, while Services are dealt with.
	createReadyNodes(t, "limit-3")
	bystander(t, cloud)
	if n := len(cloud.Calls(updates)); n != 2 {
		t.Errorf("%d load balancers are being updated at once, want 2", n)
	}
	release()
	for i := range 3 {
		waitMembers(t, cloud, fmt.Sprintf("default/limit-%d", i), "limit-1", "limit-2", "limit-3")
	}
}
