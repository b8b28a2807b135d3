// Package hostintegration_test runs the cloud controller manager inside hosts that pass their own
// clients, informers, mux, logger and controllers. It runs on a real API server,
// under the shipped RBAC rules and those of testdata/rbac.yaml.
//
// Tests in which the four controllers work are sequential, because Nodes belong to the whole
// cluster. Tests with controllers of their own run in parallel.
package hostintegration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"go.uber.org/goleak"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the control plane of all tests.
var shared suite.Suite

// runs numbers the tests.
var runs struct {
	sync.Mutex
	of map[*testing.T]int
}

func TestMain(m *testing.M) {
	os.Exit(suite.Run(m, &shared, suite.Options{
		Rules: rules(),
		Prepare: func(ctx context.Context, s *suite.Suite) error {
			return waitForRules(ctx, s.Admin)
		},
		Check: func(s *suite.Suite) error {
			return errors.Join(nothingDenied(s.ControlPlane), nothingLeft())
		},
	}))
}

// rules are the shipped rules, and those that the hosts need in addition.
func rules() []string { return []string{"../../../deploy/base/rbac.yaml", "testdata/rbac.yaml"} }

// waitForRules waits until the API server uses the rules that were applied last.
func waitForRules(ctx context.Context, admin kubernetes.Interface) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: controlplane.ServiceAccountUser("hosts", "route-controller"),
		ResourceAttributes: &authorizationv1.ResourceAttributes{
			Verb: "patch", Resource: "nodes",
			Subresource: "status",
		},
	}}
	return waittest.Poll(ctx, func(ctx context.Context) error {
		answer, err := admin.AuthorizationV1().SubjectAccessReviews().Create(ctx, review,
			metav1.CreateOptions{})
		if err == nil && !answer.Status.Allowed {
			err = fmt.Errorf("the API server does not use the rules: %+v", answer.Status)
		}
		return err
	})
}

// nothingLeft returns the goroutines that are left after all tests, except those that client-go,
// klog and package controlplane keep for the whole process.
func nothingLeft() error {
	ctx, cancel := context.WithTimeout(context.Background(), waittest.Limit)
	defer cancel()
	return waittest.Poll(ctx, func() error {
		return goleak.Find(
			goleak.IgnoreTopFunction("testing.(*M).startAlarm"),
			goleak.IgnoreAnyFunction(
				"github.com/fxccm/fxccm/internal/childprocess.Begin.func1"),
			goleak.IgnoreAnyFunction("golang.org/x/net/http2.(*ClientConn).readLoop"),
			goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		)
	})
}

// nothingDenied returns an error for each request that the rules did not allow. No test expects
// one.
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
