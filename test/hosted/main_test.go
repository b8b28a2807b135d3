// Package hosted_test runs the cloud controller manager inside hosts that hand in what they have already: clients, informers, an election,
// a mux, a logger, metrics, controllers. It runs on a real API server, under the shipped RBAC rules and what testdata/rbac.yaml adds for
// the hosts, and looks at what reaches the API server and the cloud.
//
// Tests in which the four controllers work come one after the other, since Nodes belong to the whole cluster. Those with controllers of
// their own run in parallel.
package hosted_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/rbac"
)

var suite struct {
	cp *controlplane.ControlPlane
	// admin may do everything. It is the tests' own; the CCM never uses it.
	admin kubernetes.Interface
	// identity is the CCM's, user its name in the audit log.
	identity *rest.Config
	user     string
	// klog is where the output of upstream's controllers goes.
	klog string
	// runs numbers the tests.
	runs struct {
		sync.Mutex
		of map[*testing.T]int
	}
}

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (code int, err error) {
	closeLog, err := collectKlog()
	if err != nil {
		return 1, err
	}
	defer func() { closeLog(code != 0 || err != nil) }()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{})
	if err != nil {
		return 1, err
	}
	defer func() {
		if stopErr := cp.Stop(context.Background()); err == nil {
			err = stopErr
		}
	}()
	if err := prepare(ctx, cp); err != nil {
		return 1, err
	}
	if code := m.Run(); code != 0 {
		return code, nil
	}
	return 0, errors.Join(nothingDenied(cp), nothingLeft())
}

// collectKlog writes klog to a file, which is kept if the suite fails.
func collectKlog() (end func(failed bool), err error) {
	dir, err := os.MkdirTemp("", "fxccm-hosted-")
	if err != nil {
		return nil, err
	}
	suite.klog = filepath.Join(dir, "klog.log")
	file, err := os.Create(suite.klog)
	if err != nil {
		return nil, err
	}
	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	for name, value := range map[string]string{"logtostderr": "false", "stderrthreshold": "FATAL"} {
		if err := flags.Set(name, value); err != nil {
			return nil, err
		}
	}
	klog.SetOutput(file)
	return func(failed bool) {
		klog.Flush()
		if failed {
			fmt.Fprintln(os.Stderr, "klog's output is in", suite.klog)
			return
		}
		_ = file.Close()
		_ = os.RemoveAll(dir)
	}, nil
}

func prepare(ctx context.Context, cp *controlplane.ControlPlane) error {
	admin, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		return err
	}
	suite.cp, suite.admin = cp, admin
	suite.user = controlplane.ServiceAccountUser("kube-system", "cloud-controller-manager")
	if suite.identity, err = cp.ServiceAccountConfig("kube-system", "cloud-controller-manager"); err != nil {
		return err
	}
	return applyRules(ctx, admin)
}

func applyRules(ctx context.Context, admin kubernetes.Interface) error {
	rules, err := rbac.Load("../../example/deploy/rbac.yaml", "testdata/rbac.yaml")
	if err != nil {
		return err
	}
	if err := rules.Apply(ctx, admin); err != nil {
		return err
	}
	return waitForRules(ctx, admin)
}

// waitForRules waits until the API server goes by the rules that were applied last.
func waitForRules(ctx context.Context, admin kubernetes.Interface) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               controlplane.ServiceAccountUser("hosts", "route-controller"),
		ResourceAttributes: &authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes", Subresource: "status"},
	}}
	err := wait.PollUntilContextCancel(ctx, 10*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
	if err != nil {
		return fmt.Errorf("wait until the API server goes by the rules: %w", err)
	}
	return nil
}

// nothingLeft tells which goroutines are left when all tests are over, but for those that client-go, klog and package controlplane keep for
// the whole process.
func nothingLeft() (err error) {
	for deadline := time.Now().Add(15 * time.Second); time.Now().Before(deadline); {
		err = goleak.Find(
			goleak.IgnoreTopFunction("testing.(*M).startAlarm"),
			goleak.IgnoreAnyFunction("github.com/fxccm/fxccm/ccm/ccmtest/controlplane.startProcess.func1"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
			goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		)
		if err == nil {
			return nil
		}
	}
	return fmt.Errorf("goroutines are left: %w", err)
}

// nothingDenied tells which requests the rules did not allow: no test expects one.
func nothingDenied(cp *controlplane.ControlPlane) error {
	records, err := cp.Audit().All(controlplane.Denied())
	if err != nil {
		return err
	}
	var denied []error
	for _, r := range records {
		denied = append(denied, fmt.Errorf("the rules do not allow %s", r))
	}
	return errors.Join(denied...)
}
