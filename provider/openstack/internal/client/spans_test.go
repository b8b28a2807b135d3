package client

import (
	"context"
	"log/slog"
	"net/http"
	"testing"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/tracing"
)

// endings records how spans end.
type endings struct{ errs []error }

func (e *endings) StartSpan(
	ctx context.Context, _ string, _ []slog.Attr,
) (context.Context, func(error, []slog.Attr)) {
	return ctx, func(err error, _ []slog.Attr) { e.errs = append(e.errs, err) }
}

func TestRetries_TransportPanics_SpanHasEndedAsFailed(t *testing.T) {
	r := &retries{
		next:    roundTripper(func(*http.Request) (*http.Response, error) { panic("boom") }),
		options: Options{Clock: &clocktesting.FakeClock{}},
	}
	e := &endings{}
	req, err := http.NewRequestWithContext(tracing.With(t.Context(), e), http.MethodGet,
		"http://cloud", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	err = rescue.Panic(func() error {
		resp, err := r.RoundTrip(req)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	})
	if err == nil || err.Error() != "panic: boom" {
		t.Errorf("the error is %v", err)
	}
	if len(e.errs) != 1 || e.errs[0] == nil {
		t.Errorf("the spans ended with %v, want one failure", e.errs)
	}
}
