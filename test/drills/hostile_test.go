//go:build linux

package drills_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
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
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// A hostileKind is an API server that tries to exhaust a replica.
type hostileKind struct {
	name string
	// exceeds reports whether the limit of the objects' bytes ends it.
	exceeds bool
	// write writes the rest of a list or of a watch in JSON, until the client disconnects.
	write func(w io.Writer, r *http.Request, watch bool) error
	// answer replaces write if it answers in another way.
	answer func(w *flushed, r *http.Request, watch bool)
}

// hostileKinds are the API servers of the drill. The kinds with an answer send responses that
// become larger than they are on the wire, or that have no object.
var hostileKinds = []hostileKind{
	{name: "objects of 10 MB", exceeds: true, write: func(
		w io.Writer, _ *http.Request, watch bool,
	) (err error) {
		for i := 0; err == nil && (watch || i < 100); i++ {
			err = writeObject(w, watch, i, 10<<20)
		}
		return err
	}},
	{
		name: "100,000 objects", exceeds: true,
		write: func(w io.Writer, _ *http.Request, watch bool) (err error) {
			for i := 0; err == nil && i < 100_000; i++ {
				err = writeObject(w, watch, i, 700)
			}
			return err
		},
	},
	{name: "a byte every 100 ms", write: func(w io.Writer, r *http.Request, _ bool) (err error) {
		for err == nil && r.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = io.WriteString(w, " ")
		}
		return err
	}},
	{
		name: "a watch that changes an object without a pause",
		write: func(w io.Writer, _ *http.Request, watch bool) (err error) {
			for i := 0; err == nil && (watch || i < 1); i++ {
				err = writeObject(w, watch, i, 500)
			}
			return err
		},
	},
	{
		name: "a new Service with a name of 1 MiB each second",
		write: func(w io.Writer, r *http.Request, watch bool) (err error) {
			for i := 0; watch && err == nil && r.Context().Err() == nil; i++ {
				_, err = fmt.Fprintf(w, `{"type":"ADDED","object":{"kind":"Service",
"apiVersion":"v1","metadata":{"name":"%d-%s","namespace":"default","uid":"%d",
"resourceVersion":"%d"},"spec":{"type":"LoadBalancer"}}}`,
					i, strings.Repeat("x", 1<<20), i, i+2)
				time.Sleep(time.Second)
			}
			return err
		},
	},
	{name: "pages without an end", exceeds: true, write: func(
		w io.Writer, r *http.Request, watch bool,
	) error {
		if watch {
			<-r.Context().Done()
		}
		return writeObject(w, watch, 0, 1<<20)
	}},
	{name: "8 MiB of empty elements", exceeds: true, answer: once(sendProtobuf,
		protobufList(protobufField(1, bytes.Repeat(protobufField(13, nil), 4<<20))))},
	{
		name: "watch events of empty elements",
		answer: func(w *flushed, r *http.Request, watch bool) {
			event := protobufEvent(protobufField(1, bytes.Repeat(protobufField(13, nil), 80_000)))
			w.Header().Set("Content-Type", protobufType+";stream=watch")
			for watch {
				if _, err := w.Write(event); err != nil {
					return
				}
			}
			sendProtobuf(w, protobufList(nil))
		},
	},
	{name: "JSON with small keys", exceeds: true, answer: endless(
		`{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"labels":{"":""`,
		func(i int) string { return fmt.Sprintf(`,"%x":""`, i) })},
	{name: "deep nesting", exceeds: true, answer: endless(`{"kind":"ServiceList","items":`,
		func(int) string { return `[{"a":` })},
	{name: "a string without an end", exceeds: true, answer: endless(
		`{"kind":"ServiceList","apiVersion":"v1","items":[{"metadata":{"name":"`,
		func(int) string { return "aaaaaaaa" })},
	{name: "a gzip bomb", exceeds: true, answer: func(w *flushed, _ *http.Request, _ bool) {
		w.Header().Set("Content-Encoding", "gzip")
		compress := gzip.NewWriter(w)
		for blank := bytes.Repeat([]byte(" "), 1<<20); ; {
			if _, err := compress.Write(blank); err != nil {
				return
			}
		}
	}},
	{name: "9 MiB, then a byte every 100 ms", answer: func(w *flushed, r *http.Request, _ bool) {
		_, err := w.Write(bytes.Repeat([]byte(" "), 9<<20))
		for err == nil && r.Context().Err() == nil {
			time.Sleep(100 * time.Millisecond)
			_, err = io.WriteString(w, " ")
		}
	}},
	{name: "informational responses", answer: func(w *flushed, r *http.Request, _ bool) {
		w.Header().Set("Link", strings.Repeat("x", 1000))
		for r.Context().Err() == nil {
			w.WriteHeader(http.StatusEarlyHints)
		}
	}},
	{name: "headers without an end", answer: endlessFields("HTTP/1.1 200 OK\r\n")},
	{name: "trailers without an end", answer: endlessFields("HTTP/1.1 200 OK\r\n" +
		"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n")},
}

const protobufType = "application/vnd.kubernetes.protobuf"

// protobufField is a field with a length.
func protobufField(number int, content []byte) []byte {
	field := binary.AppendUvarint(nil, uint64(number)<<3|2)
	return append(binary.AppendUvarint(field, uint64(len(content))), content...)
}

func protobufObject(kind string, raw []byte) []byte {
	types := append(protobufField(1, []byte("v1")), protobufField(2, []byte(kind))...)
	return slices.Concat([]byte("k8s\x00"), protobufField(1, types), protobufField(2, raw))
}

// protobufList is a list of a Service.
func protobufList(service []byte) []byte {
	version := protobufField(1, protobufField(2, []byte("1")))
	return protobufObject("ServiceList", append(version, protobufField(2, service)...))
}

// protobufEvent is a frame of a watch with a Service.
func protobufEvent(service []byte) []byte {
	event := append(protobufField(1, []byte("ADDED")),
		protobufField(2, protobufField(1, protobufObject("Service", service)))...)
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(event))), event...)
}

func sendProtobuf(w *flushed, body []byte) {
	w.Header().Set("Content-Type", protobufType)
	_, _ = w.Write(body)
}

// once answers a list with a body, and keeps a watch open.
func once(
	send func(*flushed, []byte), body []byte,
) func(w *flushed, r *http.Request, watch bool) {
	return func(w *flushed, r *http.Request, watch bool) {
		if watch {
			_ = w.control.Flush()
			<-r.Context().Done()
			return
		}
		send(w, body)
	}
}

// endless answers with a text and then with parts, until the client disconnects.
func endless(begin string, part func(i int) string) func(*flushed, *http.Request, bool) {
	return func(w *flushed, _ *http.Request, _ bool) {
		buffered := bufio.NewWriterSize(w, 64<<10)
		_, err := buffered.WriteString(begin)
		for i := 0; err == nil; i++ {
			_, err = buffered.WriteString(part(i))
		}
	}
}

// endlessFields answers with a text and then with header fields, until the client disconnects.
func endlessFields(begin string) func(*flushed, *http.Request, bool) {
	return func(w *flushed, _ *http.Request, _ bool) {
		conn, buffered, err := w.control.Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		_, err = buffered.WriteString(begin)
		for i := 0; err == nil; i++ {
			_, err = fmt.Fprintf(buffered, "x%x:\r\n", i)
		}
	}
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

// startHostile starts a hostile API server that counts its answers about Services.
func startHostile(t *testing.T, kind hostileKind) (address string, answers *atomic.Int64) {
	t.Helper()
	answers = &atomic.Int64{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		out := &flushed{w, http.NewResponseController(w)}
		watch := r.URL.Query().Get("watch") != ""
		isServices := strings.HasSuffix(r.URL.Path, "/services")
		if isServices {
			answers.Add(1)
		}
		switch {
		case isServices && kind.answer != nil:
			kind.answer(out, r, watch)
		case watch && isServices:
			_ = kind.write(out, r, true)
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
			if kind.write(out, r, false) == nil {
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
	return server.URL, answers
}

type flushed struct {
	http.ResponseWriter
	control *http.ResponseController
}

func (f *flushed) Write(p []byte) (int, error) {
	n, err := f.ResponseWriter.Write(p)
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
	// slowestLatency limits each of them beside hostile clusters, if no other test runs.
	slowestLatency = time.Second
)

// latencies measures the time from the creation of a Service to the first call to the cloud, for
// new Services until isOver returns nil.
func (w *fleetWorld) latencies(isOver func() error) (all []time.Duration) {
	w.t.Helper()
	limit := time.Now().Add(2 * waittest.Limit)
	for i := 0; i < samples || isOver() != nil; i++ {
		if time.Now().After(limit) {
			w.t.Fatal(isOver())
		}
		time.Sleep(samplePause)
		c := w.clusters[i%len(w.clusters)]
		service := c.nextService()
		begun := time.Now()
		c.create(service)
		call, err := c.cloud.WaitForCall(waittest.Context(w.t), fake.CallFilter{
			Method: "EnsureLoadBalancer", Object: c.name + "/" + service.Name,
		}.Matches)
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

// hostilePeak is the replica's maximum memory in MiB with a cluster of each kind.
const hostilePeak = 900

// memoryLimit is the setting of a fleet's manifests: about nine tenths of the memory limit of the
// replica.
var memoryLimit = []string{"GOMEMLIMIT=800MiB"}

const hostilePrefix = "hostile-kind-"

func hostileName(i int) string { return hostilePrefix + strconv.Itoa(i) }

// allExceeded returns an error until each cluster whose kind exceeds the limit was stopped for it.
// The log keeps what the status shows only until the next retry.
func allExceeded(p *replica.Process) error {
	data, err := os.ReadFile(p.Log)
	if err != nil {
		return err
	}
	stopped := map[string]bool{}
	for line := range bytes.Lines(data) {
		var entry struct{ Msg, Cluster, Err string }
		if json.Unmarshal(line, &entry) == nil && entry.Msg == "The cluster is not served" &&
			strings.Contains(entry.Err, "fleet.Limits.ObjectBytes") {
			stopped[entry.Cluster] = true
		}
	}
	for i, kind := range hostileKinds {
		if kind.exceeds && !stopped[hostileName(i)] {
			return fmt.Errorf("the cluster with %s has not exceeded its limit", kind.name)
		}
	}
	return nil
}

func TestFleet_HostileClusters_DoNotDisturbOthers(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newFleetWorld(t, "hostile", 3)
	r := w.start("hostile-a", programs.ccm, 0)
	w.steady(r)
	line := func(situation string, measured []time.Duration, memory string) {
		written := fmt.Sprintf("| %s | %d | %d ms | %d ms | %d MiB |", situation,
			len(measured), measured[len(measured)/2].Milliseconds(),
			measured[len(measured)-1].Milliseconds(), memoryOf(t, r.Process, memory))
		t.Log(written)
		results.addHostile(written)
	}
	before := w.latencies(func() error { return nil })
	line("none is hostile", before, "VmRSS")

	cloud, err := os.ReadFile(w.clusters[0].cloudConfig)
	if err != nil {
		t.Fatal(err)
	}
	for i, kind := range hostileKinds {
		address, answers := startHostile(t, kind)
		path := filepath.Join(w.dir, "hostile.kubeconfig")
		if err := controlplane.WriteKubeconfig(path, &rest.Config{Host: address}); err != nil {
			t.Fatal(err)
		}
		config, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		w.join(hostileName(i), config, cloud)
		waittest.Until(t, "a request reaches the server with "+kind.name,
			func() bool { return answers.Load() > 0 })
	}
	measured := w.latencies(func() error { return allExceeded(r.Process) })
	line(fmt.Sprintf("%d others are hostile", len(hostileKinds)), measured, "VmHWM")
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
	if slowest := measured[len(measured)-1]; all() && slowest > slowestLatency {
		t.Errorf("a Service reaches the cloud after %s, want at most %s", slowest, slowestLatency)
	}
	status, err := r.status(w)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range status.Clusters {
		if !c.Ready && !strings.HasPrefix(c.Name, hostilePrefix) {
			t.Errorf("%s is %+v", c.Name, c)
		}
	}
	for _, c := range w.clusters {
		o := overlapOf(c.cloud.Calls(fake.CallFilter{Mutating: true}.Matches))
		// A replica that gets no processor for as long as a lease lasts loses it.
		if o.calls > 0 || all() && o.terms != 1 {
			t.Errorf("%s had %d terms, which overlapped for %s", c.name, o.terms, o.time)
		}
	}
}
