// Program upstream is the baseline of the benchmark: upstream's own command of a cloud controller
// manager, wired as its sample does it (k8s.io/cloud-provider/sample), on the fake cloud.
// --cloud-config names a file that holds the cloud's address.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/app"
	"k8s.io/cloud-provider/app/config"
	"k8s.io/cloud-provider/names"
	"k8s.io/cloud-provider/options"
	"k8s.io/component-base/cli"
	cliflag "k8s.io/component-base/cli/flag"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/provider/fake"
)

// dialTimeout bounds the first request to the cloud.
const dialTimeout = 10 * time.Second

func main() {
	cloudprovider.RegisterCloudProvider("fake", newCloud)
	opts, err := options.NewCloudControllerManagerOptions()
	if err != nil {
		klog.Fatalf("Options cannot be made: %v", err)
	}
	command := app.NewCloudControllerManagerCommand(opts, openCloud,
		app.DefaultInitFuncConstructors,
		names.CCMControllerAliases(), cliflag.NamedFlagSets{}, wait.NeverStop)
	os.Exit(cli.Run(command))
}

// newCloud implements cloudprovider.Factory.
func newCloud(file io.Reader) (cloudprovider.Interface, error) {
	if file == nil {
		return nil,
			errors.New(
				"--cloud-config is missing: it names a file that holds the fake cloud's address")
	}
	address, err := io.ReadAll(file)
	if err != nil {
		return nil, fmt.Errorf("read the fake cloud's address: %w", err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	client, err := fake.Dial(ctx, strings.TrimSpace(string(address)))
	if err != nil {
		return nil, err
	}
	return client.Provider(fake.WithCaller("upstream")), nil
}

// openCloud ends the process when there is no cloud, as every program does that is made from the
// sample: the signature has no error.
func openCloud(completed *config.CompletedConfig) cloudprovider.Interface {
	shared := completed.ComponentConfig.KubeCloudShared.CloudProvider
	cloud, err := cloudprovider.InitCloudProvider(shared.Name, shared.CloudConfigFile)
	if err != nil {
		klog.Fatalf("Cloud provider %q cannot be opened: %v", shared.Name, err)
	}
	if cloud == nil {
		klog.Fatal("--cloud-provider is missing")
	}
	if !cloud.HasClusterID() {
		klog.Fatalf("Cloud provider %q has no cluster ID", shared.Name)
	}
	return cloud
}
