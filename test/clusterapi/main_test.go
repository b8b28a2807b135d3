package clusterapi_test

import (
	"os"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.Main(m, func(cp *controlplane.ControlPlane) error {
		cluster = cp
		return nil
	}, nil))
}
