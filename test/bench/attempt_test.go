package main

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/test/internal/project"
)

// An attempt can stand where a test does.
var _ project.T = (*attempt)(nil)

func TestAttempt_AnyEnd_CleansUp(t *testing.T) {
	for name, test := range map[string]struct {
		end  func(*attempt) error
		want string
	}{
		"well":                  {func(*attempt) error { return nil }, ""},
		"with an error":         {func(*attempt) error { return errors.New("no server") }, "no server"},
		"by Fatalf":             {func(a *attempt) error { a.Fatalf("no %s", "server"); panic("it goes on") }, "no server"},
		"by Fatal":              {func(a *attempt) error { a.Fatal(errors.New("no server")); panic("it goes on") }, "no server"},
		"with what went before": {func(a *attempt) error { a.Errorf("no port"); return errors.New("no server") }, "no port\nno server"},
	} {
		t.Run(name, func(t *testing.T) {
			var removed []string
			err := attemptTo(t.Context(), func(a *attempt) error {
				a.Cleanup(func() { removed = append(removed, "project") })
				a.Cleanup(func() {
					removed = append(removed, "server")
					a.Fatalf("it cannot be deleted")
				})
				a.Cleanup(func() { removed = append(removed, "port") })
				return test.end(a)
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

func TestAttempt_ItsContextIsThatOfTheBenchmark(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	err := attemptTo(ctx, func(a *attempt) error {
		interrupt()
		<-a.Context().Done()
		return a.Context().Err()
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
