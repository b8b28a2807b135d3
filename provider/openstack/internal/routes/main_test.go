package routes

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/internal/waittest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var eventually = waittest.Until
