package openstack

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
)

var _ ccm.ObjectReporter = (*cloud)(nil)

// LoadBalancerStatus implements ccm.ObjectReporter.
func (c *cloud) LoadBalancerStatus() []status.LoadBalancer {
	if c.balancing == nil {
		return nil
	}
	reports := c.balancing.balancers.Reports()
	all := make([]status.LoadBalancer, 0, len(reports))
	for _, r := range reports {
		var requests []status.CloudRequest
		for _, q := range r.Requests {
			requests = append(requests, status.CloudRequest{
				Request: q.Method + " " + q.Path, Result: q.Code, Count: q.Count, Ended: q.Ended,
				Duration: metav1.Duration{Duration: q.Duration},
			})
		}
		all = append(all, status.LoadBalancer{
			Namespace: r.Namespace, Service: r.Name,
			State: status.LoadBalancerState(r.State), Reason: string(r.Reason), Message: r.Message,
			Since: r.Since, ID: r.ID, Name: r.LoadBalancerName,
			ProvisioningStatus: string(r.Provisioning), OperatingStatus: r.Operating,
			Addresses:  r.Addresses,
			ComparedAt: r.ComparedAt, DriftedAt: r.Drifted, Drift: r.Drift,
			Requests: requests,
		})
	}
	return all
}

// NodeStatus implements ccm.ObjectReporter.
func (c *cloud) NodeStatus() []status.Node {
	var all []status.Node
	for _, r := range c.instances.Reports() {
		all = append(all, status.Node{
			Name: r.Node, Reason: string(r.Reason), Message: r.Message, Since: r.Since,
		})
	}
	return all
}
