//go:build linux

package invariants_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/fxccm/fxccm/test/internal/replica"
)

// A patient is a replica that must survive a failure of the API server.
type patient struct {
	*world
	replica *replica.Replica
	healthy replica.Footprint
}

// newPatient starts a replica, lets it do some work, and measures it at rest.
func newPatient(t *testing.T, w *world, kubeconfig string) *patient {
	t.Helper()
	w.cloud.SetLatency(100 * time.Millisecond)
	// Addresses that could not be written are written at the next refresh of all nodes, by default
	// after five minutes.
	r := w.start(t, launch{
		name: "replica-a", lease: usualLease, kubeconfig: kubeconfig, serve: true,
		args: []string{"--node-status-update-frequency=5s"},
	})
	w.awaitLeader(t)
	w.addWork(t, patientNodes, patientServices)
	w.awaitConvergence(t)
	return &patient{world: w, replica: r, healthy: w.atRest(t, r)}
}

// atRest returns the lowest footprint of the replica during a period in which idle connections are
// closed, because the replica is busy now and then.
func (w *world) atRest(t *testing.T, r *replica.Replica) replica.Footprint {
	t.Helper()
	var least replica.Footprint
	for end := time.Now().Add(resting); time.Now().Before(end); time.Sleep(resting / 20) {
		now, err := r.Footprint(w.cp.RESTConfig())
		if err != nil {
			t.Fatal(err)
		}
		if least == (replica.Footprint{}) {
			least = now
		}
		least = replica.Footprint{
			Goroutines: min(least.Goroutines, now.Goroutines),
			Files:      min(least.Files, now.Files),
		}
	}
	return least
}

const (
	patientNodes    = 30
	patientServices = 30

	// resting is longer than the idle timeout of the cloud and the API server.
	resting = 6 * time.Second

	// tolerance is the allowed difference of a replica.Footprint at rest: idle connections, and the
	// goroutines that serve them. Each failure causes at least a hundred failed requests.
	tolerance = 16
)

// wantRecovered waits until all work is done and the process has its previous footprint.
func (p *patient) wantRecovered(t *testing.T) {
	t.Helper()
	p.awaitConvergence(t)
	var now replica.Footprint
	replica.Eventually(t, "the replica has its previous footprint", func() error {
		now = p.atRest(t, p.replica)
		if now.Goroutines > p.healthy.Goroutines+tolerance ||
			now.Files > p.healthy.Files+tolerance {
			return fmt.Errorf("it has %+v, before the trouble it had %+v", now, p.healthy)
		}
		return nil
	})
	t.Logf("at rest before the trouble %+v, after it %+v; term %d", p.healthy, now,
		p.replica.Term(t))
	if p.replica.HasExited() {
		t.Errorf("the process has ended with code %d", p.replica.ExitCode())
	}
	p.wantNothingMadeTwice(t)
	p.wantOneTermAtATime(t)
}

// stormLasts is several times as long as the work takes without a storm.
const stormLasts = 9 * time.Second

func TestStormOfErrors_NoWorkIsLostAndNothingLeaks(t *testing.T) {
	w := newWorld(t, shortLane)
	proxy := w.startAPIProxy(t, "replica-a")
	p := newPatient(t, w, proxy.kubeconfig)
	s := newStorm()
	proxy.set(s.treat)
	begun := time.Now()
	for range 3 {
		w.addWork(t, patientNodes/3, patientServices/3)
		time.Sleep(stormLasts / 3)
	}
	time.Sleep(time.Until(begun.Add(stormLasts)))
	proxy.set(nil)
	t.Logf("answers of the proxy: %v", s.counts())
	for _, code := range s.codes {
		if s.counts()[code] == 0 {
			t.Errorf("no request was answered with %d", code)
		}
	}
	p.wantRecovered(t)
}

// A storm answers two of five requests with an error, half of these with Retry-After, and every
// third after the request has taken effect.
type storm struct {
	codes []int

	mu       sync.Mutex
	rand     *rand.Rand
	answered map[int]int
}

func newStorm() *storm {
	return &storm{
		codes: []int{
			http.StatusInternalServerError, http.StatusServiceUnavailable,
			http.StatusTooManyRequests,
		},
		rand:     rand.New(rand.NewPCG(1, 2)),
		answered: map[int]int{},
	}
}

func (s *storm) treat(*http.Request) verdict {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rand.IntN(5) >= 2 {
		return verdict{}
	}
	v := verdict{status: s.codes[s.rand.IntN(len(s.codes))], header: http.Header{}}
	if s.rand.IntN(2) == 0 {
		v.header.Set("Retry-After", "1")
	}
	// A request that gets 429 has no effect.
	v.afterEffect = v.status != http.StatusTooManyRequests && s.rand.IntN(3) == 0
	s.answered[v.status]++
	return v
}

func (s *storm) counts() map[int]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[int]int{}
	for code, n := range s.answered {
		counts[code] = n
	}
	return counts
}
