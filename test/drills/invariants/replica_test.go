//go:build linux

package invariants_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/replica"
)

var (
	// steadyLease is long enough to be renewed in time by a machine that is busy with hundreds of
	// objects.
	steadyLease = replica.LeaseTimes{
		Duration: 8 * time.Second, Renew: 6 * time.Second,
		Retry: 500 * time.Millisecond,
	}
	// usualLease is the default.
	usualLease = replica.LeaseTimes{
		Duration: 15 * time.Second, Renew: 10 * time.Second,
		Retry: 2 * time.Second,
	}
)

// launch has the settings of a replica.
type launch struct {
	name string
	// kubeconfig defaults to a direct connection to the API server.
	kubeconfig string
	lease      replica.LeaseTimes
	serve      bool
	args       []string
}

func (w *world) start(t *testing.T, l launch) *replica.Replica {
	t.Helper()
	args := []string{
		"--kubeconfig=" + w.kubeconfig,
		"--cloud-provider=fake",
		"--cloud-config=" + w.cloudConfig,
		"--cluster-name=" + clusterName,
		"--cluster-cidr=" + clusterCIDR,
		"--leader-elect-identity=" + l.name,
		"--route-reconciliation-period=1s",
		"--node-monitor-period=1s",
		"--bind-address=127.0.0.1",
	}
	args = append(args, l.lease.Flags()...)
	if l.kubeconfig != "" {
		args[0] = "--kubeconfig=" + l.kubeconfig
	}
	// The JSON log has times in microseconds, and one line for each entry.
	args = append(args, "--logging-format=json")
	r := &replica.Replica{}
	if l.serve {
		r.Port = replica.FreePort(t)
	}
	args = append(args, "--secure-port="+strconv.Itoa(r.Port))
	r.Process = replica.StartProcess(t, w.dir, l.name, nil, program, append(args, l.args...)...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas = append(w.replicas, r)
	return r
}
