// Package thirdparty_test runs AWS's cloud provider, which does not depend on fxccm, in a cloud
// controller manager on a real API server and a stub of the AWS API: in the host's process, shared
// by all terms, and in a separate process.
package thirdparty_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/fxccm/fxccm/hosting/process"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// shared is the control plane of all tests. They run one after another: Nodes belong to all of it.
var shared suite.Suite

func TestMain(m *testing.M) {
	// A provider in a process of its own is served by this test binary.
	process.Main(registered.Provider("aws"))
	if os.Getenv("FXCCM_CONFORMANCE") != "" {
		// This process runs one check, on the control plane of its parent.
		os.Exit(suite.Quietly(m.Run))
	}
	os.Exit(suite.Run(m, &shared, suite.Options{Prepare: func(context.Context, *suite.Suite) error {
		return isolate()
	}}))
}

// isolate hides this machine's AWS settings from the SDK, and prevents requests to a cloud's
// metadata service.
func isolate() error {
	for name, value := range map[string]string{
		"AWS_CONFIG_FILE":             filepath.Join(os.DevNull, "none"),
		"AWS_SHARED_CREDENTIALS_FILE": filepath.Join(os.DevNull, "none"),
		"AWS_EC2_METADATA_DISABLED":   "true",
		"AWS_SECRET_ACCESS_KEY":       secretKey,
	} {
		if err := os.Setenv(name, value); err != nil {
			return err
		}
	}
	for _, name := range []string{
		"AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_ROLE_ARN",
		"AWS_WEB_IDENTITY_TOKEN_FILE", "AWS_ENDPOINT_URL",
	} {
		if err := os.Unsetenv(name); err != nil {
			return err
		}
	}
	return nil
}
