package openstack_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine of a term is left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
