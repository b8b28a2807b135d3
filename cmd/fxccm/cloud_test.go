package main

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fxccm/fxccm/ccm"
)

// The owner of a cluster names the address of a fake cloud, too.
func TestFakeProvider_ClusterNamesTheEndpoint_IsGuarded(t *testing.T) {
	var arrived atomic.Int64
	inner := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		arrived.Add(1)
		if strings.HasPrefix(r.URL.Path, "/redirects") {
			http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
			return
		}
		w.WriteHeader(http.StatusForbidden)
		_, _ = io.WriteString(w, "inner-answer")
	}))
	defer inner.Close()
	open := func(path string, g guard) error {
		t.Helper()
		provider, err := newFakeProvider([]byte("endpoint: "+inner.URL+path), g)
		if err != nil {
			t.Fatal(err)
		}
		_, err = provider.New(t.Context(), ccm.ProviderEnv{
			Transport: func(next http.RoundTripper) http.RoundTripper { return next },
		})
		return err
	}
	errRefused := errors.New("refused")
	err := open("", func(*http.Transport) http.RoundTripper {
		return roundTrip(func(*http.Request) (*http.Response, error) { return nil, errRefused })
	})
	if !errors.Is(err, errRefused) || arrived.Load() > 0 {
		t.Errorf("%d requests arrived: %v", arrived.Load(), err)
	}
	for path, want := range map[string]string{"": "403", "/redirects": "307"} {
		arrived.Store(0)
		err := open(path, func(t *http.Transport) http.RoundTripper { return t })
		if err == nil || !strings.Contains(err.Error(), want) || arrived.Load() != 1 ||
			strings.Contains(err.Error(), "inner-answer") {
			t.Errorf("%q: %d requests arrived: %v", path, arrived.Load(), err)
		}
	}
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
