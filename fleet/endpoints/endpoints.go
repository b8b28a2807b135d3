// Package endpoints serves the state of a [fleet.Fleet] over HTTP:
//
//	/healthz /livez   health checks: a failure may justify a restart
//	/readyz           readiness: the replica takes clusters
//	/metrics          Prometheus
//	/statusz          [fleet.Status]: a page for browsers, JSON for all other clients
//	/clusters/<name>  the page of a cluster's Manager, or its [status.Manager] as JSON
//
// The handler opens no port and does not authenticate; see [ccmendpoints]. On a secure port of its
// own:
//
//	server, err := serving.NewFor(management, func(opts ...ccmendpoints.Option) http.Handler {
//		return endpoints.NewHandler(f, opts...)
//	}, servingconfig.Default())
//
// [ccmendpoints]: https://pkg.go.dev/github.com/fxccm/fxccm/ccm/serving/endpoints
package endpoints

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	ccmendpoints "github.com/fxccm/fxccm/ccm/serving/endpoints"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/webpage"
)

// NewHandler returns the endpoints of f. Options are the options of a Manager's endpoints. The
// handler is safe for concurrent use, and needs no cleanup.
func NewHandler(f *fleet.Fleet, opts ...ccmendpoints.Option) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("/", ccmendpoints.NewHandlerOf(ccmendpoints.Parts{
		Liveness: f.LivenessChecks(), Readiness: f.ReadinessChecks(), Statusz: statusz(f),
	}, opts...))
	mux.HandleFunc("GET /clusters/{name}", func(w http.ResponseWriter, r *http.Request) {
		manager := f.Manager(r.PathValue("name"))
		if manager == nil {
			http.Error(w, "this replica runs no Manager for the cluster", http.StatusNotFound)
			return
		}
		ccmendpoints.Statusz(manager).ServeHTTP(w, r)
	})
	return mux
}

func statusz(f *fleet.Fleet) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		current := f.Status()
		if webpage.IsPreferred(r.Header.Get("Accept")) {
			writePage(w, r, current)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		_ = encoder.Encode(current) // an error means that the client is gone
	})
}

// column is a column of the table, by which it can be sorted.
type column struct {
	Key, Title string
	compare    func(a, b fleet.ClusterStatus) int
}

func columns() []column {
	text := func(of func(fleet.ClusterStatus) string) func(a, b fleet.ClusterStatus) int {
		return func(a, b fleet.ClusterStatus) int { return strings.Compare(of(a), of(b)) }
	}
	return []column{
		{"state", "State", func(a, b fleet.ClusterStatus) int {
			return cmp.Compare(attention(a), attention(b))
		}},
		{"cluster", "Cluster", text(func(c fleet.ClusterStatus) string { return c.Name })},
		{"leader", "Leader", text(func(c fleet.ClusterStatus) string { return c.Leader })},
		{"reason", "Reason", text(func(c fleet.ClusterStatus) string { return c.Reason })},
	}
}

// attention is the index of a cluster's state in [fleet.States]. A cluster without a leader needs
// more attention than one that has a leader.
func attention(c fleet.ClusterStatus) int {
	place := 2 * slices.Index(fleet.States(), c.State)
	if c.Leader == "" || c.Reason != "" {
		place--
	}
	return place
}

func markOf(c fleet.ClusterStatus) webpage.Mark {
	word := string(c.State)
	switch {
	case c.State == fleet.StateFailed, c.State == status.Degraded:
		return webpage.Bad.Mark(word)
	case c.Leader == "":
		return webpage.Warn.Mark(word + ", no leader")
	case c.Reason != "", c.State == status.Draining, c.State == status.Leading && !c.Ready:
		return webpage.Warn.Mark(word)
	case c.State == status.Leading:
		return webpage.Good.Mark(word)
	}
	return webpage.Idle.Mark(word)
}

type row struct {
	fleet.ClusterStatus
	Mark webpage.Mark
	// Link is the page of the cluster's Manager in this replica.
	Link string
}

// tally is the number of clusters in a state.
type tally struct {
	State status.State
	Count int
	Link  string
}

type heading struct {
	column
	Link string
	// Sorted is the value of aria-sort. It is empty unless the table is sorted by this column.
	Sorted string
}

// writePage writes the page. The query may have sort=<column>, order=descending and state=<state>.
func writePage(w http.ResponseWriter, r *http.Request, current fleet.Status) {
	query := r.URL.Query()
	by, state := cmp.Or(query.Get("sort"), "state"), query.Get("state")
	descending := query.Get("order") == "descending"
	link := func(key, value string, clear ...string) string {
		q := url.Values{}
		for name, values := range query {
			q[name] = values
		}
		for _, name := range clear {
			q.Del(name)
		}
		q.Set(key, value)
		return "?" + q.Encode()
	}
	var tallies []tally
	for _, s := range fleet.States() {
		count := 0
		for _, c := range current.Clusters {
			if c.State == s {
				count++
			}
		}
		if count > 0 {
			tallies = append(tallies, tally{s, count, link("state", string(s))})
		}
	}
	clusters := slices.DeleteFunc(slices.Clone(current.Clusters), func(c fleet.ClusterStatus) bool {
		return state != "" && string(c.State) != state
	})
	var headings []heading
	for _, c := range columns() {
		h := heading{column: c, Link: link("sort", c.Key, "order")}
		if c.Key == by {
			h.Sorted = "ascending"
			if descending {
				h.Sorted = "descending"
			} else {
				h.Link = link("order", "descending")
			}
			slices.SortStableFunc(clusters, func(a, b fleet.ClusterStatus) int {
				if descending {
					a, b = b, a
				}
				return c.compare(a, b)
			})
		}
		headings = append(headings, h)
	}
	rows := make([]row, 0, len(clusters))
	for _, c := range clusters {
		r := row{ClusterStatus: c, Mark: markOf(c)}
		if c.State != fleet.StateWaiting && c.State != fleet.StateFailed {
			r.Link = "clusters/" + url.PathEscape(c.Name)
		}
		rows = append(rows, r)
	}
	webpage.Write(w, r, webpage.Page{
		Title:   fmt.Sprintf("Fleet: %d clusters", len(current.Clusters)),
		Heading: "Fleet of cloud controller managers",
		Now:     time.Now(),
		Content: webpage.All(
			webpage.El("h2", webpage.Text(fmt.Sprintf("%d clusters, %d replicas",
				len(current.Clusters), len(current.Replicas)))),
			problems(current.Problems),
			replicas(current),
			webpage.El("h3", webpage.Text("Clusters")),
			webpage.El("p",
				webpage.Each(tallies, tally.part), webpage.Link("?", webpage.Text("all"))),
			table(rows, headings, state),
		),
	})
}
