package endpoints_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/fleet/endpoints"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// get returns the code and the body of a path.
func get(t *testing.T, server *httptest.Server, path, accept string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Accept", accept)
	response, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// management answers like an API server without objects that grants each Lease.
func management(t *testing.T) *httptest.Server {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Query().Get("watch") != "":
			http.Error(w, "no watches", http.StatusServiceUnavailable)
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/leases"):
			_, _ = io.WriteString(w, `{"kind": "LeaseList", "apiVersion": "coordination.k8s.io/v1",
"metadata": {"resourceVersion": "1"}, "items": []}`)
		default:
			http.Error(w, "no objects", http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(server.Close)
	return server
}

func newFleet(t *testing.T, clusters ...fleet.Cluster) *fleet.Fleet {
	t.Helper()
	log := logr.Discard()
	params := fleet.DefaultParams()
	params.Identity, params.Logger = "this", &log
	params.Management = &rest.Config{Host: management(t).URL}
	params.Source = fleet.Static(clusters...)
	params.Manager = func(c fleet.Cluster) (ccm.Params, error) {
		cfg := ccm.DefaultConfig()
		cfg.ClusterName, cfg.Controllers = c.Name, []string{"-*"}
		return ccm.Params{
			Config: cfg, Providers: []ccm.Provider{fake.New().CCMProvider()},
			Elector: &election.Alone{},
		}, nil
	}
	f, err := fleet.New(params)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func TestHandler_FleetRuns_ShowsItsStateToPeopleAndPrograms(t *testing.T) {
	var clusters []fleet.Cluster
	for i := range 1000 {
		clusters = append(clusters, fleet.Cluster{
			Name: fmt.Sprintf("cluster-%03d", i), Err: fmt.Errorf("reason %03d", 999-i),
		})
	}
	clusters[7].Err = errors.New("a <b>kubeconfig</b> is missing")
	f := newFleet(t, clusters...)
	server := httptest.NewServer(endpoints.NewHandler(f))
	defer server.Close()
	if code, body := get(t, server, "/readyz/fleet", ""); code != http.StatusInternalServerError ||
		!strings.Contains(body, "stopped") {
		t.Errorf("readiness of a fleet that does not run: %d %s", code, body)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the fleet: %v", err)
		}
	}()
	waittest.Until(t, "the page shows the clusters", func() bool {
		_, body := get(t, server, "/statusz", "application/json")
		return strings.Contains(body, "cluster-999")
	})
	_, body := get(t, server, "/statusz", "application/json")
	var status fleet.Status
	if err := json.Unmarshal([]byte(body), &status); err != nil || len(status.Clusters) != 1000 ||
		status.Clusters[7].State != fleet.StateFailed {
		t.Errorf("the JSON has %d clusters: %v", len(status.Clusters), err)
	}

	code, body := get(t, server, "/statusz", "text/html")
	if code != http.StatusOK || strings.Contains(body, "<b>kubeconfig") ||
		!strings.Contains(body, "&lt;b&gt;kubeconfig") {
		t.Errorf("the page is %d, or shows a reason as HTML", code)
	}
	names := regexp.MustCompile(`>(cluster-\d{3})<`)
	shown := func(query string) []string {
		t.Helper()
		code, body := get(t, server, "/statusz?"+query, "text/html")
		if code != http.StatusOK {
			t.Fatalf("%s: %d %s", query, code, body)
		}
		var all []string
		for _, name := range names.FindAllStringSubmatch(body, -1) {
			all = append(all, name[1])
		}
		return all
	}
	if got := shown("sort=cluster"); len(got) != 1000 || !slices.IsSorted(got) {
		t.Errorf("sorted by name: %d clusters, the first is %s", len(got), got[0])
	}
	if got := shown("sort=cluster&order=descending"); got[0] != "cluster-999" {
		t.Errorf("sorted by name, descending: the first is %s", got[0])
	}
	if got := shown("sort=reason"); got[0] != "cluster-007" || got[1] != "cluster-999" {
		t.Errorf("sorted by reason: the first are %s and %s", got[0], got[1])
	}
	if got := shown("state=leading"); len(got) != 0 {
		t.Errorf("clusters that lead: %v", got)
	}
	if code, _ := get(t, server, "/clusters/cluster-007", ""); code != http.StatusNotFound {
		t.Errorf("the page of a cluster without a Manager: %d", code)
	}
	if code, body := get(t, server, "/livez", ""); code != http.StatusOK {
		t.Errorf("liveness: %d %s", code, body)
	}
}
