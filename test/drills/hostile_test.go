//go:build linux

package drills_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// hostileKinds are API servers that try to exhaust a replica. Each writes the rest of a list or of
// a watch, until the client disconnects.
var hostileKinds = []struct {
	name string
	// exceeds reports whether the limit of the objects' bytes ends it.
	exceeds bool
	write   func(w io.Writer, r *http.Request, watch bool) error
}{
	{"objects of 10 MB", true, func(w io.Writer, _ *http.Request, watch bool) (err error) {
		for i := 0; err == nil && (watch || i < 100); i++ {
			err = writeObject(w, watch, i, 10<<20)
		}
		return err
	}},
	{
		"100,000 objects", true,
		func(w io.Writer, _ *http.Request, watch bool) (err error) {
			for i := 0; err == nil && i < 100_000; i++ {
				err = writeObject(w, watch, i, 700)
			}
			return err
		},
	},
	{"a byte every 100 ms", false, func(w io.Writer, r *http.Request, _ bool) (err error) {
		for err == nil && r.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = io.WriteString(w, " ")
		}
		return err
	}},
	{
		"a watch that changes an object without a pause", false,
		func(w io.Writer, _ *http.Request, watch bool) (err error) {
			for i := 0; err == nil && (watch || i < 1); i++ {
				err = writeObject(w, watch, i, 500)
			}
			return err
		},
	},
	{"pages without an end", true, func(w io.Writer, r *http.Request, watch bool) error {
		if watch {
			<-r.Context().Done()
		}
		return writeObject(w, watch, 0, 1<<20)
	}},
}

// writeObject writes an object of a list, or an event of a watch.
func writeObject(w io.Writer, watch bool, i, size int) error {
	object := fmt.Sprintf(`{"kind":"Service","apiVersion":"v1","metadata":{"name":"s%d",
"namespace":"default","uid":"%d","resourceVersion":"%d","annotations":{"a":"%s"}},"spec":{}}`,
		i, i, i+2, strings.Repeat("x", size))
	switch {
	case watch:
		object = fmt.Sprintf(`{"type":"MODIFIED","object":%s}`, object)
	case i > 0:
		object = "," + object
	}
	_, err := io.WriteString(w, object)
	return err
}

// startHostile starts a hostile API server that counts the bytes that it writes.
func startHostile(
	t *testing.T, write func(io.Writer, *http.Request, bool) error,
) (address string, written *atomic.Int64) {
	t.Helper()
	written = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := &flushed{w, http.NewResponseController(w), written}
		watch := r.URL.Query().Get("watch") != ""
		switch isServices := strings.HasSuffix(r.URL.Path, "/services"); {
		case watch && isServices:
			_ = write(out, r, true)
		case watch:
			_ = out.control.Flush()
			<-r.Context().Done()
		case isServices:
			more := ""
			if r.URL.Query().Get("limit") != "" {
				more = "more"
			}
			_, _ = fmt.Fprintf(out, `{"kind":"ServiceList","apiVersion":"v1",
"metadata":{"resourceVersion":"1","continue":%q},"items":[`, more)
			if write(out, r, false) == nil {
				_, _ = io.WriteString(out, "]}")
			}
		case strings.HasSuffix(r.URL.Path, "/nodes"):
			_, _ = io.WriteString(w, `{"kind":"NodeList","apiVersion":"v1",
"metadata":{"resourceVersion":"1"},"items":[]}`)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL, written
}

type flushed struct {
	http.ResponseWriter
	control *http.ResponseController
	written *atomic.Int64
}

func (f *flushed) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
	f.written.Add(int64(n))
	if err == nil {
		err = f.control.Flush()
	}
	return n, err
}

const (
	// samples is the minimum number of created Services in a measurement, and samplePause the pause
	// between two.
	samples     = 30
	samplePause = 200 * time.Millisecond
)

// latencies measures the time from the creation of a Service to the first call to the cloud, for
// new Services until isOver returns nil.
func (w *fleetWorld) latencies(isOver func() error) (all []time.Duration) {
	w.t.Helper()
	limit := time.Now().Add(fleetPatience)
	for i := 0; i < samples || isOver() != nil; i++ {
		if time.Now().After(limit) {
			w.t.Fatal(isOver())
		}
		time.Sleep(samplePause)
		c := w.clusters[i%len(w.clusters)]
		service := c.nextService()
		begun := time.Now()
		c.create(service)
		ctx, cancel := context.WithTimeout(w.t.Context(), fleetPatience)
		call, err := c.cloud.WaitForCall(ctx, fake.CallFilter{
			Method: fake.EnsureLoadBalancer, Object: c.name + "/" + service.Name,
		}.Matches)
		cancel()
		if err != nil {
			w.t.Fatal(err)
		}
		all = append(all, call.Started.Sub(begun))
	}
	slices.Sort(all)
	return all
}

// memoryOf returns a value of /proc/<pid>/status in MiB.
func memoryOf(t *testing.T, p *replica.Process, key string) int {
	t.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.PID()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), key+":")
	kib := 0
	if _, err := fmt.Sscan(rest, &kib); err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

const (
	// hostileOfAKind is the number of clusters with each of the hostile API servers.
	hostileOfAKind = 2
	// hostilePeak is the replica's maximum memory in MiB with all of them.
	hostilePeak = 900
)

// memoryLimit is the setting of a fleet's manifests: about nine tenths of the memory limit of the
// replica.
var memoryLimit = []string{"GOMEMLIMIT=800MiB"}

const hostilePrefix = "hostile-kind-"

func hostileName(i int) string { return hostilePrefix + strconv.Itoa(i) }

func TestFleet_HostileClusters_DoNotDisturbOthers(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newFleetWorld(t, "hostile", 3)
	r := w.start("hostile-a", programs.ccm, 0)
	w.steady(r)
	line := func(situation string, measured []time.Duration, memory string) {
		results.addHostile(fmt.Sprintf("| %s | %d | %d ms | %d ms | %d MiB |", situation,
			len(measured), measured[len(measured)/2].Milliseconds(),
			measured[len(measured)-1].Milliseconds(), memoryOf(t, r.Process, memory)))
	}
	before := w.latencies(func() error { return nil })
	line("none is hostile", before, "VmRSS")

	cloud, err := os.ReadFile(w.clusters[0].cloudConfig)
	if err != nil {
		t.Fatal(err)
	}
	for i := range hostileOfAKind * len(hostileKinds) {
		kind := hostileKinds[i%len(hostileKinds)]
		address, written := startHostile(t, kind.write)
		path := filepath.Join(w.dir, "hostile.kubeconfig")
		if err := controlplane.WriteKubeconfig(path, &rest.Config{Host: address}); err != nil {
			t.Fatal(err)
		}
		config, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w.join(hostileName(i), config, cloud)
		if err := within(fleetPatience, func() error {
			if written.Load() == 0 {
				return fmt.Errorf("no request reached the server with %s", kind.name)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	exceeded := map[string]bool{}
	var status fleet.Status
	measured := w.latencies(func() (err error) {
		if status, err = r.status(w); err != nil {
			return err
		}
		for _, c := range status.Clusters {
			if c.State == fleet.StateFailed &&
				strings.Contains(c.Reason, "fleet.Limits.ObjectBytes") {
				exceeded[c.Name] = true
			}
		}
		for i := range hostileOfAKind * len(hostileKinds) {
			kind := hostileKinds[i%len(hostileKinds)]
			if kind.exceeds && !exceeded[hostileName(i)] {
				return fmt.Errorf("the cluster with %s has not exceeded its limit", kind.name)
			}
		}
		return nil
	})
	line(fmt.Sprintf("%d others are hostile", hostileOfAKind*len(hostileKinds)), measured, "VmHWM")
	if peak := memoryOf(t, r.Process, "VmHWM"); peak > hostilePeak {
		t.Errorf("the replica had %d MiB, want %d at most", peak, hostilePeak)
	}
	was, is := before[len(before)/2], measured[len(measured)/2]
	margin := time.Second // other tests of CI use the processors, too
	if all() {
		margin = 50 * time.Millisecond
	}
	if is > 2*was+margin {
		t.Errorf("half of the Services reach the cloud after %s, before the attack after %s", is, was)
	}
	for _, c := range status.Clusters {
		if !c.Ready && !strings.HasPrefix(c.Name, hostilePrefix) {
			t.Errorf("%s is %+v", c.Name, c)
		}
	}
	for _, c := range w.clusters {
		if o := overlapOf(c.cloud.Calls(fake.CallFilter{Mutating: true}.Matches)); o.terms != 1 {
			t.Errorf("%s had %d terms", c.name, o.terms)
		}
	}
}
