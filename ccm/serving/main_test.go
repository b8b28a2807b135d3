package serving_test

import (
	"testing"

	"go.uber.org/goleak"
)

// A server must not leave a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
