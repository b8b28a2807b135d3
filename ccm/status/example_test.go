package status_test

import (
	"encoding/json"
	"fmt"

	"github.com/fxccm/fxccm/ccm/status"
)

// A program reads /statusz of another process and lists what needs a person.
func ExampleManager() {
	page := []byte(`{
		"state": "leading", "term": 3, "ready": true, "provider": "openstack",
		"controllers": [{"name": "route", "state": "failed", "reason": "clusterCIDR is not set"}],
		"loadBalancers": [{"namespace": "default", "service": "web", "state": "refused",
			"message": "The subnet does not exist."}]
	}`)
	var m status.Manager
	if err := json.Unmarshal(page, &m); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.State == status.Leading && m.Ready)
	for _, c := range m.Controllers {
		if c.State == status.ControllerFailed {
			fmt.Printf("controller %s: %s\n", c.Name, c.Reason)
		}
	}
	for _, lb := range m.LoadBalancers {
		if lb.State == status.LoadBalancerRefused || lb.State == status.LoadBalancerDegraded {
			fmt.Printf("Service %s/%s: %s\n", lb.Namespace, lb.Service, lb.Message)
		}
	}
	// Output:
	// true
	// controller route: clusterCIDR is not set
	// Service default/web: The subnet does not exist.
}
