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

// Calls in flight get time on a stop, but a controller that always has a call in flight must not
// use all of it.
func TestStop_ControllerWritesAllTheTime_IsNotWaitedFor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(http.StatusConflict)
	}))
	defer server.Close()
	p := standaloneParams("busy")
	p.RESTConfig = &rest.Config{Host: server.URL}
	p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
	p.Controllers = []ccm.Controller{{
		Name: "busy",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			client, err := t.Client("busy")
			return ccm.RunnableFunc(func(ctx context.Context) error {
				for ctx.Err() == nil {
					_, _ = client.CoreV1().Nodes().Patch(ctx, "n", types.MergePatchType,
						[]byte("{}"),
						metav1.PatchOptions{})
				}
				return nil
			}), err
		},
	}}
	m, stop := start(t, p)
	waitReady(t, m)
	if err := stop(); err != nil {
		t.Error(err)
	}
}
