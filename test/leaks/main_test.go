package leaks

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/ccm/ccmtest/rbac"
)

// suite is what all tests share. They run one after another: goroutines, connections and memory belong to the process.
var suite struct {
	cp    *controlplane.ControlPlane
	admin kubernetes.Interface
	// account is the CCM's identity, which has the rights that are shipped and no others.
	account *rest.Config
}

func TestMain(m *testing.M) { os.Exit(runSuite(m)) }

func runSuite(m *testing.M) (code int) {
	dir, err := os.MkdirTemp("", "fxccm-leaks-")
	if err != nil {
		return failed(err)
	}
	defer os.RemoveAll(dir)
	showLog, err := divertLog(filepath.Join(dir, "klog"))
	if err != nil {
		return failed(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cp, err := controlplane.Start(ctx, controlplane.Options{DisableAudit: true})
	if err != nil {
		return failed(err)
	}
	defer func() {
		if err := cp.Stop(context.Background()); err != nil {
			code = failed(err)
		}
	}()
	if err := prepare(ctx, cp); err != nil {
		return failed(err)
	}
	if code = m.Run(); code != 0 {
		showLog()
	}
	return code
}

func prepare(ctx context.Context, cp *controlplane.ControlPlane) error {
	admin, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		return err
	}
	shipped, err := rbac.Load("../../example/deploy/rbac.yaml")
	if err != nil {
		return err
	}
	if err := shipped.Apply(ctx, admin); err != nil {
		return err
	}
	suite.cp, suite.admin = cp, admin
	suite.account, err = cp.ServiceAccountConfig("kube-system", "cloud-controller-manager")
	return err
}

// divertLog writes to a file what upstream says past the logger it is given: five hundred terms that are ended say a lot. show prints
// the end of it.
func divertLog(path string) (show func(), err error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	klog.LogToStderr(false)
	klog.SetOutput(file)
	return func() {
		klog.Flush()
		data, err := os.ReadFile(path)
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return
		}
		const end = 8000
		fmt.Fprintf(os.Stderr, "the end of klog's output:\n%s\n", data[max(0, len(data)-end):])
	}, nil
}

func failed(err error) (code int) {
	fmt.Fprintln(os.Stderr, err)
	return 1
}
