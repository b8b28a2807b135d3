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

// A lane limits the number of worlds: one for each token in it. A control plane takes 320 MiB and,
// under load, a core.
type lane chan struct{}

func newLane(tokens int) lane {
	l := make(lane, 4)
	for range tokens {
		l <- struct{}{}
	}
	return l
}

var (
	// longLane is for the two longest tests, which do not wait for others.
	longLane = newLane(2)
	// shortLane is for all other tests. It gets the tokens of the long lane when they are free.
	shortLane = newLane(2)
)

// A world is the environment of one test's replicas: a control plane, and a cloud that the test
// serves.
type world struct {
	cp    *controlplane.ControlPlane
	admin kubernetes.Interface
	// identity is the ServiceAccount of the example, with exactly the shipped rules.
	identity *rest.Config
	cloud    *fake.Cloud
	// dir holds the logs of the processes.
	dir string
	// kubeconfig and cloudConfig are the files of the command line.
	kubeconfig, cloudConfig string

	mu       sync.Mutex
	replicas []*replica.Replica
	nodes    []string
	services []string
}

// newWorld also marks the test as parallel, and waits for the lane.
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
	// The test counts leaked connections, so idle ones must end.
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

// awaitLeader waits until a replica other than those in except leads and its controllers run.
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

// foreignLeader writes another holder into the lease, and renews it until stop is called or the
// test ends. The lease then expires.
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
