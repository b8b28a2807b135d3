package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/test/child"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// simulator is a command that runs until the test ends, or is stopped.
type simulator struct {
	stdout, stderr *child.Output
	url            string
	stop           func() (code int)
}

// wantError waits until the text is in the error output.
func (s simulator) wantError(t *testing.T, text string) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("the error output has %q", text), func() error {
		if output := s.stderr.String(); !strings.Contains(output, text) {
			return errors.New(output)
		}
		return nil
	})
}

func startSimulator(t *testing.T, arguments ...string) simulator {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := simulator{stdout: &child.Output{}, stderr: &child.Output{}}
	code := make(chan int, 1)
	go func() { code <- run(ctx, arguments, s.stdout, s.stderr) }()
	s.stop = sync.OnceValue(func() int {
		cancel()
		return <-code
	})
	t.Cleanup(func() { s.stop() })
	s.wantError(t, "serving at ")
	s.url = strings.TrimSuffix(
		regexp.MustCompile(`auth-url = "([^"]+)"`).FindStringSubmatch(s.stdout.String())[1],
		"/identity/v3")
	return s
}

// call sends a request, and decodes the answer into result if it is not nil.
func (s simulator) call(t *testing.T, method, path, body string, result any) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.url+path,
		strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	if result != nil {
		if err := json.Unmarshal(answer, result); err != nil {
			t.Fatalf("%v: %s", err, answer)
		}
	}
	return response.StatusCode
}

func TestRun_ContextEnds_StopsServing(t *testing.T) {
	s := startSimulator(t, "--servers=5", "--networks=2", "--zones=a,b", "--verbose")
	for _, line := range []string{
		"[Global]\n", "username = ", "[Route]\nrouter-id = ",
		"[LoadBalancer]\nfloating-network-id = ", "subnet-id = ",
	} {
		if !strings.Contains(s.stdout.String(), line) {
			t.Errorf("no %q in cloud.conf:\n%s", line, s.stdout.String())
		}
	}
	var servers []struct{ Name, AvailabilityZone string }
	if s.call(t, "GET", "/_sim/servers", "", &servers); len(servers) != 5 ||
		servers[4].Name != "node-5" || servers[3].AvailabilityZone != "b" {
		t.Errorf("the servers are %+v", servers)
	}
	s.call(t, "GET", "/compute/?x=y", "", nil)
	s.wantError(t, "version_list 200 GET /compute/?x=y\n")
	if code := s.stop(); code != exitOK {
		t.Errorf("it ended with %d: %s", code, s.stderr)
	}
}

func TestRun_WithoutAnything(t *testing.T) {
	s := startSimulator(t, "--servers=0", "--networks=0", "--router=false",
		"--auth=application-credential")
	if strings.Contains(s.stdout.String(), "[Route]") ||
		strings.Contains(s.stdout.String(), "[LoadBalancer]") ||
		!strings.Contains(s.stdout.String(), "application-credential-id") {
		t.Errorf("cloud.conf is\n%s", s.stdout.String())
	}
}

func TestRun_InvalidArguments_AreErrors(t *testing.T) {
	for text, arguments := range map[string][]string{
		"unknown flag":         {"--nonsense"},
		"unexpected arguments": {"there"},
		"--auth is":            {"--auth=magic"},
		"--networks is":        {"--networks=1000"},
		"negative":             {"--servers=-1"},
		"--token-life":         {"--token-life=0s"},
	} {
		var stdout, stderr bytes.Buffer
		if code := run(t.Context(), arguments, &stdout, &stderr); code != exitUsage ||
			!strings.Contains(stderr.String(), text) || stdout.Len() > 0 {
			t.Errorf("%v: %d, %s", arguments, code, &stderr)
		}
	}
	var stderr bytes.Buffer
	if code := run(t.Context(), []string{"--listen=256.0.0.1:0"}, io.Discard,
		&stderr); code != exitError || stderr.Len() == 0 {
		t.Errorf("an address that does not exist: %d, %s", code, &stderr)
	}
	if code := run(t.Context(), []string{"--help"}, io.Discard, io.Discard); code != exitOK {
		t.Errorf("--help ends with %d", code)
	}
}
