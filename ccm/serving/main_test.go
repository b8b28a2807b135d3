package serving_test

import (
	"testing"

	"go.uber.org/goleak"
)

// All goroutines of a server must end.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
