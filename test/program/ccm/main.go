// Command ccm is a cloud controller manager of Kubernetes 1.33, built only with upstream's
// framework. Its cloud is an HTTP server at $STUB_CLOUD.
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
)

func main() {
	settings, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	command := app.NewCloudControllerManagerCommand(settings,
		func(*config.CompletedConfig) cloudprovider.Interface {
			return cloud{address: os.Getenv("STUB_CLOUD")}
		},
		app.DefaultInitFuncConstructors, names.CCMControllerAliases(), cliflag.NamedFlagSets{},
		wait.NeverStop)
	os.Exit(cli.Run(command))
}

// cloud is a provider of instances and load balancers.
type cloud struct{ address string }

func (c cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}
func (c cloud) ProviderName() string                                              { return "stub" }
func (c cloud) HasClusterID() bool                                                { return true }
func (c cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool)                  { return c, true }
func (c cloud) InstancesV2() (cloudprovider.InstancesV2, bool)                    { return c, true }
func (c cloud) Instances() (none cloudprovider.Instances, ok bool)                { return }
func (c cloud) Zones() (none cloudprovider.Zones, ok bool)                        { return }
func (c cloud) Clusters() (none cloudprovider.Clusters, ok bool)                  { return }
func (c cloud) Routes() (none cloudprovider.Routes, ok bool)                      { return }

// send ignores the context of a call, like many providers.
func (c cloud) send(method, path string, answer any) error {
	request, err := http.NewRequest(method, c.address+path, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	if answer == nil {
		_, err = io.Copy(io.Discard, response.Body)
		return err
	}
	return json.NewDecoder(response.Body).Decode(answer)
}

func (c cloud) InstanceExists(context.Context, *v1.Node) (bool, error)   { return true, nil }
func (c cloud) InstanceShutdown(context.Context, *v1.Node) (bool, error) { return false, nil }

func (c cloud) InstanceMetadata(
	_ context.Context, node *v1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	var answer cloudprovider.InstanceMetadata
	err := c.send(http.MethodGet, "/instances/"+node.Name, &answer)
	return &answer, err
}

func (c cloud) GetLoadBalancer(
	context.Context, string, *v1.Service,
) (*v1.LoadBalancerStatus, bool, error) {
	return nil, false, nil
}

func (c cloud) GetLoadBalancerName(_ context.Context, _ string, service *v1.Service) string {
	return service.Name
}

func (c cloud) EnsureLoadBalancer(
	_ context.Context, _ string, service *v1.Service, _ []*v1.Node,
) (*v1.LoadBalancerStatus, error) {
	var answer v1.LoadBalancerStatus
	err := c.send(http.MethodPost, "/loadbalancers/"+service.Name, &answer)
	return &answer, err
}

func (c cloud) UpdateLoadBalancer(context.Context, string, *v1.Service, []*v1.Node) error {
	return nil
}

func (c cloud) EnsureLoadBalancerDeleted(_ context.Context, _ string, service *v1.Service) error {
	return c.send(http.MethodDelete, "/loadbalancers/"+service.Name, nil)
}
