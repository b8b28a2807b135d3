package ccmtest_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// cluster is shared by all tests of this package; each cleans up after itself.
var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	cluster, err = controlplane.Start(context.Background(), controlplane.Options{})
	if err != nil {
		return 1, err
	}
	defer func() { err = errors.Join(err, cluster.Stop(context.Background())) }()
	return m.Run(), nil
}
