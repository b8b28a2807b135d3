package openstack_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing of any term may be left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
