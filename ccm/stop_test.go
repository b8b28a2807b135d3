package ccm_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
)

// Calls in flight get their time on a stop, but a controller that always has one in flight must not use it up.
func TestStop_DoesNotWaitForAControllerThatWritesAllTheTime(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusConflict) }))
	defer server.Close()
	p := standaloneParams("busy")
	p.RESTConfig = &rest.Config{Host: server.URL}
	p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
	p.Controllers = []ccm.Controller{{Name: "busy", New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
		client, err := t.Client("busy")
		return ccm.RunnableFunc(func(ctx context.Context) error {
			for ctx.Err() == nil {
				_, _ = client.CoreV1().Nodes().Patch(ctx, "n", types.MergePatchType, []byte("{}"), metav1.PatchOptions{})
			}
			return nil
		}), err
	}}}
	m, err := ccm.New(p)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { _ = m.Run(ctx) }()
	eventually(t, m.Status, func(s ccm.Status) bool { return s.Ready }, "ready")
	stop()
	select {
	case <-m.Done():
	case <-time.After(limit):
		t.Fatalf("it drains for the sake of a controller that is always busy: %+v", m.Status())
	}
	if err := m.Err(); err != nil {
		t.Error(err)
	}
}
