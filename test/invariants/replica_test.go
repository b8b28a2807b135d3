//go:build linux

package invariants_test

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
)

// leaseTimes are the three periods of a leader election.
type leaseTimes struct{ duration, renew, retry time.Duration }

var (
	// quickLease lets a test wait for leases to expire.
	quickLease = leaseTimes{3 * time.Second, 2 * time.Second, 500 * time.Millisecond}
	// steadyLease is long enough for a machine that is busy with hundreds of objects to renew it in time.
	steadyLease = leaseTimes{8 * time.Second, 6 * time.Second, 500 * time.Millisecond}
	// patientLease leaves time between the end of a term by the clock and the expiry of its lease.
	patientLease = leaseTimes{9 * time.Second, 6 * time.Second, 1100 * time.Millisecond}
	// exactLease is renewed less than once a second: those who wait for a lease compare its renewals to the second (client-go's
	// LeaderElectionRecord), so of two in one second they count the first.
	exactLease = leaseTimes{5 * time.Second, 3 * time.Second, 1100 * time.Millisecond}
	// usualLease is the default.
	usualLease = leaseTimes{15 * time.Second, 10 * time.Second, 2 * time.Second}
)

// A replica is a cloud controller manager in a process of its own. Its name is its identity in the election, so the lease names it; the
// program's name, so the user agent of its requests begins with it; and a part of the caller in the cloud's record. No two of a
// world have the same.
type replica struct {
	*process
	// port is that of /metrics and /statusz; 0 if none are served.
	port int
}

// launch says how a replica is started.
type launch struct {
	name    string
	program string // default: the example
	// kubeconfig is by default that of a direct way to the API server.
	kubeconfig string
	lease      leaseTimes
	serve      bool
	args       []string
}

func (w *world) start(t *testing.T, l launch) *replica {
	t.Helper()
	args := []string{
		"--kubeconfig=" + w.kubeconfig,
		"--cloud-provider=fake",
		"--cloud-config=" + w.cloudConfig,
		"--cluster-name=" + clusterName,
		"--cluster-cidr=" + clusterCIDR,
		"--leader-elect-identity=" + l.name,
		"--leader-elect-lease-duration=" + l.lease.duration.String(),
		"--leader-elect-renew-deadline=" + l.lease.renew.String(),
		"--leader-elect-retry-period=" + l.lease.retry.String(),
		"--route-reconciliation-period=1s",
		"--node-monitor-period=1s",
		"--bind-address=127.0.0.1",
	}
	if l.kubeconfig != "" {
		args[0] = "--kubeconfig=" + l.kubeconfig
	}
	if l.program == "" {
		l.program = programs.ccm
		// Times of the log in microseconds, and one line an entry.
		args = append(args, "--logging-format=json")
	}
	r := &replica{}
	if l.serve {
		r.port = freePort(t)
	}
	args = append(args, "--secure-port="+strconv.Itoa(r.port))
	r.process = startProcess(t, w.dir, l.name, l.program, append(args, l.args...))
	w.mu.Lock()
	defer w.mu.Unlock()
	w.replicas = append(w.replicas, r)
	return r
}

func freePort(t *testing.T) int {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = listener.Close() }()
	return listener.Addr().(*net.TCPAddr).Port
}

// caller is how the cloud records the calls of a term.
func (r *replica) caller(term uint64) string { return fake.TermCaller(r.name, term) }

// What the Manager says at the turning points of a term.
const (
	termBegins = "Term begins"
	termReady  = "Term is ready"
	// termEnds is said right after the fence has closed, if leadership was lost, and tells when that was.
	termEnds    = "Term ends"
	termDrained = "Term has drained"
	standby     = "Leadership lost, back to standby"
	panicked    = "Cloud provider panicked"
)

// An entry is a line of a replica's log.
type entry struct {
	at      time.Time
	message string
	term    uint64
	// reason is why a term ends, closed when its fence has closed.
	reason string
	closed time.Time
}

// entries returns the lines with one of the messages.
func (r *replica) entries(messages ...string) ([]entry, error) {
	data, err := os.ReadFile(r.log)
	if err != nil {
		return nil, err
	}
	var found []entry
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) || !bytes.HasPrefix(line, []byte("{")) {
			continue // it is just being written, or no entry
		}
		e, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("the log of %s: %w: %s", r.name, err, line)
		}
		if slices.Contains(messages, e.message) {
			found = append(found, e)
		}
	}
	return found, nil
}

func parseEntry(line []byte) (entry, error) {
	var raw struct {
		// Millis is klog's time, Time slog's.
		Millis float64   `json:"ts"`
		Time   time.Time `json:"time"`
		Msg    string    `json:"msg"`
		Term   uint64    `json:"term"`
		Reason string    `json:"reason"`
		Closed time.Time `json:"fenceClosed"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return entry{}, err
	}
	if raw.Millis != 0 {
		raw.Time = time.UnixMicro(int64(raw.Millis * 1000))
	}
	return entry{at: raw.Time, message: raw.Msg, term: raw.Term, reason: raw.Reason, closed: raw.Closed}, nil
}

// awaitEntry waits until the replica has said one of the messages for the n-th time.
func (r *replica) awaitEntry(t *testing.T, n int, message string) entry {
	t.Helper()
	var found []entry
	eventually(t, fmt.Sprintf("%s says %q (%d times)", r.name, message, n), func() error {
		if !r.running() {
			return fmt.Errorf("it has ended with code %d", r.code)
		}
		var err error
		if found, err = r.entries(message); err == nil && len(found) < n {
			err = fmt.Errorf("it has said so %d times", len(found))
		}
		return err
	})
	return found[n-1]
}

// leads is nil when the replica's last term is ready and has not ended.
func (r *replica) leads() error {
	said, err := r.entries(termBegins, termReady, termEnds)
	switch {
	case err != nil:
		return err
	case len(said) == 0:
		return errors.New("no term of it has begun")
	case said[len(said)-1].message != termReady:
		return fmt.Errorf("the last that %s said of its term is %q", r.name, said[len(said)-1].message)
	}
	return nil
}

// term is the number of the replica's last term; 0 if there was none.
func (r *replica) term(t *testing.T) uint64 {
	t.Helper()
	begun, err := r.entries(termBegins)
	if err != nil {
		t.Fatal(err)
	}
	if len(begun) == 0 {
		return 0
	}
	return begun[len(begun)-1].term
}

// get asks the secure port as administrator. Its certificate is one that the replica has made for itself.
func (r *replica) get(w *world, path string) (string, error) {
	admin := w.cp.RESTConfig()
	pair, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		return "", err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig:   &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{pair}},
		DisableKeepAlives: true,
	}}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", r.port, path))
	if err != nil {
		return "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s is answered with %s: %s", path, resp.Status, body)
	}
	return string(body), err
}

var goroutinesMetric = regexp.MustCompile(`(?m)^go_goroutines (\d+)$`)

// footprint is what a process leaves behind when it leaks.
type footprint struct{ goroutines, files int }

func (r *replica) footprint(w *world) (f footprint, err error) {
	body, err := r.get(w, "/metrics")
	if err != nil {
		return f, err
	}
	match := goroutinesMetric.FindStringSubmatch(body)
	if match == nil {
		return f, errors.New("/metrics does not tell go_goroutines")
	}
	if f.goroutines, err = strconv.Atoi(match[1]); err != nil {
		return f, err
	}
	f.files, err = r.openFiles()
	return f, err
}
