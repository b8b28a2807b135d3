package kubeproxy_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/kubeproxy"
)

// deleteNode sends a mutating request through a proxy.
func deleteNode(t *testing.T, address, token string) error {
	t.Helper()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: address, BearerToken: token})
	if err != nil {
		t.Fatal(err)
	}
	return client.CoreV1().Nodes().Delete(t.Context(), "n", metav1.DeleteOptions{})
}

func TestProxy_Requests_NeedTheTokenOfAnOpenTerm(t *testing.T) {
	requests := make(chan *http.Request, 10)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests <- r.Clone(context.Background())
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Success"}`))
	}))
	defer server.Close()
	gate := fence.New(nil, clock.RealClock{})
	start := func() *kubeproxy.Proxy {
		p, err := kubeproxy.Start(func(name string) (*rest.Config, error) {
			config := &rest.Config{Host: server.URL, BearerToken: "real", UserAgent: "host/" + name}
			config.Wrap(gate.Transport)
			return config, nil
		}, logr.Discard())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		return p
	}
	old, current := start(), start()

	if err := deleteNode(t, current.Address(),
		kubeproxy.ClientToken(current.Token(), "mine")); err != nil {
		t.Fatal(err)
	}
	got := <-requests
	if got.Header.Get("Authorization") != "Bearer real" || got.UserAgent() != "host/mine" {
		t.Errorf("the API server received %v, want the credentials of the term", got.Header)
	}
	for _, token := range []string{
		"", "x.mine", current.Token(), kubeproxy.ClientToken(old.Token(), "mine"),
	} {
		if err := deleteNode(t, current.Address(), token); !apierrors.IsUnauthorized(err) {
			t.Errorf("token of another term: %v, want Unauthorized", err)
		}
	}
	gate.Close(errors.New("leadership lost"))
	if err := deleteNode(t, current.Address(),
		kubeproxy.ClientToken(current.Token(), "mine")); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("after the term: %v, want ServiceUnavailable", err)
	}
	if len(requests) > 0 {
		t.Errorf("%d refused requests reached the API server", len(requests))
	}
}
