package kubeproxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/kubeproxy"
)

// apiServer is the transport of a client of the term. It records the requests.
type apiServer struct{ got []*http.Request }

func (a *apiServer) RoundTrip(r *http.Request) (*http.Response, error) {
	a.got = append(a.got, r)
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{}, Body: http.NoBody, Request: r,
	}, nil
}

func newProxy(tb testing.TB) (*kubeproxy.Proxy, *apiServer) {
	tb.Helper()
	api := &apiServer{}
	p, err := kubeproxy.Start(func(string) (*rest.Config, error) {
		return &rest.Config{
			Host: "https://api.example.com/prefix", BearerToken: "real", Transport: api,
		}, nil
	}, logr.Discard())
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(p.Close)
	return p, api
}

// send passes a request to the proxy as it arrives on the wire, with the token of the term.
func send(p *kubeproxy.Proxy, raw string) (status int) {
	r, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		return http.StatusBadRequest
	}
	r.Header.Set("Authorization", "Bearer "+kubeproxy.ClientToken(p.Token(), "mine"))
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	_, _ = io.Copy(io.Discard, r.Body)
	return w.Code
}

func TestProxy_AmbiguousOrForeignRequest_IsRefused(t *testing.T) {
	p, api := newProxy(t)
	for _, target := range []string{
		"/api/../metrics", "/api/%2e%2e/metrics", "/api/%2E%2E/metrics", "//evil.example.com/api",
		"/api//v1", "/api/./v1", "/api/v1/..", "/api%2fv1", "/api%2Fv1", "/api/%252e%252e/x",
		"/api\\..\\x", "/api/%5c..%5cx", "/api/%00", "/api/%0d%0aX: y", "*",
		"http://evil.example.com/api",
	} {
		if code := send(p, "GET "+target+" HTTP/1.1\r\nHost: x\r\n\r\n"); code != 400 {
			t.Errorf("%s is answered with %d, want 400", target, code)
		}
	}
	for _, header := range []string{
		"Impersonate-User: system:admin", "impersonate-group: system:masters",
		"Impersonate-Extra-Scope: x", "Impersonate-Uid: 1", "X-Remote-User: admin",
		"X-Remote-Group: system:masters", "Upgrade: websocket\r\nConnection: Upgrade",
		"Upgrade: SPDY/3.1",
	} {
		if code := send(p, "GET /api HTTP/1.1\r\nHost: x\r\n"+header+"\r\n\r\n"); code != 400 {
			t.Errorf("%q is answered with %d, want 400", header, code)
		}
	}
	for _, method := range []string{"CONNECT", "TRACE", "get", "BREW"} {
		if code := send(p, method+" /api HTTP/1.1\r\nHost: x\r\n\r\n"); code != 400 {
			t.Errorf("%s is answered with %d, want 400", method, code)
		}
	}
	if len(api.got) > 0 {
		t.Errorf("%d refused requests reached the API server", len(api.got))
	}
}

func TestProxy_UsualRequest_IsForwardedInOneEncoding(t *testing.T) {
	p, api := newProxy(t)
	for target, want := range map[string]string{
		"/api/v1/nodes?watch=true&x=a%2Fb": "/prefix/api/v1/nodes?watch=true&x=a%2Fb",
		"/api/":                            "/prefix/api/",
		"/apis/x/events/a%3Ab":             "/prefix/apis/x/events/a:b",
		"/apis/x/names/%7Eme%20x":          "/prefix/apis/x/names/~me%20x",
	} {
		api.got = nil
		code := send(p, "GET "+target+" HTTP/1.1\r\nHost: evil\r\nConnection: X-Secret\r\n"+
			"X-Secret: 1\r\nX-Forwarded-For: 10.0.0.1\r\nAuthorization: Bearer other\r\n\r\n")
		if code != http.StatusOK || len(api.got) != 1 {
			t.Errorf("%s is answered with %d", target, code)
			continue
		}
		got := api.got[0]
		if got.URL.RequestURI() != want || got.URL.Host != "api.example.com" ||
			got.Host != "" && got.Host != "api.example.com" {
			t.Errorf("%s reaches %s %s, want %s", target, got.Host, got.URL, want)
		}
		if got.Header.Get("X-Secret") != "" || got.Header.Get("X-Forwarded-For") != "" {
			t.Errorf("%s is forwarded with %v", target, got.Header)
		}
	}
}

func TestProxy_ManyNamesOfClients_AreRefused(t *testing.T) {
	made := 0
	p, err := kubeproxy.Start(func(string) (*rest.Config, error) {
		made++
		return &rest.Config{Host: "https://api.example.com", Transport: &apiServer{}}, nil
	}, logr.Discard())
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	for i := range 1000 {
		r := httptest.NewRequest(http.MethodGet, "/api", nil)
		r.URL.Host = ""
		r.Header.Set("Authorization", "Bearer "+kubeproxy.ClientToken(p.Token(), fmt.Sprint(i)))
		p.ServeHTTP(httptest.NewRecorder(), r)
	}
	if made == 0 || made > 64 {
		t.Errorf("1000 names make %d clients, want at most 64", made)
	}
}

// FuzzProxy checks that each forwarded request is that of the term's client, for a plain path.
func FuzzProxy(f *testing.F) {
	for _, raw := range []string{
		"GET /api/v1/nodes?watch=1 HTTP/1.1\r\nHost: x\r\n\r\n",
		"POST /api%2f..%2fx HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
		"GET /a/%2e%2e/b HTTP/1.1\r\nHost: x\r\nimpersonate-user: y\r\n\r\n",
		"PUT //x HTTP/1.0\r\nConnection: Authorization, Upgrade\r\nUpgrade: h2c\r\n\r\n",
		"DELETE http://y/z HTTP/1.1\r\nTransfer-Encoding: chunked\r\nHost: x\r\n\r\n1\r\na\r\n0\r\n\r\n",
	} {
		f.Add(raw)
	}
	p, api := newProxy(f)
	f.Fuzz(func(t *testing.T, raw string) {
		api.got = nil
		send(p, raw)
		for _, got := range api.got {
			at := got.URL.Path
			if got.URL.Host != "api.example.com" || !strings.HasPrefix(at, "/prefix/") ||
				path.Clean(at) != strings.TrimSuffix(at, "/") || strings.ContainsAny(at, "%\\") ||
				got.URL.RawPath != "" {
				t.Errorf("%q reaches %q", raw, got.URL)
			}
			for name := range got.Header {
				if strings.HasPrefix(name, "Impersonate-") ||
					strings.HasPrefix(name, "X-Remote-") || name == "Upgrade" {
					t.Errorf("%q is forwarded with %s", raw, name)
				}
			}
		}
	})
}
