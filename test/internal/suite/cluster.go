package suite

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// ClusterLabel is the label of the Nodes and Services of a virtual cluster.
const ClusterLabel = "e2e.example.org/cluster"

// Confine shows the clients of cfg the virtual cluster of one test. Lists and watches of Nodes and
// Services return only those of the test, and those that a client creates belong to it. So tests
// with their own Managers run in parallel on one API server. All other requests pass unchanged,
// also those for one object by its name: names of Nodes and Services must be unique in the suite.
func Confine(t testing.TB, cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cluster := ClusterName(t)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return confined{next, cluster} })
	return cfg
}

// ClusterName is the name of the virtual cluster of a test. Its subtests share it.
func ClusterName(t testing.TB) string {
	test, _, _ := strings.Cut(t.Name(), "/")
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(test))
	return fmt.Sprintf("%x", hash.Sum(nil))
}

// Client is the administrator of the virtual cluster of a test; see [Confine].
func (s *Suite) Client(t testing.TB) kubernetes.Interface {
	t.Helper()
	cfg := Confine(t, s.RESTConfig())
	cfg.ContentType = "application/json" // confined adds the label to it
	client, err := kubernetes.NewForConfig(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

type confined struct {
	next    http.RoundTripper
	cluster string
}

func (c confined) RoundTrip(req *http.Request) (*http.Response, error) {
	path := req.URL.Path
	if !strings.HasSuffix(path, "/nodes") && !strings.HasSuffix(path, "/services") {
		return c.next.RoundTrip(req)
	}
	req = req.Clone(req.Context())
	switch req.Method {
	case http.MethodGet:
		query := req.URL.Query()
		selector := ClusterLabel + "=" + c.cluster
		if given := query.Get("labelSelector"); given != "" {
			selector += "," + given
		}
		query.Set("labelSelector", selector)
		req.URL.RawQuery = query.Encode()
	case http.MethodPost:
		if err := c.label(req); err != nil {
			return nil, err
		}
	}
	return c.next.RoundTrip(req)
}

// label adds the label of the cluster to the object that req creates.
func (c confined) label(req *http.Request) error {
	var object unstructured.Unstructured
	err := json.NewDecoder(req.Body).Decode(&object.Object)
	_ = req.Body.Close()
	if err != nil {
		return fmt.Errorf("label the object of %s %s: %w", req.Method, req.URL.Path, err)
	}
	labels := object.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	labels[ClusterLabel] = c.cluster
	object.SetLabels(labels)
	body, err := json.Marshal(object.Object)
	if err != nil {
		return fmt.Errorf("label the object of %s %s: %w", req.Method, req.URL.Path, err)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return nil
}
