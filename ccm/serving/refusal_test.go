package serving_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/internal/waittest"
)

// refuser is an API server that returns the ConfigMap, and refuses to list and watch it with code.
type refuser struct {
	code    int
	refused atomic.Int32
}

func (f *refuser) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if strings.HasSuffix(r.URL.Path, "/configmaps/extension-apiserver-authentication") {
		_ = json.NewEncoder(w).Encode(corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{Kind: "ConfigMap", APIVersion: "v1"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: metav1.NamespaceSystem,
				Name:      "extension-apiserver-authentication",
			},
		})
		return
	}
	w.WriteHeader(f.code)
	_ = json.NewEncoder(w).Encode(metav1.Status{
		TypeMeta: metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}, Status: metav1.StatusFailure,
		Code: int32(f.code),
		Reason: map[int]metav1.StatusReason{
			http.StatusTooManyRequests:     metav1.StatusReasonTooManyRequests,
			http.StatusForbidden:           metav1.StatusReasonForbidden,
			http.StatusInternalServerError: metav1.StatusReasonInternalError,
		}[f.code],
	})
	f.refused.Add(1)
}

// After the second refusal client-go pauses for at least 1.6 seconds. A stop with an earlier
// deadline must interrupt the pause.
func TestStop_APIServerRefusesTheWatch_EndsAtOnce(t *testing.T) {
	for _, code := range []int{
		http.StatusTooManyRequests, http.StatusForbidden,
		http.StatusInternalServerError,
	} {
		t.Run(http.StatusText(code), func(t *testing.T) {
			t.Parallel()
			api := &refuser{code: code}
			server := httptest.NewServer(api)
			defer server.Close()
			config := &rest.Config{
				Host:          server.URL,
				ContentConfig: rest.ContentConfig{ContentType: "application/json"},
			}
			r := serveUnwatched(t, config, nil)
			waittest.Until(t, "the API server has refused twice",
				func() bool { return api.refused.Load() >= 2 })
			if err := r.stop(t, ccm.StopBy(time.Now().Add(1200*time.Millisecond))); err != nil {
				t.Error(err)
			}
			r.result <- nil // for the cleanup
		})
	}
}
