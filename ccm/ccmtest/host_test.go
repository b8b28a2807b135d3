package ccmtest_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/fx"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

// A host is a user's program: the options that its main function gives to fx.New.
type host struct {
	// realProvider is true if its provider, which would log in to a cloud, was built.
	realProvider bool
	// realConfig is true if its client configuration, which would read a file, was built.
	realConfig bool
}

func (h *host) options(more ...fx.Option) []fx.Option {
	return append([]fx.Option{
		ccm.Module,
		fx.Provide(func() ccm.Config {
			cfg := ccm.DefaultConfig()
			cfg.ClusterName = "the-host"
			cfg.CloudProvider = ccm.CloudProviderConfig{
				Name:       "real",
				ConfigFile: "/etc/real/cloud.conf",
			}
			cfg.Controllers = []string{"cloud-node", "greeter"}
			return cfg
		}),
		fx.Provide(ccm.AsProvider(func() (ccm.Provider, error) {
			h.realProvider = true
			return ccm.Provider{
				Name: "real",
				New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) {
					return nil, errors.New("there is no real cloud in a test")
				},
			}, nil
		})),
		fx.Provide(ccm.AsController(func() ccm.Controller {
			return ccm.Controller{
				Name: "greeter",
				New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
					return ccm.RunnableFunc(func(ctx context.Context) error {
						<-ctx.Done()
						return nil
					}), nil
				},
			}
		})),
	}, more...)
}

// restConfig is for a host that provides its own client configuration.
func (h *host) restConfig() fx.Option {
	return fx.Provide(func() *rest.Config {
		h.realConfig = true
		return &rest.Config{Host: "https://127.0.0.1:1"}
	})
}

func TestWithHost_OnlyTheCloudIsReplaced(t *testing.T) {
	cases := map[string]func(h *host) []fx.Option{
		"host without client configuration": func(h *host) []fx.Option { return h.options() },
		"host with client configuration": func(h *host) []fx.Option {
			return h.options(h.restConfig())
		},
		"host with elector and client configuration": func(h *host) []fx.Option {
			return h.options(h.restConfig(), fx.Supply(&election.Alone{}))
		},
		"host that decorates": func(h *host) []fx.Option {
			return h.options(fx.Decorate(func(p ccm.Params) ccm.Params {
				p.Elector, p.Name = election.NewHost(), "decorated"
				p.Providers = []ccm.Provider{{Name: "real"}}
				p.Config.CloudProvider.Name = "real"
				return p
			}), fx.Decorate(func(cfg ccm.Config) ccm.Config {
				cfg.NodeSelector = ""
				return cfg
			}))
		},
		"host with a plain provider": func(h *host) []fx.Option {
			return h.options(fx.Provide(func() ccm.Provider {
				h.realProvider = true
				return ccm.Provider{Name: "plain"}
			}))
		},
	}
	for name, options := range cases {
		t.Run(name, func(t *testing.T) {
			var h host
			app := ccmtest.StartApp(t, cluster, cloudWith(t, "node-a"),
				ccmtest.WithHost(options(&h)...))
			current := app.WaitReady()
			ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-a"))
			ccmtest.Eventually(t, "the node is initialized",
				ccmtest.Initialized(app.Client, "node-a"))
			app.Elector.Lose(nil)
			app.Elector.WaitReleased(t)
			app.VerifyNoLeaks()

			if h.realProvider || h.realConfig {
				t.Errorf("a replaced part was built: %+v", h)
			}
			if current.Provider != "fake" || app.Manager.Config().ClusterName != "the-host" {
				t.Errorf("provider %s, cluster name %s", current.Provider,
					app.Manager.Config().ClusterName)
			}
			if calls := app.Cloud.Calls(fake.CallFilter{Caller: app.Caller(1)}.Matches); len(
				calls) == 0 {
				t.Errorf("the cloud was not called as %s", app.Caller(1))
			}
			running := map[string]status.ControllerState{}
			for _, c := range current.Controllers {
				running[c.Name] = c.State
			}
			if running["greeter"] != status.ControllerRunning ||
				running["service-lb-controller"] != status.ControllerDisabled {
				t.Errorf("the controllers are %v, want those that the host has chosen", running)
			}
		})
	}
}

func TestWithHost_WithConfigAndFx_ChangeAndReadTheApp(t *testing.T) {
	var h host
	var manager *ccm.Manager
	app := ccmtest.StartApp(t, cluster, fake.New(), ccmtest.WithHost(h.options()...),
		ccmtest.WithFx(fx.Populate(&manager)),
		ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.Controllers = []string{"greeter"} }))
	app.WaitReady()
	cfg := manager.Config()
	if len(cfg.Controllers) != 1 || cfg.ClusterName != "the-host" ||
		cfg.LeaderElection.Identity != app.Identity {
		t.Errorf("the configuration is %+v", cfg)
	}
	app.VerifyNoLeaks()
}

func TestStart_InvalidProgram_ErrorNamesTheCause(t *testing.T) {
	cases := map[string]struct {
		start func(t testing.TB)
		want  string
	}{
		"no cloud": {
			func(t testing.TB) { ccmtest.StartApp(t, cluster, nil) }, "a CCM needs a cloud",
		},
		"host without the module": {
			func(t testing.TB) {
				ccmtest.StartApp(t, cluster, fake.New(),
					ccmtest.WithHost(fx.Supply(ccm.DefaultConfig())))
			}, "the options given to ccmtest.WithHost make no valid app",
		},
		"host for a manager": {
			func(t testing.TB) {
				ccmtest.StartManager(t, cluster, fake.New(), ccmtest.WithHost(ccm.Module))
			}, "WithHost and ccmtest.WithFx are for StartApp",
		},
		"bad configuration of a manager": {
			func(t testing.TB) {
				ccmtest.StartManager(t, cluster, fake.New(),
					ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.ClusterName = "" }))
			}, "clusterName",
		},
		"bad configuration of an app": {
			func(t testing.TB) {
				ccmtest.StartApp(t, cluster, fake.New(), ccmtest.WithConfig(func(cfg *ccm.Config) {
					cfg.ClusterName = ""
				}))
			}, "clusterName",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) { wantFailure(t, c.start, c.want) })
	}
}

// fx.ValidateApp accepts an app of the parts that a host combines.
func TestFakeModule_MakesAValidApp(t *testing.T) {
	parts := []fx.Option{ccm.Module, fake.Module(fake.New()), fx.NopLogger}
	if err := fx.ValidateApp(append(parts, fx.Supply(ccmtest.Config()))...); err != nil {
		t.Error(err)
	}
	err := fx.New(parts...).Err()
	if err == nil || !strings.Contains(err.Error(), "ccm: no Config in the app") {
		t.Errorf("without a configuration: %v, want an error that names the missing Config", err)
	}
}

func TestWithIdentity_TheCCMHasOnlyTheRightsOfItsRules(t *testing.T) {
	admin := clientOf(t, cluster.RESTConfig())
	for range 2 { // the second time, the rules exist
		ccmtest.ApplyRBAC(t, admin, "testdata/rbac.yaml")
	}
	identity, err := cluster.ServiceAccountConfig("kube-system", "ccmtest-nodes")
	if err != nil {
		t.Fatal(err)
	}
	only := func(controller string) ccmtest.Option {
		return ccmtest.WithConfig(func(cfg *ccm.Config) { cfg.Controllers = []string{controller} })
	}
	t.Run("allowed", func(t *testing.T) {
		app := ccmtest.StartApp(t, cluster, cloudWith(t, "node-a"), ccmtest.WithIdentity(identity),
			only("cloud-node"))
		ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-a"))
		ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(app.Client, "node-a"))
		ccmtest.Eventually(t, "the node has an address",
			ccmtest.NodeAddress(app.Client, "node-a", corev1.NodeInternalIP))
		if user := app.User(); user != "system:serviceaccount:kube-system:ccmtest-nodes" {
			t.Errorf("the CCM's user is %s", user)
		}
		app.VerifyNoLeaks()
	})
	t.Run("forbidden", func(t *testing.T) {
		app := ccmtest.StartApp(t, cluster, fake.New(), ccmtest.WithIdentity(identity),
			only("service"))
		current := ccmtest.Eventually(t, "the Manager is degraded",
			ccmtest.State(app.Manager, status.Degraded))
		if !strings.Contains(current.Reason, "RBAC") ||
			!strings.Contains(current.Reason, "services") {
			t.Errorf("the reason is %q, want it to name RBAC and services", current.Reason)
		}
		app.VerifyNoLeaks()
	})
}

func TestApplyRBAC_BadManifestsAreNamed(t *testing.T) {
	client := clientOf(t, cluster.RESTConfig())
	dir := t.TempDir()
	for name, c := range map[string]struct{ text, want string }{
		"not-rbac.yaml": {"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n", "is not one of ServiceAccount"},
		"garbage.yaml":  {"kind: [\n", "read RBAC manifests"},
		"unknown.yaml":  {"apiVersion: example.com/v1\nkind: Thing\n", "Thing"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		wantFailure(t, func(t testing.TB) { ccmtest.ApplyRBAC(t, client, path) }, c.want, name)
	}
	wantFailure(t, func(t testing.TB) {
		ccmtest.ApplyRBAC(t, client, filepath.Join(dir, "absent.yaml"))
	}, "absent.yaml")
}

// The test knows only an administrator's client configuration of the API server, as for envtest's.
func TestClusterAt_TheCCMIsTheAdministrator(t *testing.T) {
	app := ccmtest.StartApp(t, ccmtest.ClusterAt(cluster.RESTConfig()), cloudWith(t, "node-a"))
	ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("node-a"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(app.Client, "node-a"))
	writes, err := cluster.Audit().All(controlplane.ByUser(app.User()),
		controlplane.ByResource("", "nodes"), controlplane.ByName("node-a"),
		controlplane.Mutating())
	if err != nil {
		t.Fatal(err)
	}
	if len(writes) == 0 {
		t.Errorf("user %q has not written to the node", app.User())
	}
	app.VerifyNoLeaks()
}

func TestUser_WhenTheIdentityIsAToken_TheAPIServerIsAsked(t *testing.T) {
	client := clientOf(t, cluster.RESTConfig())
	accounts := client.CoreV1().ServiceAccounts("default")
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "with-token"}}
	if _, err := accounts.Create(t.Context(), account, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := accounts.Delete(context.Background(), account.Name,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	request, err := accounts.CreateToken(t.Context(), account.Name,
		&authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	identity := rest.AnonymousClientConfig(cluster.RESTConfig())
	identity.BearerToken = request.Status.Token
	c := ccmtest.StartManager(t, cluster, fake.New(), ccmtest.WithIdentity(identity),
		ccmtest.WithoutStart())
	if user := c.User(); user != controlplane.ServiceAccountUser("default", "with-token") {
		t.Errorf("the user is %q", user)
	}
}

func TestWithProvider_AHostsOwnProviderIsTestedOnARealAPIServer(t *testing.T) {
	cloud := cloudWith(t, "node-a")
	own := ccm.StaticProvider(cloud.Provider(fake.WithCaller("own")))
	c := ccmtest.StartManager(t, cluster, nil, ccmtest.WithProvider(own))
	ccmtest.CreateNode(t, c.Client, ccmtest.TaintedNode("node-a"))
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(c.Client, "node-a"))
	if calls := cloud.Calls(fake.CallFilter{Caller: "own"}.Matches); len(calls) == 0 {
		t.Error("the provider was not used")
	}
	c.VerifyNoLeaks()
}
