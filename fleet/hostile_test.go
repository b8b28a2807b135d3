package fleet_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/waittest"
)

// hostile is an API server that answers lists of nodes as the test wants, and watches with silence.
type hostile struct {
	*httptest.Server
	list atomic.Pointer[http.HandlerFunc]
	// down resets each connection.
	down           atomic.Bool
	probes, others atomic.Int64
}

func newHostile(t *testing.T) *hostile {
	t.Helper()
	h := &hostile{}
	h.Server = httptest.NewServer(http.HandlerFunc(h.serve))
	t.Cleanup(func() {
		h.CloseClientConnections()
		h.Close()
	})
	return h
}

func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/version" {
		h.probes.Add(1)
	} else {
		h.others.Add(1)
	}
	if h.down.Load() {
		panic(http.ErrAbortHandler)
	}
	w.Header().Set("Content-Type", "application/json")
	list := h.list.Load()
	switch {
	case r.URL.Query().Get("watch") != "":
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	case strings.HasSuffix(r.URL.Path, "/nodes") && list != nil:
		(*list)(w, r)
	case strings.HasSuffix(r.URL.Path, "/nodes"):
		writeNodes(w, "", 1, 10)
	default:
		_, _ = io.WriteString(w, "{}")
	}
}

// writeNodes writes a page of nodes with annotations of a size each.
func writeNodes(w io.Writer, more string, nodes, size int) {
	_, err := fmt.Fprintf(w, `{"kind":"NodeList","apiVersion":"v1",
"metadata":{"resourceVersion":"1","continue":%q},"items":[`, more)
	for i := 0; i < nodes && err == nil; i++ {
		comma := ","
		if i == 0 {
			comma = ""
		}
		_, err = fmt.Fprintf(w, `%s{"metadata":{"name":"n%d","annotations":{"a":%q}},
"spec":{"providerID":"fake://region-1/n%d"}}`, comma, i, strings.Repeat("x", size), i)
	}
	if err == nil {
		_, _ = io.WriteString(w, "]}")
	}
}

// withNodes makes the Managers of all clusters but those of the world run the controller of nodes.
func withNodes(w *world, h *hostile) func(*fleet.Params) {
	w.clusters = append(w.clusters,
		fleet.Cluster{Name: "hostile", RESTConfig: &rest.Config{Host: h.URL}})
	return func(p *fleet.Params) {
		made := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			params, err := made(c)
			if c.Name == "hostile" {
				params.Config.Controllers = append(params.Config.Controllers,
					"cloud-node-controller")
			}
			return params, err
		}
		// A busy machine must not cost a healthy cluster its Lease: its terms are counted.
		p.Election.LeaseDuration.Duration = 2 * time.Minute
		p.Election.RenewDeadline.Duration = time.Minute
		// On a busy machine a healthy API server may not answer for ten seconds, either.
		p.Limits = fleet.Limits{
			ObjectBytes: 1 << 20, BytesPerSecond: 1 << 20, Outage: 30 * time.Second,
		}
	}
}

func statusOf(r *running, name string) fleet.ClusterStatus {
	for _, c := range r.Status().Clusters {
		if c.Name == name {
			return c
		}
	}
	return fleet.ClusterStatus{}
}

func TestFleet_ClusterExceedsItsLimits_IsStoppedAndOthersAreServed(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]http.HandlerFunc{
		"an object of 10 MB": func(w http.ResponseWriter, _ *http.Request) {
			writeNodes(w, "", 1, 10<<20)
		},
		"100,000 objects": func(w http.ResponseWriter, _ *http.Request) {
			writeNodes(w, "", 100_000, 10)
		},
		"60 KB of items that become 10 MB": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1","items":[{}`+
				strings.Repeat(",{}", 20_000)+"]}")
		},
		"pages without an end": func(w http.ResponseWriter, _ *http.Request) {
			writeNodes(w, "more", 100, 1000)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, h := newWorld(t, 3), newHostile(t)
			h.list.Store(&list)
			r := w.start("only", withNodes(w, h))
			waittest.Until(t, "the status says why the cluster is not served", func() error {
				c := statusOf(r, "hostile")
				if c.State != fleet.StateFailed || c.RetryAt.IsZero() || c.Leader != "" ||
					!strings.Contains(c.Reason, "fleet.Limits.ObjectBytes") {
					return fmt.Errorf("it is %+v", c)
				}
				return nil
			})
			w.awaitOthers()
			h.list.Store(nil)
			waittest.Until(t, "the cluster is served again", func() error {
				if c := statusOf(r, "hostile"); !c.Ready {
					return fmt.Errorf("it is %+v", c)
				}
				return nil
			})
			w.verifyOthers()
		})
	}
}

// awaitOthers waits until all clusters but the hostile one are served.
func (w *world) awaitOthers() {
	w.t.Helper()
	waittest.Until(w.t, "the other clusters are served", func() error {
		by := w.served()
		for _, c := range w.clusters {
			if c.Name != "hostile" && by[c.Name] == "" {
				return fmt.Errorf("served are %v", by)
			}
		}
		return nil
	})
}

// verifyOthers fails the test if another cluster than the hostile one was interrupted.
func (w *world) verifyOthers() {
	w.t.Helper()
	for _, c := range w.clusters {
		if got := w.terms(c.Name); c.Name != "hostile" && got != 1 {
			w.t.Errorf("%s had %d terms", c.Name, got)
		}
	}
	w.verify()
}

// The test counts goroutines, so it is not parallel.
func TestFleet_APIServerIsDead_OnlyAProbeIsLeftUntilItAnswers(t *testing.T) {
	w, h := newWorld(t, 2), newHostile(t)
	h.down.Store(true)
	const hostileClusters = 10
	change := withNodes(w, h)
	for i := range hostileClusters - 1 {
		w.clusters = append(w.clusters, fleet.Cluster{
			Name: fmt.Sprintf("hostile-%d", i), RESTConfig: &rest.Config{Host: h.URL},
		})
	}
	alive := runtime.NumGoroutine()
	r := w.start("only", change, func(p *fleet.Params) {
		made := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			name := c.Name
			if strings.HasPrefix(name, "hostile") {
				c.Name = "hostile"
			}
			params, err := made(c)
			params.Config.ClusterName = name
			return params, err
		}
	})
	failed := func() (n int) {
		for _, c := range r.Status().Clusters {
			if c.State == fleet.StateFailed && !c.RetryAt.IsZero() &&
				strings.Contains(c.Reason, "the API server has not answered since") {
				n++
			}
		}
		return n
	}
	waittest.Until(t, "each dead cluster is stopped and probed", func() error {
		if n := failed(); n != hostileClusters || h.probes.Load() < hostileClusters {
			return fmt.Errorf("%d clusters have failed, %d probes", n, h.probes.Load())
		}
		return nil
	})
	// The replica and the two other clusters have some goroutines, each dead cluster has one.
	waittest.Until(t, "the goroutines of the dead clusters end", func() error {
		if n := runtime.NumGoroutine() - alive; n > 100+2*hostileClusters {
			return fmt.Errorf("there are %d more than before", n)
		}
		return nil
	})
	probes, others := h.probes.Load(), h.others.Load()
	waittest.Until(t, "the dead clusters are probed again", func() error {
		if h.probes.Load() == probes {
			return errors.New("no probe came")
		}
		return nil
	})
	if got := h.others.Load() - others; got > 0 {
		t.Errorf("%d requests that were no probes reached the dead API server", got)
	}
	h.down.Store(false)
	waittest.Until(t, "all clusters are served", func() error {
		for _, c := range r.Status().Clusters {
			if !c.Ready {
				return fmt.Errorf("%s is %+v", c.Name, c)
			}
		}
		return nil
	})
	if got := w.terms("cluster-0"); got != 1 {
		t.Errorf("another cluster had %d terms", got)
	}
}

// A host's function that does not return keeps its cluster from being served, and no other.
func TestFleet_ParamsOfAManagerHang_OthersAreServed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	hang := make(chan struct{})
	release := sync.OnceFunc(func() { close(hang) })
	r := w.start("only", func(p *fleet.Params) {
		made := p.Manager
		p.Manager = func(c fleet.Cluster) (ccm.Params, error) {
			if c.Name == "hostile" {
				<-hang
			}
			return made(c)
		}
	})
	t.Cleanup(release)
	w.change(func(all []fleet.Cluster) []fleet.Cluster {
		return append([]fleet.Cluster{newCluster("hostile")}, all...)
	})
	w.awaitOthers()
	if c := statusOf(r, "hostile"); c.Ready || w.terms("hostile") > 0 {
		t.Errorf("the cluster is %+v", c)
	}
	release()
	w.waitServed(4, r)
}

// The meter does not shorten an answer with the status 200, which becomes an error of client-go.
func TestFleet_ListIsAnsweredWithALongStatus_LogLinesAreShort(t *testing.T) {
	t.Parallel()
	const marker, maxLine = "in-the-answer", 4 << 10
	w, h := newWorld(t, 1), newHostile(t)
	list := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind":"Status","apiVersion":"v1","status":"Failure",`+
			`"reason":"BadRequest","code":400,"message":"`+marker+strings.Repeat("x", 100<<10)+`"}`)
	})
	h.list.Store(&list)
	var long atomic.Pointer[string]
	var isLogged atomic.Bool
	log := funcr.New(func(_, line string) {
		if !strings.Contains(line, marker) {
			return
		}
		if len(line) > maxLine {
			long.Store(&line)
		}
		if strings.Contains(line, "Failed to watch") {
			isLogged.Store(true)
		}
	}, funcr.Options{})
	r := w.start("only", withNodes(w, h), func(p *fleet.Params) { p.Logger = &log })
	waittest.Until(t, "the informer of nodes logs the answer", func() error {
		if !isLogged.Load() {
			return fmt.Errorf("the cluster is %+v", statusOf(r, "hostile"))
		}
		return nil
	})
	if line := long.Load(); line != nil {
		t.Errorf("a line has %d bytes: %.300s", len(*line), *line)
	}
}

// Such names would become keys of queues and caches, and texts of logs and pages.
func TestFleet_NodeHasANameThatNoAPIServerAccepts_TermFailsAndTextsAreShort(t *testing.T) {
	t.Parallel()
	const marker, maxLine = "in-the-name", 4 << 10
	w, h := newWorld(t, 2), newHostile(t)
	list := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1",`+
			`"metadata":{"resourceVersion":"1"},"items":[{"metadata":{"name":"`+marker+
			strings.Repeat("x", 100<<10)+`"}}]}`)
	})
	h.list.Store(&list)
	var long atomic.Pointer[string]
	log := funcr.New(func(_, line string) {
		if strings.Contains(line, marker) && len(line) > maxLine {
			long.Store(&line)
		}
	}, funcr.Options{})
	r := w.start("only", withNodes(w, h), func(p *fleet.Params) { p.Logger = &log })
	waittest.Until(t, "the status says why the cluster is not served", func() error {
		c := statusOf(r, "hostile")
		if c.Ready || !strings.Contains(c.Reason, "which no API server of Kubernetes accepts") ||
			len(c.Reason) > maxLine {
			return fmt.Errorf("it is %.4000v", c)
		}
		return nil
	})
	w.awaitOthers()
	h.list.Store(nil)
	waittest.Until(t, "the cluster is served again", func() error {
		if c := statusOf(r, "hostile"); !c.Ready {
			return fmt.Errorf("it is %+v", c)
		}
		return nil
	})
	w.verifyOthers()
	if line := long.Load(); line != nil {
		t.Errorf("a line has %d bytes: %.300s", len(*line), *line)
	}
}
