package serving_test

import (
	"testing"

	"go.uber.org/goleak"
)

// Nothing of any server may be left when all tests have ended.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
