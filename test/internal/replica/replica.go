//go:build linux

// Package replica runs cloud controller managers as processes, for tests of whole processes: it
// reads their logs, and freezes and kills them.
//
// It needs Linux, because it freezes processes and reads /proc.
package replica

import (
	"bytes"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// A Replica is a cloud controller manager in its own process. Its name is its identity in the
// election, the beginning of the user agent of its requests, and a part of the caller in the
// cloud's record. The name is unique in a test.
type Replica struct {
	*Process
	// Port is the port of /metrics and /statusz, or 0.
	Port int
}

// Caller is the caller of a term's calls in the cloud's record.
func (r *Replica) Caller(term uint64) string { return fake.TermCaller(r.Name, term) }

// These are the Manager's log messages about the phases of a term.
const (
	TermBegins = "Term begins"
	TermReady  = "Term is ready"
	// TermEnds is logged right after the fence has closed, if leadership was lost, with the time of
	// the closing.
	TermEnds    = "Term ends"
	TermDrained = "Term has drained"
	Standby     = "Leadership lost, back to standby"
	Panicked    = "Cloud provider panicked"
)

// An Entry is a line of a replica's log.
type Entry struct {
	At      time.Time
	Message string
	Term    uint64
	// Reason is why a term ends, and Closed when its fence has closed; it is zero if leadership was
	// not lost.
	Reason string
	Closed time.Time
	Err    string
}

// Entries returns the lines with one of the messages; all lines if there are no messages.
func (r *Replica) Entries(messages ...string) ([]Entry, error) {
	data, err := os.ReadFile(r.Log)
	if err != nil {
		return nil, err
	}
	var found []Entry
	for line := range bytes.Lines(data) {
		if !bytes.HasSuffix(line, []byte("\n")) || !bytes.HasPrefix(line, []byte("{")) {
			continue // an incomplete line, or not an entry
		}
		e, err := parseEntry(line)
		if err != nil {
			return nil, fmt.Errorf("the log of %s: %w: %s", r.Name, err, line)
		}
		if len(messages) == 0 || slices.Contains(messages, e.Message) {
			found = append(found, e)
		}
	}
	return found, nil
}

func parseEntry(line []byte) (Entry, error) {
	var raw struct {
		// Millis is klog's time, Time slog's.
		Millis float64   `json:"ts"`
		Time   time.Time `json:"time"`
		Msg    string    `json:"msg"`
		Term   uint64    `json:"term"`
		Reason string    `json:"reason"`
		Closed time.Time `json:"fenceClosed"`
		Err    string    `json:"err"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return Entry{}, err
	}
	if raw.Millis != 0 {
		raw.Time = time.UnixMicro(int64(raw.Millis * 1000))
	}
	return Entry{
		At: raw.Time, Message: raw.Msg, Term: raw.Term, Reason: raw.Reason,
		Closed: raw.Closed, Err: raw.Err,
	}, nil
}

// AwaitEntry waits until the replica has logged the message for the n-th time.
func (r *Replica) AwaitEntry(t testing.TB, n int, message string) Entry {
	t.Helper()
	var found []Entry
	waittest.Until(t, fmt.Sprintf("%s says %q (%d times)", r.Name, message, n), func() error {
		if r.HasExited() {
			return fmt.Errorf("it has ended with code %d", r.ExitCode())
		}
		var err error
		if found, err = r.Entries(message); err == nil && len(found) < n {
			err = fmt.Errorf("it has logged it %d times", len(found))
		}
		return err
	})
	return found[n-1]
}

// Leads returns nil if the replica's last term is ready and has not ended.
func (r *Replica) Leads() error {
	said, err := r.Entries(TermBegins, TermReady, TermEnds)
	switch {
	case err != nil:
		return err
	case len(said) == 0:
		return errors.New("no term of it has begun")
	case said[len(said)-1].Message != TermReady:
		return fmt.Errorf("the last that %s said of its term is %q", r.Name,
			said[len(said)-1].Message)
	}
	return nil
}

// Term is the number of the replica's last term; 0 without one.
func (r *Replica) Term(t testing.TB) uint64 {
	t.Helper()
	begun, err := r.Entries(TermBegins)
	if err != nil {
		t.Fatal(err)
	}
	if len(begun) == 0 {
		return 0
	}
	return begun[len(begun)-1].Term
}

// Get reads from the secure port with the client certificate of admin. The port's own certificate
// is self-signed.
func (r *Replica) Get(admin *rest.Config, path string) (string, error) {
	pair, err := tls.X509KeyPair(admin.CertData, admin.KeyData)
	if err != nil {
		return "", err
	}
	client := &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{
			InsecureSkipVerify: true,
			Certificates:       []tls.Certificate{pair},
		},
		DisableKeepAlives: true,
	}}
	resp, err := client.Get(fmt.Sprintf("https://127.0.0.1:%d%s", r.Port, path))
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
