package apiconn_test

import (
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/apiconn"
)

func TestTransport_ServerRedirects_NoRequestLeavesIt(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Add(1)
	}))
	defer other.Close()
	for _, status := range []int{300, 301, 302, 303, 305, 307, 308, 399} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) {
					w.Header().Set("Location", other.URL+"/?token=location-secret")
					w.WriteHeader(status)
					_, _ = w.Write([]byte("body-secret"))
				}))
			defer server.Close()
			config := &rest.Config{Host: server.URL, BearerToken: "token"}
			transport, dialer, err := apiconn.Transport(config)
			if err != nil {
				t.Fatal(err)
			}
			defer dialer.Close()
			through, err := apiconn.Config(config, transport)
			if err != nil {
				t.Fatal(err)
			}
			for _, config := range []*rest.Config{through, apiconn.WithoutRedirects(config)} {
				client := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
				for _, verb := range []string{"GET", "POST", "PUT", "PATCH", "DELETE"} {
					err := client.Verb(verb).AbsPath("/api/v1/nodes").Do(t.Context()).Error()
					if err == nil || !strings.Contains(err.Error(), strconv.Itoa(status)) ||
						strings.Contains(err.Error(), "secret") {
						t.Errorf("%s: the error is %v", verb, err)
					}
				}
			}
		})
	}
	if n := arrived.Load(); n > 0 {
		t.Errorf("%d requests arrived at the other server", n)
	}
}

// A header of few bytes becomes many times as large in memory.
func TestTransport_HeadersAreLarge_ResponseIsRefused(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		fields  int
		refused bool
	}{{100, false}, {100_000, true}} {
		server := httptest.NewServer(http.HandlerFunc(
			func(w http.ResponseWriter, _ *http.Request) {
				for i := range test.fields {
					w.Header().Set("X-"+strconv.Itoa(i), "")
				}
			}))
		transport, dialer, err := apiconn.Transport(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := transport.RoundTrip(r)
		if err == nil {
			_ = response.Body.Close()
		}
		if refused := err != nil; refused != test.refused {
			t.Errorf("%d headers: the error is %v", test.fields, err)
		}
		dialer.Close()
		server.Close()
	}
}
