package ccm

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// A transport of the host adds its credentials to each request, also to one that follows a
// redirect.
func TestConnections_APIServerRedirects_NoRequestLeavesIt(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a request arrived at the other server")
	}))
	defer other.Close()
	api := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusTemporaryRedirect))
	defer api.Close()
	for name, config := range map[string]*rest.Config{
		"own transport":         {Host: api.URL, BearerToken: "token"},
		"transport of the host": {Host: api.URL, Transport: &http.Transport{}},
	} {
		var c connections
		config, err := c.client(config, "a")
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		client := kubernetes.NewForConfigOrDie(config).CoreV1().RESTClient()
		for _, verb := range []string{"GET", "POST", "DELETE"} {
			err := client.Verb(verb).AbsPath("/api/v1/nodes").Do(t.Context()).Error()
			if err == nil || !strings.Contains(err.Error(), "307") {
				t.Errorf("%s: %s returns %v", name, verb, err)
			}
		}
		c.close()
	}
}
