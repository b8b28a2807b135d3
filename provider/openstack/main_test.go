package openstack_test

import (
	"testing"

	"go.uber.org/goleak"
)

// All goroutines of a term must have ended after the tests.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
