//go:build linux

package invariants_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/replica"
)

var (
	// steadyLease is long enough for a machine that is busy with hundreds of objects to renew it in
	// time.
	steadyLease = replica.LeaseTimes{
		Duration: 8 * time.Second, Renew: 6 * time.Second,
		Retry: 500 * time.Millisecond,
	}
	// patientLease leaves time between the end of a term by the clock and the expiry of its lease.
	patientLease = replica.LeaseTimes{
		Duration: 9 * time.Second, Renew: 6 * time.Second,
		Retry: 1100 * time.Millisecond,
	}
	// exactLease is renewed less than once a second: those who wait for a lease compare its
	// renewals to the second (client-go's LeaderElectionRecord), so of two in one second they count
	// the first.
	exactLease = replica.LeaseTimes{
		Duration: 5 * time.Second, Renew: 3 * time.Second,
		Retry: 1100 * time.Millisecond,
	}
	// usualLease is the default.
	usualLease = replica.LeaseTimes{
		Duration: 15 * time.Second, Renew: 10 * time.Second,
		Retry: 2 * time.Second,
	}
)

// launch says how a replica is started.
type launch struct {
	name    string
	program string // default: the example
	// kubeconfig is by default that of a direct way to the API server.
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
	if l.program == "" {
		l.program = programs.ccm
		// Times of the log in microseconds, and one line an entry.
		args = append(args, "--logging-format=json")
	}
	r := &replica.Replica{}
	if l.serve {
		r.Port = replica.FreePort(t)
	}
	args = append(args, "--secure-port="+strconv.Itoa(r.Port))
	r.Process = replica.StartProcess(t, w.dir, l.name, l.program, append(args, l.args...)...)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas = append(w.replicas, r)
	return r
}
