package apiconn_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/apiconn"
)

// The server reads nothing for a while, like one behind an interrupted network, so the kernel of
// the client has a part of the request that is unsent.
func TestDialer_ConnectionIsCutWithUnsentBytes_TheyNeverArrive(t *testing.T) {
	for name, cut := range map[string]func(*apiconn.Dialer, context.CancelFunc){
		"reset":               func(d *apiconn.Dialer, _ context.CancelFunc) { d.Reset() },
		"closed":              func(d *apiconn.Dialer, _ context.CancelFunc) { d.Close() },
		"request is canceled": func(_ *apiconn.Dialer, cancel context.CancelFunc) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			defer listener.Close()
			dialer := apiconn.NewDialer(nil)
			transport := &http.Transport{DialContext: dialer.Dial}
			defer transport.CloseIdleConnections()
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			// More than both kernels buffer, so that some bytes wait in the client's.
			body := io.LimitReader(zeros{}, 64<<20)
			request, err := http.NewRequestWithContext(ctx, http.MethodPut,
				"http://"+listener.Addr().String(), body)
			if err != nil {
				t.Fatal(err)
			}
			sent := make(chan error, 1)
			go func() {
				response, err := transport.RoundTrip(request)
				if err == nil {
					_ = response.Body.Close()
				}
				sent <- err
			}()
			conn, err := listener.Accept()
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			first := make([]byte, len("PUT"))
			if _, err := io.ReadFull(conn, first); err != nil || string(first) != "PUT" {
				t.Fatalf("received %q: %v", first, err)
			}
			cut(dialer, cancel)
			if err := <-sent; err == nil {
				t.Fatal("the request succeeded")
			}
			if _, err := io.Copy(io.Discard, conn); !errors.Is(err, syscall.ECONNRESET) {
				t.Errorf("the server read to the end: %v; want a reset connection, because the "+
					"client discards what is unsent", err)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return copy(p, strings.Repeat("0", len(p))), nil }

// client-go logs the addresses of requests.
func TestConfig_AddressHasAPassword_IsSentAsAHeaderOnly(t *testing.T) {
	for name, given := range map[string]rest.Config{
		"password in the address": {},
		"token beside it":         {BearerToken: "t"},
		"user beside it":          {Username: "other", Password: "p"},
	} {
		got := ""
		server := httptest.NewServer(http.HandlerFunc(
			func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Get("Authorization") }))
		defer server.Close()
		given.Host = strings.Replace(server.URL, "://", "://user:secret@", 1) + "/prefix"
		transport, dialer, err := apiconn.Transport(&given)
		if err != nil {
			t.Fatal(err)
		}
		defer dialer.Close()
		config, err := apiconn.Config(&given, transport)
		if err != nil || config.Host != server.URL+"/prefix" {
			t.Errorf("%s: the address is %s, %v", name, config.Host, err)
		}
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, config.Host, nil)
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		want, _ := http.NewRequest(http.MethodGet, config.Host, nil)
		switch {
		case given.BearerToken != "":
			want.Header.Set("Authorization", "Bearer t")
		case given.Username != "":
			want.SetBasicAuth(given.Username, given.Password)
		default:
			want.SetBasicAuth("user", "secret")
		}
		if got != want.Header.Get("Authorization") {
			t.Errorf("%s: the header is %q, want %q", name, got, want.Header.Get("Authorization"))
		}
	}
}
