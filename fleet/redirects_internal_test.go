package fleet

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/waittest"
)

func TestSources_ManagementClusterRedirects_NoRequestLeavesIt(t *testing.T) {
	t.Parallel()
	var arrived atomic.Int64
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Add(1)
	}))
	defer other.Close()
	healthy, err := url.Parse(managementWithSecrets(t).Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, redirected string
		source           func(*rest.Config) Source
	}{
		{"Secrets", "/secrets", func(c *rest.Config) Source {
			return Secrets(SecretsConfig{Management: c, Namespace: "n"})
		}},
		{"Cluster API, discovery", "/apis", clusterAPIOf},
		{"Cluster API, Clusters", "/clusters", clusterAPIOf},
		{"Cluster API, Secrets", "/secrets", clusterAPIOf},
	} {
		var redirects atomic.Int64
		api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !strings.HasSuffix(r.URL.Path, test.redirected) {
				httputil.NewSingleHostReverseProxy(healthy).ServeHTTP(w, r)
				return
			}
			redirects.Add(1)
			http.Redirect(w, r, other.URL+r.URL.Path, http.StatusTemporaryRedirect)
		}))
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			source := test.source(&rest.Config{Host: api.URL, BearerToken: "management"})
			_ = source.Run(ctx, func([]Cluster) {})
		}()
		// The client asks again after it has followed the redirect, or has not.
		waittest.Until(t, test.name+" has asked again, or ended", func() bool {
			select {
			case <-ended:
				return true
			default:
				return redirects.Load() >= 2
			}
		})
		stop()
		<-ended
		api.Close()
		if redirects.Load() == 0 {
			t.Errorf("%s: no request was redirected", test.name)
		}
	}
	if n := arrived.Load(); n > 0 {
		t.Errorf("%d requests arrived at the other server", n)
	}
}

func clusterAPIOf(management *rest.Config) Source {
	return ClusterAPI(ClusterAPIConfig{Management: management, Namespace: "n"})
}
