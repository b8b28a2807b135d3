package ccm_test

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes/fake"
	corelisters "k8s.io/client-go/listers/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/status"
)

type closingCloud struct {
	cloudprovider.Interface
	closed *atomic.Int32
}

func (c closingCloud) Close() error {
	c.closed.Add(1)
	return nil
}

// A term closes the cloud that was built for it. The host closes a cloud that it has built.
func TestProvider_TermEnds_CloudIsClosedUnlessStatic(t *testing.T) {
	for name, c := range map[string]struct {
		static bool
		want   int32
	}{"built per term": {false, 1}, "static": {true, 0}} {
		t.Run(name, func(t *testing.T) {
			var closed atomic.Int32
			cloud := closingCloud{Interface: emptyCloud(), closed: &closed}
			p := standaloneParams("mine")
			p.Controllers = []ccm.Controller{idle("mine")}
			p.Providers = []ccm.Provider{provider(func() (cloudprovider.Interface,
				error,
			) {
				return cloud, nil
			})}
			if c.static {
				p.Providers = []ccm.Provider{ccm.StaticProvider(cloud)}
			}
			m, stop := start(t, p)
			waitReady(t, m)
			if err := stop(); err != nil {
				t.Fatal(err)
			}
			if got := closed.Load(); got != c.want {
				t.Errorf("the cloud was closed %d times, want %d", got, c.want)
			}
		})
	}
}

func TestProvider_New_ReceivesItsEnvironment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		got := make(chan ccm.ProviderEnv, 1)
		p := standaloneParams("mine")
		p.Config.CloudProvider.ConfigFile = "/etc/cloud.conf"
		p.Config.CloudProvider.ConfigStrict = true
		p.Config.CloudProvider.UserAgents = []string{"acme/1"}
		p.Config.ClusterName = "c1"
		p.Config.ClusterCIDR = "10.1.0.0/16"
		p.Name = "east"
		p.Registerer = prometheus.NewRegistry()
		p.Config.LeaderElection.Identity = "replica-a"
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Providers = []ccm.Provider{{
			Name: "stub",
			New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
				got <- env
				return emptyCloud(), nil
			},
		}}
		_, stop := start(t, p)
		env := <-got
		if env.ClusterName != "c1" || env.ConfigFile != "/etc/cloud.conf" ||
			env.Identity != "replica-a" || env.Term != 1 || env.Transport == nil {
			t.Errorf("env: %+v", env)
		}
		if !env.ConfigStrict || len(env.UserAgents) != 1 || env.Manager != "east" ||
			env.Registerer != p.Registerer || env.Clock == nil || env.Recorder("stub") == nil {
			t.Errorf("env: %+v", env)
		}
		if !reflect.DeepEqual(env.Config, p.Config) {
			t.Errorf("env.Config: %+v, want %+v", env.Config, p.Config)
		}
		client, err := env.Clients.Config("acme")
		if err != nil || client.Host != p.RESTConfig.Host || client.WrapTransport == nil {
			t.Errorf("client of the provider: %+v, %v; want a client behind the fence", client, err)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}

// A provider's New can request a lister before the informers run.
func TestProvider_New_RequestsInformersThatControllersFindSynced(t *testing.T) {
	factory := informers.NewSharedInformerFactory(clientset.NewClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}), 0)
	host, stopHost := context.WithCancel(context.Background())
	defer factory.Shutdown()
	defer stopHost()
	p := standaloneParams("mine")
	p.Informers = ccm.SharedInformers{Factory: factory, Stop: host.Done()}
	var nodes corelisters.NodeLister
	p.Providers = []ccm.Provider{{
		Name: "stub",
		New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			nodes = env.Informers.Core().V1().Nodes().Lister()
			return emptyCloud(), nil
		},
	}}
	seen := make(chan error, 1)
	p.Controllers = []ccm.Controller{controller("mine", func(ctx context.Context) error {
		_, err := nodes.Get("node-1")
		seen <- err
		<-ctx.Done()
		return nil
	})}
	_, stop := start(t, p)
	if err := <-seen; err != nil {
		t.Errorf("lister of the provider while a controller runs: %v", err)
	}
	if err := stop(); err != nil {
		t.Fatal(err)
	}
}

func TestProvider_Fail_EndsTheTermAndTheNextIsBuilt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		envs := make(chan ccm.ProviderEnv, 2)
		p := standaloneParams("mine")
		p.Controllers = []ccm.Controller{idle("mine")}
		p.Providers = []ccm.Provider{{
			Name: "stub",
			New: func(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
				envs <- env
				return emptyCloud(), nil
			},
		}}
		m, stop := start(t, p)
		first := <-envs
		synctest.Wait()
		first.Fail(nil)
		synctest.Wait()
		if s := m.Status(); !s.Ready {
			t.Errorf("after Fail(nil): %+v, want a ready term", s)
		}
		first.Fail(errors.New("the account was closed"))
		time.Sleep(time.Second / 2) // the drain is over, the pause is not
		if s := m.Status(); s.State != status.Degraded ||
			s.Reason != `cloud provider "stub": the account was closed` {
			t.Errorf("after Fail: %+v", s)
		}
		<-envs
		first.Fail(errors.New("of an ended term"))
		synctest.Wait()
		if s := m.Status(); !s.Ready || s.Term != 2 {
			t.Errorf("after Fail of an ended term: %+v, want a ready second term", s)
		}
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
