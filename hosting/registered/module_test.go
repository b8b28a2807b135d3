package registered_test

import (
	"io"
	"testing"

	"go.uber.org/fx"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/registered"
)

// newApp builds a host, and does not start it.
func newApp(cloudProvider string, options ...fx.Option) (*ccm.Manager, error) {
	cfg := ccm.DefaultConfig()
	cfg.CloudProvider.Name = cloudProvider
	cfg.ClusterCIDR = "10.244.0.0/16"
	var manager *ccm.Manager
	app := fx.New(ccm.Module, fx.NopLogger, fx.Options(options...),
		fx.Supply(cfg, &rest.Config{Host: "https://127.0.0.1:1"}), fx.Populate(&manager))
	return manager, app.Err()
}

func TestModule_GivesTheManagerTheProviderOfTheName(t *testing.T) {
	name := register(t, never(t))
	manager, err := newApp("", registered.Module(name))
	if err != nil {
		t.Fatal(err)
	}
	if got := manager.Status().Provider; got != name {
		t.Errorf("the Manager's provider is %q, want %q", got, name)
	}
}

func TestModule_OfSeveral_TheConfigurationChooses(t *testing.T) {
	factory := func(io.Reader) (cloudprovider.Interface, error) { return nil, nil }
	one, other := register(t, factory), register(t, factory)
	manager, err := newApp(other, registered.Module(one), registered.Module(other))
	if err != nil {
		t.Fatal(err)
	}
	if got := manager.Status().Provider; got != other {
		t.Errorf("the Manager's provider is %q, want %q", got, other)
	}
	_, err = newApp("", registered.Module(one), registered.Module(other))
	wants(t, err, "several cloud providers", one, other)
}

func TestModule_InvalidName_IsAnErrorOfFxNew(t *testing.T) {
	for name, want := range map[string]string{
		"":             "needs the name",
		"external":     "give the name of the cloud",
		"unregistered": `no cloud provider is registered under the name "unregistered"`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newApp("", registered.Module(name))
			wants(t, err, "hosting/registered", want)
		})
	}
}
