package attempt_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/attempt"
	"github.com/fxccm/fxccm/test/internal/project"
)

// An attempt can replace a test.
var _ project.T = (*attempt.T)(nil)

func TestAttempt_AnyEnd_CleansUp(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*attempt.T)
		want string
	}{
		"well":                  {func(*attempt.T) {}, ""},
		"with an error":         {func(a *attempt.T) { a.Check(errors.New("no server")); panic("it goes on") }, "no server"},
		"by Fatalf":             {func(a *attempt.T) { a.Fatalf("no %s", "server"); panic("it goes on") }, "no server"},
		"by Fatal":              {func(a *attempt.T) { a.Fatal(errors.New("no server")); panic("it goes on") }, "no server"},
		"with what went before": {func(a *attempt.T) { a.Errorf("no port"); a.Check(nil); a.Fatal("no server") }, "no port\nno server"},
	} {
		t.Run(name, func(t *testing.T) {
			var removed []string
			err := attempt.Run(t.Context(), func(a *attempt.T) {
				a.Cleanup(func() { removed = append(removed, "project") })
				a.Cleanup(func() {
					removed = append(removed, "server")
					a.Fatalf("it cannot be deleted")
				})
				a.Cleanup(func() { removed = append(removed, "port") })
				test.end(a)
			})
			if want := []string{"port", "server", "project"}; !slices.Equal(removed, want) {
				t.Errorf("removed were %q, want %q", removed, want)
			}
			want := strings.TrimPrefix(test.want+"\nit cannot be deleted", "\n")
			if err == nil || err.Error() != want {
				t.Errorf("the error is %q, want %q", err, want)
			}
		})
	}
}

func TestAttempt_ContextOfTheProgramEnds_IsTheCause(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	err := attempt.Run(ctx, func(a *attempt.T) {
		interrupt()
		<-a.Context().Done()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}

func TestAttempt_Aborted_IsTheCauseOfWhatFailsThen(t *testing.T) {
	for name, failure := range map[string]error{
		"died":                     nil,
		"died: request broken off": errors.New("request broken off"),
	} {
		err := attempt.Run(t.Context(), func(a *attempt.T) {
			a.Abort(errors.New("died"))
			a.Check(failure)
		})
		if err == nil || err.Error() != name {
			t.Errorf("the error is %v, want %s", err, name)
		}
	}
}
