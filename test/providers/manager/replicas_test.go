//go:build linux

package manager_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/program"
)

// replicas are processes of the CCM that compete for the lease, like those of the Deployment.
type replicas struct {
	args []string
	dir  string
	pace time.Duration

	running []*program.Process
	// killed counts the processes that were killed.
	killed atomic.Int64
}

// startReplicas runs n replicas until the test ends, with a cloud.conf. Then their logs are scanned
// for secrets.
func (c *cluster) startReplicas(cfg cloudconf.Config, n int) *replicas {
	c.t.Helper()
	r := &replicas{dir: c.t.TempDir(), pace: c.pace(), running: make([]*program.Process, n)}
	conf, kubeconfig := filepath.Join(r.dir, "cloud.conf"), filepath.Join(r.dir, "kubeconfig")
	text, err := cloudconf.RenderWithSecrets(cfg)
	if err == nil {
		err = os.WriteFile(conf, []byte(text), 0o600)
	}
	if err == nil {
		err = controlplane.WriteKubeconfig(kubeconfig, c.plane.Identity)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	r.args = []string{
		"--cloud-provider=openstack", "--cloud-config=" + conf, "--kubeconfig=" + kubeconfig,
		"--cluster-cidr=" + ccmtest.ClusterCIDR, "--secure-port=0",
		// Failing over takes as long as the lease, so that many leaders can be killed in a minute.
		"--leader-elect-lease-duration=4s", "--leader-elect-renew-deadline=3s",
		"--leader-elect-retry-period=500ms",
		"--node-monitor-period=" + r.pace.String(),
		"--route-reconciliation-period=" + r.pace.String(),
		"--logging-format=json", "--v=6",
	}
	c.t.Cleanup(func() {
		r.end(c.t, cfg)
		// A killed leader does not release its lease, and the next test would wait for it.
		leases := c.kube.CoordinationV1().Leases(metav1.NamespaceSystem)
		if err := leases.Delete(context.Background(), leaseName,
			metav1.DeleteOptions{}); err != nil {
			c.t.Error(err)
		}
	})
	for i := range r.running {
		if err := r.start(i); err != nil {
			c.t.Fatal(err)
		}
	}
	return r
}

// start starts the replica again, under a new identity: to the election it is another replica than
// the killed one.
func (r *replicas) start(i int) (err error) {
	identity := fmt.Sprintf("replica-%d-%d", i, r.killed.Load())
	r.running[i], err = program.Start(shared.Binary,
		filepath.Join(r.dir, fmt.Sprintf("replica-%d.log", i)),
		append(r.args, "--leader-elect-identity="+identity)...)
	return err
}

// end kills all replicas, and scans their logs for secrets.
func (r *replicas) end(t *testing.T, cfg cloudconf.Config) {
	for _, p := range r.running {
		if p == nil {
			continue
		}
		if err := p.Kill(); err != nil {
			t.Error(err)
		}
	}
	all := program.Logs(t, r.dir)
	for name, text := range all {
		if text == "" {
			t.Errorf("%s is empty", name)
		}
		// What Keystone's tokens begin with, of the simulator as well: they are Fernet's, of
		// version 0x80.
		for what, secret := range map[string]string{
			"the password": string(cfg.Global.Password),
			"a token":      "gAAAAA",
		} {
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s tells %s: …%s…", name, what, text[max(0, at-200):at])
			}
		}
		if t.Failed() {
			t.Logf("the end of %s:\n%s", name, program.Tail(text, 12))
		}
	}
}

// mayhem kills random replicas, one or all, and starts them again, until stop is called. Then all
// run.
func (r *replicas) mayhem(t *testing.T, random *rand.Rand) (stop func()) {
	over, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- r.killUntil(over, random) }()
	stop = sync.OnceFunc(func() {
		close(over)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (r *replicas) killUntil(over <-chan struct{}, random *rand.Rand) error {
	pause := func(least, most time.Duration) (goOn bool) {
		select {
		case <-time.After(least + time.Duration(random.Int64N(int64(most-least)))):
			return true
		case <-over:
			return false
		}
	}
	// Most pauses are longer than the lease, so that some leader works.
	least := max(r.pace, time.Second)
	for pause(least, 6*least) {
		victims := random.Perm(len(r.running))[:1+random.IntN(len(r.running))]
		if err := r.restart(victims, func() { pause(0, 2*time.Second) }); err != nil {
			return err
		}
	}
	return nil
}

// restart kills replicas, waits, and starts them again.
func (r *replicas) restart(victims []int, wait func()) error {
	for _, i := range victims {
		if err := r.running[i].Kill(); err != nil {
			return err
		}
		r.killed.Add(1)
	}
	wait()
	for _, i := range victims {
		if err := r.start(i); err != nil {
			return err
		}
	}
	return nil
}
