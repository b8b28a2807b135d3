package conformance_test

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestRun_OpenStackProvider_IsSafeInProcess(t *testing.T) {
	t.Parallel()
	report := conformance.Run(t, conformance.Suite{
		Provider: openstack.Provider(),
		NewCloud: newOpenStack, BadConfig: "[Global]\nauth-url = nowhere\n", Cluster: cluster,
	})
	for _, result := range report.Results {
		if result.Outcome != conformance.Passed {
			t.Errorf("%s %s: %s", result.Check, result.Outcome, result.Detail)
		}
	}
}

// openStack is the simulated OpenStack with a network of nodes behind a router.
type openStack struct {
	conformance.Gate
	cloud           *openstacktest.Cloud
	network, subnet string
	file            string
}

var (
	_ conformance.Adopter           = (*openStack)(nil)
	_ conformance.EndpointForwarder = (*openStack)(nil)
)

func newOpenStack(t testing.TB) conformance.Cloud {
	t.Helper()
	o := &openStack{file: filepath.Join(t.TempDir(), "cloud.conf")}
	// The observer is called after a request has taken effect, and before its answer.
	o.cloud = openstacktest.NewCloud(openstacktest.WithObserver(func(c openstacktest.Call) {
		mutating := c.Method != http.MethodGet && c.Operation != "token_create"
		// The request has its effect already, so that only its answer can be held.
		_ = o.Pass(context.Background(), c.Operation, mutating, func() error { return nil })
	}))
	t.Cleanup(o.cloud.Close)
	o.network = o.cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	o.subnet = o.cloud.AddSubnet(openstacktest.Subnet{NetworkID: o.network, CIDR: "10.0.0.0/16"})
	public := o.cloud.AddNetwork(openstacktest.Network{Name: "public", External: true})
	o.cloud.AddSubnet(openstacktest.Subnet{NetworkID: public, CIDR: "192.0.2.0/24"})
	router := o.cloud.AddRouter(openstacktest.Router{
		Name: "router", ExternalNetworkID: public, Subnets: []string{o.subnet},
	})
	conf := o.cloud.CloudConf("password") + `
[LoadBalancer]
floating-network-id = ` + public + `
pod-ranges = 10.244.0.0/16
[Route]
router-id = ` + router + `
[Client]
request-rate = 1000
request-burst = 1000
[Instances]
status-max-age = 0s
metadata-max-age = 0s
absence-confirmation = 1s
`
	if err := os.WriteFile(o.file, []byte(conf), 0o600); err != nil {
		t.Fatal(err)
	}
	return o
}

func (o *openStack) ConfigFile() string { return o.file }

func (o *openStack) AddInstance(node string) {
	id := o.cloud.AddServer(openstacktest.Server{Name: node})
	o.cloud.AddPort(openstacktest.Port{
		NetworkID: o.network, DeviceID: id, DeviceOwner: openstacktest.OwnerCompute,
	})
}

func (o *openStack) RemoveInstance(node string) {
	for _, server := range o.cloud.Servers() {
		if server.Name == node {
			if err := o.cloud.DeleteServer(server.ID); err != nil {
				panic(err)
			}
		}
	}
}

func (o *openStack) Fail() (end func()) {
	return o.cloud.Inject(openstacktest.Fault{Status: http.StatusInternalServerError})
}

func (o *openStack) AddLoadBalancer() (id string, annotations map[string]string) {
	id = o.cloud.AddLoadBalancer(openstacktest.LoadBalancer{
		OctaviaResource: openstacktest.OctaviaResource{Name: "mine"}, VIPSubnetID: o.subnet,
	})
	return id, map[string]string{"loadbalancer.openstack.org/load-balancer-id": id}
}

func (o *openStack) HasLoadBalancer(id string) bool {
	_, err := o.cloud.LoadBalancer(id)
	return err == nil
}

func (o *openStack) Endpoints() (first, second string, annotations map[string]string) {
	return "10.244.1.1", "10.244.1.2",
		map[string]string{"loadbalancer.openstack.org/member-target": "pod"}
}

func (o *openStack) ForwardsTo(address string) bool {
	for _, lb := range o.cloud.LoadBalancers() {
		for _, pool := range lb.Pools {
			for _, member := range pool.Members {
				if member.Address == address {
					return true
				}
			}
		}
	}
	return false
}
