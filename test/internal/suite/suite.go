// Package suite runs the tests of a package on a real control plane that they share.
package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"testing"
	"time"

	"go.uber.org/goleak"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/rbac"
)

// Options configure a suite. The zero value is a control plane without rules.
type Options struct {
	// Rules are the files with the RBAC rules that are applied before the tests run, relative to
	// the package's folder.
	Rules []string
	// ControlPlane has the options of the control plane.
	ControlPlane controlplane.Options
	// Prepare prepares further requirements of the tests. Nil: nothing.
	Prepare func(context.Context, *Suite) error
	// Check runs when all tests have passed. Nil: no check.
	Check func(*Suite) error
}

// A Suite is shared by all tests of a package.
type Suite struct {
	*controlplane.ControlPlane
	// Admin may do everything. Only the tests use it, not the CCM.
	Admin kubernetes.Interface
	// Identity is the CCM's identity, which has only the rights of the rules. User is its name in
	// the audit log.
	Identity *rest.Config
	User     string
	// Rules are those of the options.
	Rules *rbac.Manifests
}

// Run starts the control plane into s, runs the tests, and stops it. The code is for os.Exit. See
// [Quietly] for the logs.
func Run(m *testing.M, s *Suite, o Options) (code int) {
	return Quietly(func() int { return s.run(m, o) })
}

func (s *Suite) run(m *testing.M, o Options) (code int) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if err := s.start(ctx, o); err != nil {
		return Failed(errors.Join(err, s.stop()))
	}
	var err error
	if code = m.Run(); code == 0 && o.Check != nil {
		err = o.Check(s)
	}
	if err = errors.Join(err, s.stop()); err != nil {
		return Failed(err)
	}
	return code
}

// VerifyMain ends the process of a test binary with the code of run, or with 1 if goroutines are
// left.
func VerifyMain(run func() (code int)) {
	goleak.VerifyTestMain(runner(run),
		// klog flushes its log files with one goroutine for the process.
		goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}

type runner func() (code int)

func (r runner) Run() (code int) { return r() }

// Failed prints err, and returns the exit code of a suite that could not run.
func Failed(err error) (code int) {
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func (s *Suite) start(ctx context.Context, o Options) (err error) {
	if s.ControlPlane, err = controlplane.Start(ctx, o.ControlPlane); err != nil {
		return err
	}
	if s.Admin, err = kubernetes.NewForConfig(s.RESTConfig()); err != nil {
		return err
	}
	s.User = controlplane.ServiceAccountUser("kube-system", "cloud-controller-manager")
	if s.Identity, err = s.ServiceAccountConfig("kube-system",
		"cloud-controller-manager"); err != nil {
		return err
	}
	if len(o.Rules) > 0 {
		if s.Rules, err = rbac.Load(o.Rules...); err != nil {
			return err
		}
		if err := s.Rules.Apply(ctx, s.Admin); err != nil {
			return err
		}
	}
	if o.Prepare == nil {
		return nil
	}
	return o.Prepare(ctx, s)
}

func (s *Suite) stop() error {
	if s.ControlPlane == nil {
		return nil
	}
	return s.Stop(context.Background())
}

// OfOpenStack reports whether only the OpenStack provider needs the permission of the shipped
// rules. test/e2e/openstack checks these, and test/e2e/controllers the others.
func OfOpenStack(p rbac.Permission) bool {
	return slices.Contains([]string{"patch services", "get namespaces kube-system"}, p.String()) ||
		p.Resource == "endpointslices" ||
		p.Resource == "configmaps" && (p.Verb == "create" || p.ResourceName == "fxccm-routes")
}

// NothingForbidden is a check of Options: it fails the suite if the shipped rules have denied a
// request of the CCM.
func NothingForbidden(s *Suite) error {
	refused, err := s.Audit().All(controlplane.ByUser(s.User),
		func(r controlplane.AuditRecord) bool { return r.Decision == "forbid" })
	if err != nil {
		return err
	}
	if len(refused) > 0 {
		return fmt.Errorf("%d requests of the CCM were forbidden, the first: %s", len(refused),
			refused[0])
	}
	return nil
}
