package openstack_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/metrics/metricstest"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/quota"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// write writes a cloud.conf.
func write(t *testing.T, content string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func params(path string, opts ...openstack.Option) ccm.Params {
	cfg := ccm.DefaultConfig()
	cfg.CloudProvider.ConfigFile = path
	return ccm.Params{
		Config: cfg, Providers: []ccm.Provider{openstack.Provider(opts...)},
		RESTConfig: &rest.Config{Host: "http://127.0.0.1:1"},
	}
}

const complete = "[Global]\nauth-url = https://keystone.example/v3\napplication-credential-id = " +
	"a\napplication-credential-secret = s3cret\n"

func TestConfiguration_IsCheckedByNew(t *testing.T) {
	data := cloudconf.Default()
	data.Global.AuthURL, data.Global.ApplicationCredentialID,
		data.Global.ApplicationCredentialSecret = "https://keystone.example/v3", "a", "s3cret"
	incomplete := data
	incomplete.Global.AuthURL = ""
	missing := filepath.Join(t.TempDir(), "none")
	lax := params(write(t, complete+"usrname = x\n"))
	lax.Config.CloudProvider.ConfigStrict = false
	for _, c := range []struct {
		name   string
		params ccm.Params
		want   []string
	}{
		{"a file", params(write(t, complete)), nil},
		{"data", params("", openstack.WithConfig(data)), nil},
		{"nothing", params(""), []string{"--cloud-config"}},
		{"no such file", params(missing), []string{missing, "no such file"}},
		{"both", params(write(t, complete), openstack.WithConfig(data)), []string{"only one"}},
		{
			"a key that is misspelt", params(write(t, complete+"usrname = x\n")),
			[]string{"cloudProvider.configFile", "line 5", "usrname", "username"},
		},
		{"the same, not strict", lax, nil},
		{
			"data that lacks something", params("", openstack.WithConfig(incomplete)),
			[]string{"auth-url"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ccm.New(c.params)
			if (err == nil) != (c.want == nil) {
				t.Fatalf("error: %v", err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%q is not in: %v", want, err)
				}
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error holds the secret: %v", err)
			}
		})
	}
}

func TestModule_TakesTheConfigurationOfTheApp(t *testing.T) {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	loaded, err := cloudconf.Read([]byte(cloud.CloudConf("password")),
		cloudconf.Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, configuration := range map[string]fx.Option{
		"in the app": fx.Supply(&loaded.Config),
		"by value":   fx.Supply(loaded.Config),
		"an option":  fx.Supply(openstack.WithConfig(loaded.Config)),
		"configured": openstack.Configure(openstack.WithConfig(loaded.Config)),
	} {
		var given struct {
			fx.In
			Providers []ccm.Provider `group:"ccm.providers"`
		}
		app := fx.New(fx.NopLogger, openstack.Module, configuration, fx.Populate(&given))
		if err := app.Err(); err != nil {
			t.Fatal(name, err)
		}
		if len(given.Providers) != 1 || given.Providers[0].Name != openstack.Name {
			t.Fatalf("%s: providers: %+v", name, given.Providers)
		}
		if err := given.Providers[0].Validate(ccm.DefaultConfig()); err != nil {
			t.Errorf("%s: the configuration is not used: %v", name, err)
		}
	}
}

func TestModule_TwoConfigurations_AreAnError(t *testing.T) {
	var cfg cloudconf.Config
	cfg.Global.AuthURL = "https://keystone.example/v3"
	err := fx.New(fx.NopLogger, ccm.Module, openstack.Module,
		fx.Supply(ccm.DefaultConfig(), cfg, &cfg)).Err()
	if err == nil || !strings.Contains(err.Error(), "keep one of them") {
		t.Errorf("got %v", err)
	}
}

// Without the error the provider would read a file.
func TestModule_AConfigurationThatFxDrops_IsAnError(t *testing.T) {
	err := fx.New(fx.NopLogger, ccm.Module, openstack.Module, fx.Supply(ccm.DefaultConfig()),
		fx.Provide(func(*testing.B) *cloudconf.Config { return nil })).Err()
	if err == nil || !strings.Contains(err.Error(),
		"provider/openstack: the app provides *cloudconf.Config, but its constructor cannot") {
		t.Errorf("got %v", err)
	}
}

func TestModule_TwoConfigurations_IsAnError(t *testing.T) {
	cfg := cloudconf.Default()
	err := fx.New(fx.NopLogger, ccm.Module, openstack.Module,
		fx.Supply(ccm.DefaultConfig(), cfg, &cfg)).Err()
	if err == nil || !strings.Contains(err.Error(),
		"the app has a cloudconf.Config and a *cloudconf.Config: keep one of them") {
		t.Errorf("got %v", err)
	}
}

// open opens the provider as a term does, with all fields that a host may omit.
func open(t *testing.T, path string, env ccm.ProviderEnv) cloudprovider.Interface {
	t.Helper()
	env.ConfigFile, env.ConfigStrict = path, true
	cloud, err := openstack.Provider().New(t.Context(), env)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.(io.Closer).Close(); err != nil {
			t.Error(err)
		}
	})
	return cloud
}

func TestOpen_SendsNoRequest(t *testing.T) {
	sim := openstacktest.NewCloud()
	defer sim.Close()
	cloud := open(t, write(t,
		sim.CloudConf("password")+"[Route]\nrouter-id = "+
			"7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f\n"), ccm.ProviderEnv{})
	for name, served := range map[string]bool{
		"InstancesV2": second(cloud.InstancesV2()), "Routes": second(cloud.Routes()),
	} {
		if !served {
			t.Errorf("%s is not served", name)
		}
	}
	if !cloud.HasClusterID() || cloud.ProviderName() != "openstack" {
		t.Error("the provider has no cluster ID, or another name")
	}
	if calls := sim.Calls(); len(calls) > 0 {
		t.Errorf("requests were sent: %v", calls)
	}
}

func TestRoutes_WithoutARouterAreNotServed(t *testing.T) {
	cloud := open(t, write(t, complete), ccm.ProviderEnv{})
	if routes, served := cloud.Routes(); served || routes != nil {
		t.Errorf("routes: %v, %t", routes, served)
	}
}

func second[T any](_ T, served bool) bool { return served }

func TestCloud_CountsItsRequestsForItsManager(t *testing.T) {
	sim := openstacktest.NewCloud()
	defer sim.Close()
	id := sim.AddServer(openstacktest.Server{Name: "node-1"})
	path := write(t, sim.CloudConf("password"))
	registry := prometheus.NewPedanticRegistry()
	east := open(t, path, ccm.ProviderEnv{
		Manager: "east", Registerer: registry,
		UserAgents: []string{"acme/1"},
	})
	west := open(t, path, ccm.ProviderEnv{Manager: "west", Registerer: registry})
	for _, cloud := range []cloudprovider.Interface{east, east, west} {
		instances, _ := cloud.InstancesV2()
		node := &corev1.Node{}
		node.Name, node.Spec.ProviderID = "node-1", "openstack:///"+id
		if exists, err := instances.InstanceExists(context.Background(), node); !exists ||
			err != nil {
			t.Fatalf("exists: %t, %v", exists, err)
		}
	}
	for _, manager := range []string{"east", "west"} {
		const requests = "fxccm_openstack_request_duration_seconds"
		labels := []string{"manager", manager, "operation"}
		one, _ := metricstest.Value(t, registry, requests, append(labels, "server_get")...)
		all, _ := metricstest.Value(t, registry, requests, append(labels, "server_list")...)
		if one+all < 1 {
			t.Errorf("%s has made no requests for servers", manager)
		}
	}
	for _, call := range sim.Calls() {
		if !strings.Contains(call.UserAgent, "fxccm") {
			t.Errorf("user agent %q", call.UserAgent)
		}
	}
	if agent := sim.Calls()[0].UserAgent; !strings.HasPrefix(agent, "acme/1 ") {
		t.Errorf("the first user agent is %q", agent)
	}
}

func TestCloud_QuotasOfItsProject_AreMeasured(t *testing.T) {
	sim := openstacktest.NewCloud(openstacktest.WithPageSize(1))
	defer sim.Close()
	network := sim.AddNetwork(openstacktest.Network{})
	subnet := sim.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	for range 2 {
		sim.AddLoadBalancer(openstacktest.LoadBalancer{VIPSubnetID: subnet})
	}
	// The links name the address that the service believes to be its own. The token must not be
	// sent there.
	sim.Inject(openstacktest.Fault{
		Operation: "loadbalancer_list",
		Rewrite: func(_ openstacktest.Call, status int, body []byte) (int, []byte) {
			return status, bytes.ReplaceAll(body, []byte(sim.URL()),
				[]byte("http://octavia.invalid"))
		},
	})
	sim.SetNetworkQuota("floatingip", 5)
	sim.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, 3)
	registry, passing := prometheus.NewPedanticRegistry(), clocktesting.NewFakeClock(time.Now())
	cloud := open(t, write(t, sim.CloudConf("password")), ccm.ProviderEnv{
		Manager: "m", Registerer: registry, Clock: passing, Logger: testr.New(t),
	})
	cloud.Initialize(nil, nil)
	cloud.Initialize(nil, nil)
	const head = "# HELP fxccm_openstack_quota_limit How many of a resource the project may have. " +
		"A resource without a limit, or whose limit the cloud does not report, has no series. " +
		"The limit is read every 30 minutes.\n# TYPE fxccm_openstack_quota_limit gauge\n"
	measured := func(floatingIPs int) string {
		return head + fmt.Sprintf(
			"fxccm_openstack_quota_limit{manager=\"m\",region=\"RegionOne\",resource=\"floatingip\"} %d\n"+
				"fxccm_openstack_quota_limit{manager=\"m\",region=\"RegionOne\",resource=\"loadbalancer\"} 3\n",
			floatingIPs)
	}
	for _, limit := range []int{5, 6} {
		sim.SetNetworkQuota("floatingip", limit)
		waittest.Until(t, "the quotas are measured", func() error {
			if passing.HasWaiters() {
				passing.Step(quota.Period)
			}
			return testutil.GatherAndCompare(registry,
				strings.NewReader(measured(limit)), "fxccm_openstack_quota_limit")
		})
	}
	const used = "fxccm_openstack_quota_used"
	waittest.Until(t, "both load balancers are counted", func() error {
		families, err := registry.Gather()
		if err != nil {
			return err
		}
		for _, family := range families {
			for _, m := range family.GetMetric() {
				if family.GetName() == used && m.GetGauge().GetValue() == 2 &&
					strings.Contains(m.String(), quota.LoadBalancers) {
					return nil
				}
			}
		}
		return fmt.Errorf("the metrics are %v", families)
	})
	for _, call := range sim.Calls() {
		isWhole := strings.Contains(call.Query, "project_id=") &&
			strings.Contains(call.Query, "limit=")
		if call.Operation == "loadbalancer_list" && !isWhole {
			t.Errorf("a page was requested without the project or the limit: %s", call.Query)
		}
	}
}
