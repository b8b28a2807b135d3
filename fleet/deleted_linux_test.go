package fleet_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack"
)

// The informers of the child would wait for the API server, which is gone.
func TestDeletedCluster_ProviderRunsInAProcess_ItsLoadBalancersAreDeleted(t *testing.T) {
	t.Parallel()
	w := newDeletedWorld(t)
	w.add("gone", "uid-of-gone", "on")
	config := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(config, []byte(w.cloud.CloudConf("password")),
		0o600); err != nil {
		t.Fatal(err)
	}
	r := w.startCleaner("only", "on", func(p *fleet.Params) {
		inProcess := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			params, err := inProcess(c)
			params.Config.CloudProvider.ConfigFile = config
			params.Providers = []ccm.Provider{
				process.Provider(process.Options{Name: openstack.Name}),
			}
			return params, err
		}
	})
	w.waitRecorded("gone")
	w.deleteCluster("gone")
	w.turnOff("gone")
	waittest.Until(t, "no load balancer is left", func() error {
		if left := w.loadBalancers(); len(left) > 0 {
			return fmt.Errorf("left are %q: %+v", left, statusOf(r, w.namespace+".gone"))
		}
		return nil
	})
}
