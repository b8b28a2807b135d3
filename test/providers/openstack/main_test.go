// Package openstack_test is the suite of the OpenStack provider, without a Manager, on the
// simulated OpenStack or a real one (see package project). It calls the provider as the cloud
// controllers do, and compares the requests and the resulting cloud.
package openstack_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
