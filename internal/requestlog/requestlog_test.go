package requestlog_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/fxccm/fxccm/internal/requestlog"
)

func TestWithoutBodies_MostVerboseLogger_HasNoBodies(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"TokenReview","apiVersion":"authentication.k8s.io/v1",
			"status":{"error":"secret-of-the-response"}}`))
	}))
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{
		Host: server.URL, ContentConfig: rest.ContentConfig{ContentType: "application/json"},
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	log := funcr.New(func(_, args string) { lines = append(lines, args) },
		funcr.Options{Verbosity: 10})
	verbose := klog.NewContext(context.Background(), log)
	send := func(ctx context.Context) string {
		t.Helper()
		lines = nil
		review := &authenticationv1.TokenReview{}
		review.Spec.Token = "secret-of-the-request"
		if _, err := client.AuthenticationV1().TokenReviews().Create(ctx, review,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		return strings.Join(lines, "\n")
	}

	if logged := send(verbose); !strings.Contains(logged, "secret-of-the-request") {
		t.Errorf("client-go does not log bodies any more; the package is not needed: %s", logged)
	}
	quiet := requestlog.WithoutBodies(verbose)
	if logged := send(quiet); strings.Contains(logged, "secret-of") {
		t.Errorf("a secret is in the log: %s", logged)
	}
	derived := logr.FromContextOrDiscard(quiet).WithName("x").WithValues("k", "v")
	if !derived.V(7).Enabled() || derived.V(8).Enabled() {
		t.Error("a derived logger has other levels, want all up to 7")
	}
}
