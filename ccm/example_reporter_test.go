package ccm_test

import (
	"context"
	"fmt"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
)

// balancer is a load balancer of a cloud, with the tags that its creator wrote.
type balancer struct{ id, owner, cluster string }

// taggedCloud is a cloud whose load balancers have tags. Its other methods are left out.
type taggedCloud struct {
	cloudprovider.Interface
	owner     string // ccm.ProviderEnv.Owner
	balancers map[string]balancer
}

// CleanUpCluster implements ccm.ClusterCleaner. The UID alone proves nothing, because the API
// server of the cluster has reported it: without an owner nothing is deleted.
func (c taggedCloud) CleanUpCluster(_ context.Context, uid string) (left []string, err error) {
	for id, b := range c.balancers {
		if c.owner != "" && b.owner == c.owner && b.cluster == uid {
			delete(c.balancers, id) // a real cloud is slower, and left has it until then
		}
	}
	return left, nil
}

// A cloud with tags deletes what a deleted cluster has left, and nothing of its neighbors.
func ExampleClusterCleaner() {
	cloud := taggedCloud{owner: "fleet-a/east", balancers: map[string]balancer{
		"lb-1": {id: "lb-1", owner: "fleet-a/east", cluster: "6f1c2b3a"},
		"lb-2": {id: "lb-2", owner: "fleet-a/west", cluster: "6f1c2b3a"}, // reports the same UID
	}}
	var cleaner ccm.ClusterCleaner = cloud
	left, err := cleaner.CleanUpCluster(context.Background(), "6f1c2b3a")
	fmt.Println(left, err, len(cloud.balancers), cloud.balancers["lb-2"].id)
	// Output: [] <nil> 1 lb-2
}

// describedCloud knows the state of its load balancers. Its other methods are left out.
type describedCloud struct {
	cloudprovider.Interface
	since time.Time
}

// LoadBalancerStatus implements ccm.ObjectReporter. It sends no request.
func (c describedCloud) LoadBalancerStatus() []status.LoadBalancer {
	return []status.LoadBalancer{{
		Namespace: "default", Service: "web", Since: c.since,
		State: status.LoadBalancerRefused, Reason: "SubnetNotFound",
		Message: "The subnet of the annotation does not exist.",
	}}
}

// NodeStatus implements ccm.ObjectReporter.
func (describedCloud) NodeStatus() []status.Node { return nil }

// The report of a provider is in Manager.Status, on /statusz, and in the metrics.
func ExampleObjectReporter() {
	var reporter ccm.ObjectReporter = describedCloud{}
	for _, lb := range reporter.LoadBalancerStatus() {
		fmt.Printf("%s/%s is %s: %s\n", lb.Namespace, lb.Service, lb.State, lb.Message)
	}
	// Output: default/web is refused: The subnet of the annotation does not exist.
}
