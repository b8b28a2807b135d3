package ccm_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
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
		if err := stop(); err != nil {
			t.Fatal(err)
		}
	})
}
