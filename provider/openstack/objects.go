package openstack

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
)

var _ ccm.ObjectReporter = (*cloud)(nil)

// LoadBalancerStatus implements ccm.ObjectReporter.
func (c *cloud) LoadBalancerStatus() []ccm.LoadBalancerStatus {
	if c.balancing == nil {
		return nil
	}
	reports := c.balancing.balancers.Reports()
	all := make([]ccm.LoadBalancerStatus, 0, len(reports))
	for _, r := range reports {
		var requests []ccm.CloudRequest
		for _, q := range r.Requests {
			requests = append(requests, ccm.CloudRequest{
				Request: q.Method + " " + q.Path, Result: q.Code, Count: q.Count, Ended: q.Ended,
				Duration: metav1.Duration{Duration: q.Duration},
			})
		}
		all = append(all, ccm.LoadBalancerStatus{
			Namespace: r.Namespace, Service: r.Name,
			State: ccm.LoadBalancerState(r.State), Reason: string(r.Reason), Message: r.Message,
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
func (c *cloud) NodeStatus() []ccm.NodeStatus {
	var all []ccm.NodeStatus
	for _, r := range c.instances.Reports() {
		all = append(all, ccm.NodeStatus{
			Name: r.Node, Reason: string(r.Reason), Message: r.Message, Since: r.Since,
		})
	}
	return all
}
