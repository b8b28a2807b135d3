//go:build linux

package drills_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/freeport"
	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// A fleetWorld is a management cluster and the clusters of a fleet, each with its own cloud. The
// replicas are processes of the example that read the clusters from a directory.
type fleetWorld struct {
	t     *testing.T
	plane *plane
	dir   string
	// name is the name of the namespace with the Leases.
	name     string
	clusters []*world
	replicas []*fleetReplica
}

type fleetReplica struct {
	*replica.Replica
	// management is the proxy to the management cluster.
	management *netfault.Proxy
}

func newFleetWorld(t *testing.T, name string, clusters int) *fleetWorld {
	t.Helper()
	w := &fleetWorld{
		t: t, plane: planes.shared.started(t), dir: replica.LogDir(t), name: name,
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if _, err := w.plane.admin.CoreV1().Namespaces().Create(t.Context(), namespace,
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for i := range clusters {
		c := newWorld(t, w.plane, fmt.Sprintf("%s-%02d", name, i))
		c.load(loadServices, 0, loadPauses)
		_, kubeconfig := c.connect(c.name)
		config, err := os.ReadFile(kubeconfig)
		if err != nil {
			t.Fatal(err)
		}
		cloud, err := os.ReadFile(c.cloudConfig)
		if err != nil {
			t.Fatal(err)
		}
		w.join(c.name, config, cloud)
		w.clusters = append(w.clusters, c)
	}
	return w
}

// join adds a cluster to the directory.
func (w *fleetWorld) join(name string, kubeconfig, cloud []byte) {
	w.t.Helper()
	folder := filepath.Join(w.dir, "clusters", name)
	if err := errors.Join(os.MkdirAll(folder, 0o700),
		os.WriteFile(filepath.Join(folder, "cloud.conf"), cloud, 0o600),
		os.WriteFile(filepath.Join(folder, "kubeconfig"), kubeconfig, 0o600)); err != nil {
		w.t.Fatal(err)
	}
}

// start starts a replica whose clock is ahead by skew. Other replicas see the skew only in the
// times that it writes to Leases.
func (w *fleetWorld) start(name, program string, skew time.Duration) *fleetReplica {
	w.t.Helper()
	handler, release, err := netfault.APIHandler(w.plane.RESTConfig())
	if err != nil {
		w.t.Fatal(err)
	}
	r := &fleetReplica{Replica: &replica.Replica{Port: freeport.ForTest(w.t)}}
	r.management, err = netfault.ListenHTTP(skewed(w.t, skew, handler))
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := r.management.Close(); err != nil {
			w.t.Error(err)
		}
		release()
	})
	kubeconfig := filepath.Join(w.dir, name+".kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, r.management.RESTConfig()); err != nil {
		w.t.Fatal(err)
	}
	r.Process = replica.StartProcess(w.t, w.dir, name, memoryLimit, program, "fleet",
		"--kubeconfig="+kubeconfig, "--namespace="+w.name, "--name="+w.name, "--identity="+name,
		"--clusters=directory", "--clusters-directory="+filepath.Join(w.dir, "clusters"),
		"--clusters-trusted",
		"--cloud-provider=fake", "--configure-cloud-routes=false",
		"--drain-timeout="+drainTimeout.String(), "--logging-format=json",
		"--bind-address=127.0.0.1", "--secure-port="+strconv.Itoa(r.Port))
	w.replicas = append(w.replicas, r)
	return r
}

// skewed shifts the times in writes of Leases.
func skewed(t *testing.T, skew time.Duration, next http.Handler) http.Handler {
	return http.HandlerFunc(func(out http.ResponseWriter, in *http.Request) {
		writes := in.Method == http.MethodPut || in.Method == http.MethodPost
		if skew != 0 && writes && strings.Contains(in.URL.Path, "/leases") {
			body, err := io.ReadAll(in.Body)
			if err == nil {
				body, err = shiftTimes(body, in.Header.Get("Content-Type"), skew)
			}
			if err != nil {
				t.Errorf("shift the times of a Lease: %v", err)
			}
			in.Body, in.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			in.Header.Set("Content-Length", strconv.Itoa(len(body)))
		}
		next.ServeHTTP(out, in)
	})
}

func shiftTimes(body []byte, contentType string, by time.Duration) ([]byte, error) {
	object, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return body, err
	}
	lease, ok := object.(*coordinationv1.Lease)
	info, known := runtime.SerializerInfoForMediaType(scheme.Codecs.SupportedMediaTypes(),
		contentType)
	if !ok || !known {
		return body, fmt.Errorf("a %T in %q", object, contentType)
	}
	for _, at := range []*metav1.MicroTime{lease.Spec.AcquireTime, lease.Spec.RenewTime} {
		if at != nil {
			at.Time = at.Add(by)
		}
	}
	encoder := scheme.Codecs.EncoderForVersion(info.Serializer, coordinationv1.SchemeGroupVersion)
	return runtime.Encode(encoder, lease)
}

// forget removes a replica that has ended.
func (w *fleetWorld) forget(r *fleetReplica) {
	w.replicas = slices.DeleteFunc(w.replicas, func(other *fleetReplica) bool { return other == r })
}

func (r *fleetReplica) status(w *fleetWorld) (status fleet.Status, err error) {
	body, err := r.Get(w.plane.RESTConfig(), "/statusz")
	if err == nil {
		err = json.Unmarshal([]byte(body), &status)
	}
	return status, err
}

// steady waits until the replicas agree, and the preferred replica serves each cluster.
func (w *fleetWorld) steady(replicas ...*fleetReplica) {
	w.t.Helper()
	waittest.Until(w.t, "the preferred replica serves each cluster", func() error {
		if err := w.agree(replicas...); err != nil {
			return err
		}
		for _, c := range w.clusters {
			if err := c.servedSince(time.Now().Add(-time.Second)); err != nil {
				return err
			}
		}
		return nil
	})
}

// servedSince returns nil if the cluster's cloud was called after the moment.
func (w *world) servedSince(at time.Time) error {
	if last, ok := w.last(); !ok || last.Started.Before(at) {
		return fmt.Errorf("%s is not served", w.name)
	}
	return nil
}

func (w *world) last() (fake.Call, bool) {
	calls := w.cloud.Calls(fake.CallFilter{Mutating: true}.Matches)
	if len(calls) == 0 {
		return fake.Call{}, false
	}
	return calls[len(calls)-1], true
}

// A handOver is the cost of an event.
type handOver struct {
	// moved is the number of clusters that another replica serves.
	moved int
	// gaps are the times without a call to the clouds of these clusters, sorted.
	gaps []time.Duration
}

// handOver waits until the event has moved its clusters, and measures the gaps. isOver returns nil
// then.
func (w *fleetWorld) handOver(event func(), isOver func() error) (h handOver) {
	w.t.Helper()
	before := map[*world]fake.Call{}
	for _, c := range w.clusters {
		before[c], _ = c.last()
	}
	event()
	waittest.Until(w.t, "the clusters have moved", isOver)
	for c, last := range before {
		old := ofReplica(last.Caller)
		for _, call := range c.cloud.Calls(fake.CallFilter{Mutating: true}.Matches,
			func(call fake.Call) bool { return call.Seq > last.Seq }) {
			if ofReplica(call.Caller) != old {
				h.moved++
				h.gaps = append(h.gaps, call.Started.Sub(endOf(last)))
				break
			}
			last = call
		}
	}
	slices.Sort(h.gaps)
	return h
}

func ofReplica(caller string) string {
	name, _, _ := strings.Cut(caller, "/")
	return name
}

// noneOf returns nil when other replicas serve all clusters.
func (w *fleetWorld) noneOf(r *fleetReplica, since time.Time) func() error {
	return func() error {
		for _, c := range w.clusters {
			call, _ := c.last()
			if ofReplica(call.Caller) == r.Name || call.Started.Before(since) {
				return fmt.Errorf("%s was last served by %s", c.name, call.Caller)
			}
		}
		return nil
	}
}

// at returns the gap within which a share of the clusters was served again.
func (h handOver) at(share float64) time.Duration {
	if len(h.gaps) == 0 {
		return 0
	}
	return h.gaps[min(len(h.gaps)-1, int(share*float64(len(h.gaps))))]
}

// isByRelease fails the test if a cluster was taken later than a released Lease allows. In CI,
// other tests slow it down, so there the limit is the time of an expiry.
func (h handOver) isByRelease(t *testing.T) {
	t.Helper()
	limit := 10 * time.Second
	if all() {
		limit = time.Second
	}
	if h.at(1) > limit {
		t.Errorf("a hand-over by release took %s, want %s at most", h.at(1), limit)
	}
}

func (h handOver) line(event string, of int) string {
	return fmt.Sprintf("| %s | %d of %d | %.1f s | %.1f s | %.1f s |", event, h.moved, of,
		h.at(0.5).Seconds(), h.at(0.95).Seconds(), h.at(1).Seconds())
}

// fleetSize is how many clusters the drill of a fleet has.
func fleetSize() int {
	if all() {
		return 30
	}
	return 8
}

// The clocks of two of the replicas are an hour wrong, in both directions.
func TestFleet_ReplicasComeFreezeAndDie_NoClusterIsServedTwice(t *testing.T) {
	t.Parallel()
	lane(t)
	w := newFleetWorld(t, "fleet", fleetSize())
	size := len(w.clusters)
	results.addVersions(programs.otherVersion)
	a, b := w.start("fleet-a", programs.ccm, 0), w.start("fleet-b", programs.other, time.Hour)
	w.steady(a, b)

	var c *fleetReplica
	h := w.handOver(func() { c = w.start("fleet-c", programs.ccm, -time.Hour) }, func() error {
		return w.agree(a, b, c)
	})
	results.addFleet(h.line("a third replica comes", size))
	h.isByRelease(t)
	if most := size/3 + size/10 + 1; all() && h.moved > most {
		t.Errorf("%d of %d clusters moved when the third replica came, want at most %d", h.moved,
			size, most)
	}

	begun := time.Now()
	h = w.handOver(func() { w.set(b, netfault.BlackHole()) }, w.noneOf(b, begun))
	results.addFleet(h.line("a replica cannot reach the management cluster", size))
	w.set(b, netfault.Pass())
	w.steady(a, b, c)

	begun = time.Now()
	h = w.handOver(func() { c.Freeze(t) }, w.noneOf(c, begun))
	results.addFleet(h.line("a replica is frozen", size))
	c.Signal(t, syscall.SIGCONT)
	w.steady(a, b, c)

	begun = time.Now()
	h = w.handOver(func() { a.Signal(t, syscall.SIGTERM) }, w.noneOf(a, begun))
	results.addFleet(h.line("a replica is stopped", size))
	h.isByRelease(t)
	if code := a.Wait(t); code != 0 {
		t.Errorf("the stopped replica ended with code %d", code)
	}
	w.forget(a)
	d := w.start("fleet-d", programs.ccm, 0)
	w.steady(b, c, d)

	begun = time.Now()
	h = w.handOver(func() { _ = c.Kill() }, w.noneOf(c, begun))
	results.addFleet(h.line("a replica of three is killed", size))
	w.forget(c)
	w.steady(b, d)

	for _, cluster := range w.clusters {
		calls := cluster.cloud.Calls(fake.CallFilter{Mutating: true}.Matches)
		for _, r := range []*fleetReplica{a, b, c, d} {
			r.nameManagers(t, cluster.name, calls)
		}
		o := overlapOf(calls)
		for i, example := range o.examples {
			if i < 3 {
				t.Error(example)
			}
		}
		if o.terms < 2 {
			t.Logf("%s never moved", cluster.name)
		}
	}
	for _, r := range w.replicas {
		if r.HasExited() {
			t.Errorf("%s has ended with code %d", r.Name, r.ExitCode())
		}
	}
}

// nameManagers adds to the caller of each call of the replica how many Managers of the cluster had
// begun before. The terms of each Manager begin with number 1, so two terms of a replica may have
// the same name, with a term of another replica between them.
func (r *fleetReplica) nameManagers(t *testing.T, cluster string, calls []fake.Call) {
	t.Helper()
	log, err := os.ReadFile(r.Log)
	if err != nil {
		t.Fatal(err)
	}
	var begun []time.Time
	for line := range strings.Lines(string(log)) {
		var entry struct {
			TS           float64
			Msg, Cluster string
			Term         int
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "Term begins" &&
			entry.Cluster == cluster && entry.Term == 1 {
			begun = append(begun, time.UnixMicro(int64(entry.TS*1000)))
		}
	}
	for i, call := range calls {
		if strings.HasPrefix(call.Caller, r.Name+"/") {
			earlier := slices.IndexFunc(begun, call.Started.Before)
			if earlier < 0 {
				earlier = len(begun)
			}
			calls[i].Caller += fmt.Sprintf(" of Manager %d", earlier)
		}
	}
}

// agree returns nil when the replicas agree, and the preferred replica serves each cluster.
func (w *fleetWorld) agree(replicas ...*fleetReplica) error {
	for _, r := range replicas {
		status, err := r.status(w)
		if err != nil {
			return err
		}
		if len(status.Replicas) != len(replicas) {
			return fmt.Errorf("%s sees %d replicas", r.Name, len(status.Replicas))
		}
		for _, c := range status.Clusters {
			if c.Leader != c.Preferred || c.Leader == r.Name && !c.Ready {
				return fmt.Errorf("%s sees %+v", r.Name, c)
			}
		}
	}
	return nil
}

func (w *fleetWorld) set(r *fleetReplica, fault netfault.Fault) {
	w.t.Helper()
	if err := r.management.Set(fault); err != nil {
		w.t.Fatal(err)
	}
}
