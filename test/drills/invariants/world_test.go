//go:build linux

package invariants_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

const (
	account     = "cloud-controller-manager"
	clusterName = "kubernetes"
	clusterCIDR = "10.200.0.0/16"
)

// A lane lets so many worlds exist at once: one for each token in it. A control plane takes 320 MiB
// and, at work, a core.
type lane chan struct{}

func newLane(tokens int) lane {
	l := make(lane, 4)
	for range tokens {
		l <- struct{}{}
	}
	return l
}

var (
	// longLane is for the two tests that take longest: they do not wait for others.
	longLane = newLane(2)
	// shortLane is for all others. It gets the tokens of the long lane when they have been used.
	shortLane = newLane(2)
)

// A world is what the replicas of one test work in: a control plane, and a cloud that the test
// serves.
type world struct {
	cp    *controlplane.ControlPlane
	admin kubernetes.Interface
	// identity is the ServiceAccount that the example is shipped with, under exactly the rules it
	// is shipped with.
	identity *rest.Config
	cloud    *fake.Cloud
	// dir holds the logs of the processes.
	dir string
	// files are the command line's: who reaches the API server how, and where the cloud is.
	kubeconfig, cloudConfig string

	mu       sync.Mutex
	replicas []*replica.Replica
	nodes    []string
	services []string
}

// newWorld also makes the test parallel to the others, and waits for its turn.
func newWorld(t *testing.T, turn lane) *world {
	t.Helper()
	t.Parallel()
	select {
	case <-turn:
	case <-shortLane:
	}
	t.Cleanup(func() { shortLane <- struct{}{} })

	w := &world{cp: controlplane.ForTest(t), dir: replica.LogDir(t)}
	w.admin = kubernetes.NewForConfigOrDie(w.cp.RESTConfig())
	ccmtest.ApplyRBAC(t, w.admin, filepath.Join("..", "..", "..", "deploy", "base", "rbac.yaml"))
	var err error
	if w.identity, err = w.cp.ServiceAccountConfig(metav1.NamespaceSystem, account); err != nil {
		t.Fatal(err)
	}
	w.kubeconfig = w.writeKubeconfig(t, "ccm", w.identity)
	w.startCloud(t)
	return w
}

func (w *world) writeKubeconfig(t *testing.T, name string, cfg *rest.Config) string {
	t.Helper()
	path := filepath.Join(w.dir, name+".kubeconfig")
	if err := controlplane.WriteKubeconfig(path, cfg); err != nil {
		t.Fatal(err)
	}
	return path
}

func (w *world) startCloud(t *testing.T) {
	t.Helper()
	// The limit keeps the whole record of a test.
	w.cloud = fake.New(fake.WithCallLimit(1_000_000))
	server := httptest.NewUnstartedServer(w.cloud.Handler())
	// Connections that a replica leaves behind are counted, so those in reserve must end.
	server.Config.IdleTimeout = resting - time.Second
	server.Start()
	t.Cleanup(func() {
		w.cloud.ClearFaults()
		server.CloseClientConnections()
		server.Close()
	})
	w.cloudConfig = filepath.Join(w.dir, "cloud.yaml")
	if err := os.WriteFile(w.cloudConfig, []byte("endpoint: "+server.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (w *world) lease(ctx context.Context) (*coordinationv1.Lease, error) {
	return w.admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, account,
		metav1.GetOptions{})
}

// awaitLeader waits until a replica leads and its controllers run, other than those that are named.
func (w *world) awaitLeader(t *testing.T, except ...*replica.Replica) *replica.Replica {
	t.Helper()
	var leader *replica.Replica
	replica.Eventually(t, "a replica leads and is ready", func() error {
		lease, err := w.lease(t.Context())
		if err != nil {
			return err
		}
		holder := ptr.Deref(lease.Spec.HolderIdentity, "")
		for _, r := range w.all() {
			if r.Name != holder || r.HasExited() || slices.Contains(except, r) {
				continue
			}
			leader = r
			return r.Leads()
		}
		return fmt.Errorf("the lease names %q", holder)
	})
	return leader
}

func (w *world) all() []*replica.Replica {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.replicas)
}

// foreignLeader writes another holder into the lease, and renews it until stop is called, or the
// test is over. It then leaves the lease to expire.
func (w *world) foreignLeader(t *testing.T, name string) (stop func()) {
	t.Helper()
	write := func(ctx context.Context) error {
		lease, err := w.lease(ctx)
		if err != nil {
			return err
		}
		if ptr.Deref(lease.Spec.HolderIdentity, "") != name {
			lease.Spec.HolderIdentity, lease.Spec.AcquireTime = ptr.To(name),
				ptr.To(metav1.NowMicro())
		}
		lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
		_, err = w.admin.CoordinationV1().Leases(lease.Namespace).Update(ctx, lease,
			metav1.UpdateOptions{})
		return err
	}
	replica.Eventually(t, "the lease names "+name, func() error { return write(t.Context()) })
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() {
		var err error
		for ctx.Err() == nil && err == nil {
			select {
			case <-time.After(500 * time.Millisecond):
				err = write(ctx)
			case <-ctx.Done():
			}
		}
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		done <- err
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("%s could not renew the lease: %v", name, err)
		}
	})
	t.Cleanup(stop)
	return stop
}
