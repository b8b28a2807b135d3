package ccm_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/cert"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/provider/fake"
)

func seconds(n int) metav1.Duration {
	return metav1.Duration{Duration: time.Duration(n) * time.Second}
}

type badInput struct {
	name  string
	spoil func(*ccm.Params)
	want  []string
}

func leaseNamed(name, namespace string, want ...string) badInput {
	return badInput{fmt.Sprintf("lease %.20s in %s", name, namespace), func(p *ccm.Params) {
		p.Config.LeaderElection.LeaderElect = true
		p.Config.LeaderElection.ResourceName = name
		p.Config.LeaderElection.ResourceNamespace = namespace
	}, want}
}

func TestNew_InvalidInput_ErrorNamesTheField(t *testing.T) {
	cases := []badInput{
		{"zero config", func(p *ccm.Params) { p.Config = ccm.Config{} }, []string{"clusterName"}},
		{
			"an error of each kind", func(p *ccm.Params) {
				p.Config.Controllers = []string{"one", "-two"}
				p.Config.Node.ConcurrentSyncs = 0
				bad := errors.New("bad cloud")
				p.Providers[0].Validate = func(ccm.Config) error { return bad }
				p.Controllers = []ccm.Controller{{Name: "three"}}
			},
			[]string{
				`controllers[0]: Unsupported value: "one"`,
				`controllers[1]: Unsupported value: "-two"`,
				"node.concurrentSyncs", "bad cloud", "Params.Controllers[three]",
			},
		},
		{
			"settings of a selected controller", func(p *ccm.Params) {
				mine := idle("mine")
				mine.Validate = func(cfg ccm.Config) error { return errors.New(cfg.ClusterName) }
				p.Controllers, p.Config.ClusterName = []ccm.Controller{mine}, "its cluster"
				p.Config.Controllers = []string{"mine"}
			},
			[]string{"Params.Controllers[mine]: Invalid value", "its cluster"},
		},
		{"unknown controller", func(p *ccm.Params) {
			p.Config.Controllers = []string{
				"*",
				"-sevice",
			}
		}, []string{"controllers[1]", `"-sevice"`, "service-lb-controller"}},
		{
			"duplicate controller",
			func(p *ccm.Params) {
				p.Controllers = []ccm.Controller{
					idle("mine"),
					idle("mine"),
				}
			},
			[]string{"Params.Controllers[mine]", "several controllers have this name"},
		},
		{
			"controller with the name of a built-in one",
			func(p *ccm.Params) { p.Controllers = []ccm.Controller{idle("route")} },
			[]string{"Params.Controllers[route]", "node-route-controller"},
		},
		{
			"controller without a name",
			func(p *ccm.Params) { p.Controllers = []ccm.Controller{idle("")} },
			[]string{"Params.Controllers", "no Name"},
		},
		{
			"controller without a constructor",
			func(p *ccm.Params) { p.Controllers = []ccm.Controller{{Name: "mine"}} },
			[]string{"Params.Controllers[mine]", "no New"},
		},
		{
			"mark of no owner", func(p *ccm.Params) { p.RequireOwnerMark = true },
			[]string{"Params.Owner", "RequireOwnerMark"},
		},
		{
			"empty cluster name", func(p *ccm.Params) { p.Config.ClusterName = "" },
			[]string{"clusterName", "Required"},
		},
		{
			"bad selector", func(p *ccm.Params) { p.Config.NodeSelector = "a in" },
			[]string{"nodeSelector", `"a in"`},
		},
		{
			"negative node concurrency", func(p *ccm.Params) { p.Config.Node.ConcurrentSyncs = -1 },
			[]string{"node.concurrentSyncs", "-1"},
		},
		{
			"zero node concurrency", func(p *ccm.Params) { p.Config.Node.ConcurrentSyncs = 0 },
			[]string{"node.concurrentSyncs"},
		},
		{
			"negative status updates",
			func(p *ccm.Params) { p.Config.Node.ConcurrentStatusUpdates = -2 },
			[]string{"node.concurrentStatusUpdates"},
		},
		{
			"zero lifecycle concurrency",
			func(p *ccm.Params) { p.Config.NodeLifecycle.ConcurrentSyncs = 0 },
			[]string{"nodeLifecycle.concurrentSyncs"},
		},
		{
			"zero service concurrency",
			func(p *ccm.Params) { p.Config.Service.ConcurrentSyncs = 0 },
			[]string{"service.concurrentSyncs"},
		},
		{
			"no load balancer class",
			func(p *ccm.Params) { p.Config.Service.DefaultLoadBalancer = false },
			[]string{"service.loadBalancerClasses", "-service-lb-controller"},
		},
		{
			"load balancer class that is not a name",
			func(p *ccm.Params) { p.Config.Service.LoadBalancerClasses = []string{"a/b/c"} },
			[]string{"service.loadBalancerClasses[0]", "a/b/c"},
		},
		{
			"load balancer class that is both served and excluded",
			func(p *ccm.Params) { p.Config.Service.LoadBalancerClasses = []string{"*", "a", "-a"} },
			[]string{"service.loadBalancerClasses[2]", "Duplicate"},
		},
		{
			"excluded load balancer class without a star",
			func(p *ccm.Params) { p.Config.Service.LoadBalancerClasses = []string{"-a"} },
			[]string{"service.loadBalancerClasses[0]", "has no effect"},
		},
		{
			"zero monitor period",
			func(p *ccm.Params) { p.Config.NodeLifecycle.MonitorPeriod = seconds(0) },
			[]string{"nodeLifecycle.monitorPeriod"},
		},
		{
			"zero drain timeout", func(p *ccm.Params) { p.Config.DrainTimeout = seconds(0) },
			[]string{"drainTimeout"},
		},
		{"lease shorter than renewal", func(p *ccm.Params) {
			p.Config.LeaderElection.LeaderElect = true
			p.Config.LeaderElection.LeaseDuration = seconds(5)
		}, []string{"leaderElection.leaseDuration", "renewDeadline"}},
		{"renewal shorter than retry", func(p *ccm.Params) {
			p.Config.LeaderElection.LeaderElect = true
			p.Config.LeaderElection.RenewDeadline = seconds(2)
		}, []string{"leaderElection.renewDeadline", "retryPeriod"}},
		{"lease of half a second", func(p *ccm.Params) {
			p.Config.LeaderElection.LeaderElect = true
			p.Config.LeaderElection.LeaseDuration.Duration = 15500 * time.Millisecond
		}, []string{"leaderElection.leaseDuration", "whole seconds"}},
		{"lease without a name", func(p *ccm.Params) {
			p.Config.LeaderElection.LeaderElect = true
			p.Config.LeaderElection.ResourceName = ""
		}, []string{"leaderElection.resourceName"}},
		leaseNamed("Bad_Name", "kube-system", "leaderElection.resourceName", "lowercase"),
		leaseNamed("x/../y", "kube-system", "leaderElection.resourceName", "x/../y"),
		leaseNamed(strings.Repeat("a", 254), "kube-system", "leaderElection.resourceName", "253"),
		leaseNamed("x", "Kube System", "leaderElection.resourceNamespace", "lowercase"),
		leaseNamed("x", "kube.system", "leaderElection.resourceNamespace", "kube.system"),
		leaseNamed("x", "..", "leaderElection.resourceNamespace", ".."),
		{"lease that outlasts an int32", func(p *ccm.Params) {
			p.Config.LeaderElection.LeaderElect = true
			p.Config.LeaderElection.LeaseDuration = seconds(1 << 31)
		}, []string{"leaderElection.leaseDuration", "2147483647"}},
		{
			"bad CIDR", func(p *ccm.Params) { p.Config.ClusterCIDR = "10.244.0.0" },
			[]string{"clusterCIDR", `"10.244.0.0" is not a CIDR`},
		},
		{
			"two CIDRs of one family",
			func(p *ccm.Params) { p.Config.ClusterCIDR = "10.1.0.0/16,10.2.0.0/16" },
			[]string{"clusterCIDR", "one IP family"},
		},
		{
			"three CIDRs",
			func(p *ccm.Params) { p.Config.ClusterCIDR = "10.1.0.0/16,fd00::/56,10.2.0.0/16" },
			[]string{"clusterCIDR", "3 CIDRs"},
		},
		{
			"no provider", func(p *ccm.Params) { p.Providers = nil },
			[]string{"cloudProvider.name", "no cloud provider"},
		},
		{"two providers", func(p *ccm.Params) {
			p.Providers = append(p.Providers,
				provider(func() (cloudprovider.Interface, error) { return emptyCloud(), nil }))
		}, []string{"several cloud providers", "empty, stub", "--cloud-provider"}},
		{
			"two providers of one name",
			func(p *ccm.Params) {
				p.Providers = append(p.Providers,
					p.Providers[0])
			},
			[]string{"providers", `"empty"`, "several cloud providers have this name"},
		},
		{
			"unknown provider", func(p *ccm.Params) { p.Config.CloudProvider.Name = "clowd" },
			[]string{"cloudProvider.name", `"clowd"`, `"empty"`},
		},
		{
			"user agent with a line break",
			func(p *ccm.Params) {
				p.Config.CloudProvider.UserAgents = []string{
					"a",
					"b\nc: d",
				}
			},
			[]string{"cloudProvider.userAgents[1]", "header"},
		},
		{
			"empty user agent",
			func(p *ccm.Params) { p.Config.CloudProvider.UserAgents = []string{" "} },
			[]string{"cloudProvider.userAgents[0]"},
		},
		{"provider's file", func(p *ccm.Params) {
			p.Config.CloudProvider.ConfigFile = "/etc/cloud.conf"
			p.Providers[0].Validate = func(c ccm.Config) error {
				return fmt.Errorf("line 3 of %s",
					c.CloudProvider.ConfigFile)
			}
		}, []string{"cloudProvider.configFile", `"empty"`, "line 3 of /etc/cloud.conf"}},
		{
			"nil static provider",
			func(p *ccm.Params) { p.Providers = []ccm.Provider{ccm.StaticProvider(nil)} },
			[]string{"lacks Name or New"},
		},
		{"kubeconfig missing", func(p *ccm.Params) {
			p.RESTConfig = nil
			p.Config.ClientConnection.Kubeconfig = "/nowhere/kubeconfig"
		}, []string{"clientConnection.kubeconfig", "/nowhere/kubeconfig", "no such file"}},
		{
			"no API server", func(p *ccm.Params) { p.RESTConfig = nil },
			[]string{"clientConnection.kubeconfig", "--kubeconfig"},
		},
		{
			"infinite QPS",
			func(p *ccm.Params) { p.Config.ClientConnection.QPS = float32(math.Inf(1)) },
			[]string{"clientConnection.qps"},
		},
		{
			"QPS that is not a number",
			func(p *ccm.Params) { p.Config.ClientConnection.QPS = float32(math.NaN()) },
			[]string{"clientConnection.qps"},
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
			p := standaloneParams("*")
			c.spoil(&p)
			m, err := ccm.New(p)
			if err == nil {
				t.Fatalf("New accepted it: %+v", m.Status())
			}
			var config *ccm.ConfigError
			if !errors.As(err, &config) {
				t.Errorf("error is a %T, want a *ccm.ConfigError: %v", err, err)
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error does not name %q: %v", want, err)
				}
			}
		})
	}
}

func TestNew_KubeconfigIsMalformedOrSelectsNoCluster_ErrorNamesTheFileAndTheCause(t *testing.T) {
	const noContext = "the kubeconfig has no current context with a cluster"
	for content, want := range map[string]string{
		"clusters: {": "--kubeconfig: error loading config file", "": noContext,
		`clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]`: noContext,
	} {
		path := filepath.Join(t.TempDir(), "kubeconfig")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		p := standaloneParams("*")
		p.RESTConfig = nil
		p.Config.ClientConnection.Kubeconfig = path
		_, err := ccm.New(p)
		if err == nil || !strings.Contains(err.Error(), "clientConnection.kubeconfig") ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), want) {
			t.Errorf("want an error with the field, the file and %q, got: %v", want, err)
		}
	}
}

// If a term cannot open, the process and the Manager continue: the Manager is degraded and retries.
func TestRun_BrokenProviderOrController_DegradesAndRetries(t *testing.T) {
	errBuilt := errors.New("401 from the identity service")
	cases := []struct {
		name  string
		spoil func(*ccm.Params)
		want  string
	}{
		{"provider fails", func(p *ccm.Params) {
			p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface,
				error,
			) {
				return nil, errBuilt
			})}
		}, `cloud provider "stub": 401 from the identity service`},
		{"provider is nil", func(p *ccm.Params) {
			p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface,
				error,
			) {
				return nil, nil
			})}
		}, `cloud provider "stub": New returned neither a cloud nor an error`},
		{"provider panics", func(p *ccm.Params) {
			p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface,
				error,
			) {
				panic("index out of range")
			})}
		}, "panic in build provider: index out of range"},
		{"provider has no cluster ID", func(p *ccm.Params) {
			p.Providers = []ccm.Provider{ccm.StaticProvider(emptyCloud(fake.WithoutClusterID()))}
		}, "--allow-untagged-cloud"},
		{"controller cannot be built", func(p *ccm.Params) {
			p.Controllers = []ccm.Controller{{
				Name: "mine",
				New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
					return nil, errors.New("no such device")
				},
			}}
		}, "controller mine: no such device"},
		{"controller is nil", func(p *ccm.Params) {
			p.Controllers = []ccm.Controller{{
				Name: "mine",
				New:  func(context.Context, *ccm.Term) (ccm.Runnable, error) { return nil, nil },
			}}
		}, "controller mine: New returned neither a Runnable nor an error"},
		{"controller panics when built", func(p *ccm.Params) {
			p.Controllers = []ccm.Controller{{
				Name: "mine",
				New:  func(context.Context, *ccm.Term) (ccm.Runnable, error) { panic("boom") },
			}}
		}, "controller mine: panic in New: boom"},
		{"controller returns at once", func(p *ccm.Params) {
			p.Controllers = []ccm.Controller{controller("mine",
				func(context.Context) error { return nil })}
		}, "controller mine: Run returned before the term ended"},
		{"controller fails", func(p *ccm.Params) {
			p.Controllers = []ccm.Controller{controller("mine",
				func(context.Context) error { return errors.New("lost my way") })}
		}, "controller mine: lost my way"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := standaloneParams("mine")
				p.Controllers = []ccm.Controller{idle("mine")}
				c.spoil(&p)
				m, stop := start(t, p)
				current := eventually(t, m.Status, func(s status.Manager) bool {
					return s.State == status.Degraded && strings.Contains(s.Reason, c.want)
				}, "degraded because of "+c.want)
				if current.RetryAt.IsZero() {
					t.Errorf("the status has no RetryAt: %+v", current)
				}
				eventually(t, m.Status, func(s status.Manager) bool { return s.Term >= 2 },
					"a second term")
				if err := stop(); err != nil {
					t.Errorf("Run returned %v after a stop and a complete drain, want nil",
						err)
				}
			})
		})
	}
}

// The Manager refuses to run again while the controller of the earlier run has not returned.
func TestRun_ControllerNeverReturns_ErrorNamesIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		p := standaloneParams("mine")
		p.Config.DrainTimeout = metav1.Duration{Duration: 300 * time.Millisecond}
		p.Controllers = []ccm.Controller{{
			Name: "mine",
			New: func(context.Context, *ccm.Term) (ccm.Runnable, error) {
				return ccm.RunnableFunc(func(context.Context) error {
					<-release
					return nil
				}), nil
			},
		}}
		m, stop := start(t, p)
		waitReady(t, m)
		err := stop()
		var timedOut *ccm.DrainTimeoutError
		if !errors.As(err, &timedOut) || len(timedOut.Running) != 1 ||
			timedOut.Running[0].Name != "controller mine" {
			t.Fatalf("Run returned %v, want a DrainTimeoutError that names the controller", err)
		}
		if again := m.Run(context.Background()); !errors.As(again, &timedOut) {
			t.Errorf(
				"second Run returned %v while the first term still runs, want a DrainTimeoutError",
				again)
		}
		close(release)
		eventually(t, m.Status, func(s status.Manager) bool { return len(s.Running) == 0 },
			"the controller's end")
	})
}

// A server with a certificate of another CA degrades the Manager.
func TestRun_WrongCA_StatusExplainsIt(t *testing.T) {
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	p := standaloneParams("mine")
	p.Config.LeaderElection.LeaderElect = true
	p.Controllers = []ccm.Controller{idle("mine")}
	p.RESTConfig.Host = server.URL
	p.RESTConfig.CAData = anotherCA(t)
	m, stop := start(t, p)
	eventually(t, m.Status, func(s status.Manager) bool {
		return s.State == status.Degraded &&
			strings.Contains(s.Reason, "not signed by the CA that the kubeconfig trusts")
	}, "degraded because of the CA")
	if err := stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// anotherCA returns a CA that has signed no certificate of the test.
func anotherCA(t *testing.T) []byte {
	t.Helper()
	certificate, _, err := cert.GenerateSelfSignedCertKey("elsewhere", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}

// As upstream, the first entry for a name counts.
func TestNew_ControllerListedTwice_FirstEntryCounts(t *testing.T) {
	p := standaloneParams("-service", "*", "service-lb-controller", "-mine")
	p.Controllers = []ccm.Controller{idle("mine")}
	m, err := ccm.New(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range m.Status().Controllers {
		want := status.ControllerWaiting
		if c.Name == "service-lb-controller" || c.Name == "mine" {
			want = status.ControllerDisabled
		}
		if c.State != want {
			t.Errorf("%s is %s, want %s", c.Name, c.State, want)
		}
	}
}
