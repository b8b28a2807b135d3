package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/fxccm/fxccm/ccm/ccmtest"
)

const (
	// orderVariable is the environment variable with the order for a process that runs one check.
	orderVariable = "FXCCM_CONFORMANCE"
	// processLimit ends a process whose check hangs.
	processLimit = 5 * time.Minute
	// outputLimit is how much of the output of a failed check is kept, in bytes.
	outputLimit = 16 << 10
)

// order names the check that a process runs.
type order struct {
	Test, Check, Kubeconfig, Result string
	// Leases are those that existed before the first check.
	Leases []string
}

// ordered returns the order of this process, if it has one.
func ordered(t *testing.T) (order, bool) {
	t.Helper()
	text := os.Getenv(orderVariable)
	if text == "" {
		return order{}, false
	}
	var o order
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		t.Fatalf("conformance: order of the process: %v", err)
	}
	if o.Test != t.Name() {
		t.Skip("conformance: this process runs a check of " + o.Test)
	}
	return o, true
}

// obey runs the ordered check and ends the test.
func (s Suite) obey(t *testing.T, o order) {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // no limit; a check polls
	for _, c := range checks() {
		if c.name != o.Check {
			continue
		}
		result := s.runCheck(t, c, ccmtest.ClusterAt(config), o.Leases)
		data, err := json.Marshal(result)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(o.Result, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.SkipNow() // what follows in the test is for the parent
}

// runCheck runs a check, and stops everything that the check has started.
func (s Suite) runCheck(
	t *testing.T, c check, cluster ccmtest.Cluster, leases []string,
) Result {
	t.Helper()
	result := Result{Check: c.name, Isolation: c.isolation, Outcome: Passed}
	r := &recorder{limit: s.WaitLimit}
	t.Run(c.name, func(t *testing.T) {
		r.TB = t
		x := newTrial(r, s, cluster)
		x.others = leases
		result.Detail = c.run(x)
	})
	skipped, failures := r.seen()
	switch {
	case len(failures) > 0:
		result.Outcome, result.Detail = Failed, strings.Join(failures, "; ")
	case skipped != "":
		result.Outcome, result.Detail = Skipped, skipped
	}
	return result
}

// runProcess runs a check in a process of its own.
func runProcess(t *testing.T, c check, kubeconfig string, leases []string) Result {
	t.Helper()
	path := filepath.Join(t.TempDir(), c.name)
	text, err := json.Marshal(order{t.Name(), c.name, kubeconfig, path, leases})
	if err != nil {
		t.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	// A provider that ends the process leaves its files. The path is short, because files may be
	// sockets.
	files, err := os.MkdirTemp("", "check")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(files) })
	ctx, cancel := context.WithTimeout(t.Context(), processLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "-test.run="+pattern(t.Name()), "-test.count=1",
		"-test.v=true", "-test.timeout="+processLimit.String())
	cmd.Env = append(os.Environ(), orderVariable+"="+string(text), "TMPDIR="+files,
		// A provider with clients of its own must not find the author's cluster.
		clientcmd.RecommendedConfigPathEnvVar+"="+kubeconfig)
	cmd.WaitDelay = 5 * time.Second // a process of the provider may keep the output open
	began := time.Now()
	output, err := cmd.CombinedOutput()
	result := Result{Check: c.name, Isolation: c.isolation, Outcome: Failed}
	if data, readErr := os.ReadFile(path); readErr == nil {
		err = errors.Join(err, json.Unmarshal(data, &result))
	} else {
		result.Detail = fmt.Sprintf("the process ended: %v: %s", errors.Join(ctx.Err(), err),
			lastWords(output))
	}
	result.Duration = time.Since(began)
	if err != nil && result.Outcome != Failed {
		result.Outcome, result.Detail = Failed, fmt.Sprintf("the process failed at its end: %v: %s",
			err, lastWords(output))
	}
	if result.Outcome == Failed {
		result.Output = string(output[max(0, len(output)-outputLimit):])
	}
	return result
}

// pattern selects one test or subtest.
func pattern(name string) string {
	parts := strings.Split(name, "/")
	for i, part := range parts {
		parts[i] = "^" + regexp.QuoteMeta(part) + "$"
	}
	return strings.Join(parts, "/")
}

// lastWords is the reason why a process has died: the line of a panic or of klog.Fatal, or the last
// line.
func lastWords(output []byte) string {
	last := ""
	for line := range strings.Lines(string(output)) {
		line = strings.TrimSpace(line)
		head, _, _ := strings.Cut(line, " ")
		isFatal := len(head) == 5 && head[0] == 'F' && strings.Trim(head[1:], digits) == ""
		if isFatal || head == "panic:" || strings.HasPrefix(line, "fatal error: ") {
			return line
		}
		if line != "" {
			last = line
		}
	}
	return last
}
