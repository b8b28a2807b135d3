package rescue_test

import (
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/internal/rescue"
)

func TestPanic_PanicBecomesAnError_AndAnErrorIsReturnedAsItIs(t *testing.T) {
	if err := rescue.Panic(func() error { panic("boom") }); err == nil ||
		err.Error() != "panic: boom" {
		t.Errorf("after a panic: %v", err)
	}
	failed := errors.New("failed")
	if err := rescue.Panic(func() error { return failed }); err != failed {
		t.Errorf("after an error: %v", err)
	}
	if err := rescue.Panic(func() error { return nil }); err != nil {
		t.Errorf("after success: %v", err)
	}
}

func TestCall_Panic_AsErrorGetsTheValueAndSeesTheStack(t *testing.T) {
	cause := errors.New("boom")
	var stack string
	err := rescue.Call(panicWith(cause), func(value any) error {
		stack = string(debug.Stack())
		return fmt.Errorf("the call panicked: %w", value.(error))
	})
	if !errors.Is(err, cause) {
		t.Errorf("error is %v, want one that wraps the panic's value", err)
	}
	if !strings.Contains(stack, "panicWith") {
		t.Errorf("the stack does not show the function that panicked:\n%s", stack)
	}
}

func panicWith(value any) func() error { return func() error { panic(value) } }
