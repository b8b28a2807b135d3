package controllerruntime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/controllerruntime"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

const (
	leaseNamespace, leaseName = "kube-system", "my-control-plane"

	seen = "example.com/seen"
)

// world is a host with a reconciler of Nodes, on its own control plane.
type world struct {
	t       *testing.T
	cp      *controlplane.ControlPlane
	client  kubernetes.Interface
	cloud   *fake.Cloud
	host    *controllerruntime.Host
	manager *ccm.Manager
	setups  atomic.Int32
	cancel  context.CancelFunc
	ran     chan error
}

// start runs a host whose Setup also calls setup.
func start(t *testing.T, setup func(ctrl.Manager) error) *world {
	t.Helper()
	w := &world{t: t, cp: controlplane.ForTest(t), cloud: fake.New(), ran: make(chan error, 1)}
	w.client = kubernetes.NewForConfigOrDie(w.cp.RESTConfig())
	var err error
	w.host, err = controllerruntime.New(w.cp.RESTConfig(), controllerruntime.Config{
		Options: ctrl.Options{
			LeaderElection: true, LeaderElectionID: leaseName,
			LeaderElectionNamespace: leaseNamespace,
			LeaseDuration:           ptr.To(6 * time.Second),
			RenewDeadline:           ptr.To(4 * time.Second),
			RetryPeriod:             ptr.To(200 * time.Millisecond),
			GracefulShutdownTimeout: ptr.To(time.Second),
			Logger:                  testr.New(t),
		},
		Setup: func(m ctrl.Manager) error {
			w.setups.Add(1)
			return errors.Join(addNodeReconciler(m), setup(m))
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.manager, err = ccm.New(w.host.Params(ccm.Params{
		Config: ccmtest.Config(), Providers: []ccm.Provider{w.cloud.CCMProvider()},
	}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	w.cancel = cancel
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.ran <- w.host.Run(ctx, w.manager)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

func none(ctrl.Manager) error { return nil }

// nodeReconciler labels each Node.
type nodeReconciler struct{ client.Client }

func addNodeReconciler(m ctrl.Manager) error {
	return ctrl.NewControllerManagedBy(m).For(&corev1.Node{}).Complete(
		&nodeReconciler{m.GetClient()})
}

func (r *nodeReconciler) Reconcile(
	ctx context.Context, request ctrl.Request,
) (ctrl.Result, error) {
	var node corev1.Node
	if err := r.Get(ctx, request.NamespacedName, &node); err != nil {
		return ctrl.Result{}, client.IgnoreNotFound(err)
	}
	before := node.DeepCopy()
	metav1.SetMetaDataLabel(&node.ObjectMeta, seen, "true")
	return ctrl.Result{}, r.Patch(ctx, &node, client.MergeFrom(before))
}

// wantNode waits until both the cloud controller manager and the reconciler have changed a new
// Node.
func (w *world) wantNode(name string) {
	w.t.Helper()
	if err := w.cloud.AddInstances(fake.Instance{Name: name}); err != nil {
		w.t.Fatal(err)
	}
	ccmtest.CreateNode(w.t, w.client, ccmtest.TaintedNode(name))
	ccmtest.Eventually(w.t, "the node is initialized", ccmtest.Initialized(w.client, name))
	ccmtest.Eventually(w.t, "is labeled by the reconciler",
		ccmtest.Object(w.client.CoreV1().Nodes().Get, name, func(n *corev1.Node) error {
			if n.Labels[seen] != "true" {
				return fmt.Errorf("its labels are %v", n.Labels)
			}
			return nil
		}))
}

// hold writes a holder to the lease, as another process does. "" releases it.
func (w *world) hold(holder string) {
	w.t.Helper()
	leases := w.client.CoordinationV1().Leases(leaseNamespace)
	waittest.Until(w.t, "the lease is written", func(ctx context.Context) error {
		lease, err := leases.Get(ctx, leaseName, metav1.GetOptions{})
		if err != nil {
			return err
		}
		now := &metav1.MicroTime{Time: time.Now()}
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = &holder, now
		lease.Spec.LeaseDurationSeconds = ptr.To(int32(3600))
		if holder == "" {
			// The write has the form of a release. After any other edit, a standby waits for the
			// lease duration.
			lease.Spec.AcquireTime, lease.Spec.LeaseDurationSeconds = now, ptr.To(int32(1))
		}
		_, err = leases.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

func (w *world) holder() string {
	w.t.Helper()
	lease, err := w.client.CoordinationV1().Leases(leaseNamespace).Get(w.t.Context(), leaseName,
		metav1.GetOptions{})
	if err != nil {
		w.t.Fatal(err)
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

func (w *world) wait() error {
	w.t.Helper()
	select {
	case err := <-w.ran:
		return err
	case <-time.After(ccmtest.WaitLimit):
		w.t.Fatal("Run did not return")
		return nil
	}
}

func TestHost_LeaseTakenAndReleased_LeadsAgainWithANewManagerAndTheSameInformers(t *testing.T) {
	t.Parallel()
	w := start(t, none)
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(w.manager))
	w.wantNode("first")

	w.hold("another-process")
	ccmtest.Eventually(t, "the Manager is a standby", ccmtest.State(w.manager, status.Standby))
	w.hold("")
	ccmtest.Eventually(t, "leads in term 2",
		ccmtest.Status(w.manager, func(s status.Manager) bool { return s.Ready && s.Term == 2 }))
	w.wantNode("second")

	if got := w.setups.Load(); got != 2 {
		t.Errorf("Setup was called %d times, want once in each of two campaigns", got)
	}
	// The test's own waits also watch nodes, but with a name in the field selector.
	watches, err := w.cp.Audit().All(controlplane.ByResource("", "nodes"),
		controlplane.ByVerb("watch"),
		func(r controlplane.AuditRecord) bool { return r.Name == "" })
	if err != nil {
		t.Fatal(err)
	}
	if len(watches) != 1 || !strings.Contains(watches[0].UserAgent, "shared-informers") {
		t.Errorf("in two campaigns the nodes were watched %d times, want once: %v", len(watches),
			watches)
	}
	w.cancel()
	if err := w.wait(); err != nil {
		t.Errorf("Run returned %v", err)
	}
	if holder := w.holder(); holder != "" {
		t.Errorf("after the stop the lease is held by %q", holder)
	}
	if err := w.host.Run(t.Context(), w.manager); err == nil {
		t.Error("a second Run returned no error")
	}
}

// stuck is a runnable that ignores its context.
func stuck(end <-chan struct{}, started chan<- struct{}) func(ctrl.Manager) error {
	return func(m ctrl.Manager) error {
		return m.Add(manager.RunnableFunc(func(context.Context) error {
			close(started)
			<-end
			return nil
		}))
	}
}

func TestHost_RunnableDoesNotEnd_RunReturnsErrStillRunning(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(w *world){
		"after a loss": func(w *world) { w.hold("another-process") },
		"after a stop": func(w *world) { w.cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			release, started := make(chan struct{}), make(chan struct{})
			defer close(release)
			w := start(t, stuck(release, started))
			ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(w.manager))
			<-started
			end(w)
			err := w.wait()
			if !errors.Is(err, controllerruntime.ErrStillRunning) ||
				!strings.Contains(fmt.Sprint(err), "RunnableFunc") {
				t.Errorf("the error is %v, want ErrStillRunning with the runnable's type", err)
			}
			if holder := w.holder(); holder == "" {
				t.Error("the lease was released while a runnable runs")
			}
		})
	}
}

func TestHost_Handler_ServesMetricsOfBothAndChecksOfSetup(t *testing.T) {
	t.Parallel()
	w := start(t, func(m ctrl.Manager) error {
		return m.AddReadyzCheck("never", func(*http.Request) error { return errors.New("no") })
	})
	ccmtest.Eventually(t, "the Manager is ready", ccmtest.Ready(w.manager))
	w.wantNode("first")
	get := func(path string) (int, string) {
		r := httptest.NewRecorder()
		w.host.Handler().ServeHTTP(r, httptest.NewRequest(http.MethodGet, path, nil))
		return r.Code, r.Body.String()
	}
	_, metrics := get("/metrics")
	for _, name := range []string{"controller_runtime_reconcile_total", "fxccm_leading"} {
		if !strings.Contains(metrics, name) {
			t.Errorf("/metrics lacks %s", name)
		}
	}
	if code, _ := get("/readyz"); code != http.StatusInternalServerError {
		t.Errorf("/readyz with a failing check returns %d", code)
	}
}

func TestNew_BadConfiguration_ErrorNamesTheField(t *testing.T) {
	electing := ctrl.Options{
		LeaderElection: true, LeaderElectionID: leaseName,
		LeaderElectionNamespace: leaseNamespace,
	}
	with := func(change func(*ctrl.Options)) ctrl.Options {
		o := electing
		change(&o)
		return o
	}
	config := &rest.Config{Host: "http://127.0.0.1:1"}
	for want, c := range map[string]struct {
		config  *rest.Config
		options ctrl.Options
	}{
		"client configuration": {nil, electing},
		"HealthProbeBindAddress": {
			config,
			with(func(o *ctrl.Options) { o.HealthProbeBindAddress = ":8081" }),
		},
		"Metrics.BindAddress": {
			config,
			with(func(o *ctrl.Options) { o.Metrics.BindAddress = ":8080" }),
		},
		"PprofBindAddress": {config, with(func(o *ctrl.Options) { o.PprofBindAddress = ":6060" })},
		"LeaderElectionID": {config, with(func(o *ctrl.Options) { o.LeaderElectionID = "" })},
		"leaseDuration": {
			config,
			with(func(o *ctrl.Options) { o.LeaseDuration = ptr.To(time.Second) }),
		},
	} {
		_, err := controllerruntime.New(c.config, controllerruntime.Config{Options: c.options})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("the error is %v, want one that names %s", err, want)
		}
	}
}
