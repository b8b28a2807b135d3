package project

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// answerLimit is how long a service may take to answer. On a lab an answer took 51 s.
	answerLimit = 2 * time.Minute
	// probeLimit is how long it may take to answer with its versions, which it does in an instant.
	probeLimit = 20 * time.Second
	// logLines is how many of the last lines of its log an error has.
	logLines = 15
)

// logs are the names of the services' logs in a lab.
var logs = map[string]string{
	Identity: "keystone", Compute: "nova-api", Network: "neutron", LoadBalancer: "octavia-api",
}

// silent has, by its type, the error of each service of a lab that answers nothing any more: what
// is left of a run fails at once instead of after a wait for each request.
var silent sync.Map

// silence adds to the error of a request without an answer whether the service answers at all, and
// the end of its log.
func (a *API) silence(ctx context.Context, service, base string, err error) error {
	if !OnLab() || ctx.Err() != nil {
		return err
	}
	if probe(ctx, base) == nil {
		return fmt.Errorf("%w; it answers other requests; the end of its log:\n%s", err,
			logOf(service))
	}
	err = fmt.Errorf("%w; it answers nothing any more; the end of its log:\n%s", err,
		logOf(service))
	silent.Store(service, fmt.Errorf("the lab's %s answers nothing any more", service))
	return err
}

// probe asks a service for its versions.
func probe(ctx context.Context, base string) error {
	address, err := url.Parse(base)
	if err != nil {
		return err
	}
	address.Path = "/"
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return err
	}
	// On a connection of its own.
	client := &http.Client{
		Timeout: probeLimit, Transport: &http.Transport{DisableKeepAlives: true},
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	return response.Body.Close()
}

func logOf(service string) string {
	text, err := os.ReadFile(filepath.Join(os.Getenv(LabVariable), "log", logs[service]+".log"))
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-logLines):], "\n")
}
