// Package provider_test is the suite of the OpenStack provider that runs on the simulated OpenStack
// and on a real one (see package project): what the cloud controllers ask of it, what of that
// reaches the cloud, and what becomes of it.
package provider_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
