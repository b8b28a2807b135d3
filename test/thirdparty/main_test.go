// Package thirdparty_test runs a cloud provider that knows nothing of fxccm, that of AWS, in a cloud controller manager on a real API server
// and a stub of the AWS API.
package thirdparty_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// The tests share a control plane, and run one after another: Nodes belong to all of it.
var (
	cluster *controlplane.ControlPlane
	// admin is the tests' own client.
	admin kubernetes.Interface
)

func TestMain(m *testing.M) {
	code, err := runSuite(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func runSuite(m *testing.M) (code int, err error) {
	dir, err := os.MkdirTemp("", "thirdparty-")
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	log, err := keepLog(filepath.Join(dir, "klog"))
	if err != nil {
		return 1, err
	}
	defer log.Close()
	isolate(dir)

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if cluster, err = controlplane.Start(ctx, controlplane.Options{}); err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.Background())) }()
	if admin, err = kubernetes.NewForConfig(cluster.RESTConfig()); err != nil {
		return 1, err
	}
	if code = m.Run(); code != 0 {
		showEnd(log.Name())
	}
	return code, nil
}

// isolate keeps what this machine has for AWS from the SDK, and the SDK from asking the metadata service of a cloud.
func isolate(dir string) {
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE":             filepath.Join(dir, "none"),
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(dir, "none"),
		"AWS_EC2_METADATA_DISABLED":   "true",
		"AWS_SECRET_ACCESS_KEY":       secretKey,
	} {
		os.Setenv(name, value)
	}
	for _, name := range []string{"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL"} {
		os.Unsetenv(name)
	}
}

// keepLog keeps what the provider logs, a lot and by klog, for the case that a test fails.
func keepLog(path string) (*os.File, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, err
	}
	klog.SetSlogLogger(slog.New(slog.NewTextHandler(file, nil)))
	return file, nil
}

func showEnd(path string) {
	const last = 16 << 10
	content, err := os.ReadFile(path)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return
	}
	fmt.Fprintf(os.Stderr, "the end of klog's output:\n%s\n", content[max(0, len(content)-last):])
}
