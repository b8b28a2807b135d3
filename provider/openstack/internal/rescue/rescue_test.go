package rescue_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/rescue"
)

func TestPanic_IsAnError_AndAnErrorStaysWhatItIs(t *testing.T) {
	if err := rescue.Panic(func() error { panic("boom") }); err == nil || !strings.Contains(err.Error(), "boom") {
		t.Errorf("of a panic: %v", err)
	}
	failed := errors.New("failed")
	if err := rescue.Panic(func() error { return failed }); err != failed {
		t.Errorf("of an error: %v", err)
	}
	if err := rescue.Panic(func() error { return nil }); err != nil {
		t.Errorf("of success: %v", err)
	}
}
