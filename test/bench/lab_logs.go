package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// The services, by their types in Keystone's catalog.
const (
	identityService = "identity"
	computeService  = "compute"
	networkService  = "network"
	balancerService = "load-balancer"
)

// A serviceLog is where a service of the lab notes each request that it has answered.
type serviceLog struct {
	service, file string
	// of tells whether a line is a request of the project's user. Neutron and Nova note the
	// project. uWSGI, which serves Keystone and Octavia, does not: its logs count the requests of
	// all clients except the benchmark.
	of func(line, project string) bool
}

func serviceLogs() []serviceLog {
	return []serviceLog{
		{identityService, "keystone.log", func(line, _ string) bool {
			// Services have the tokens of others checked by GET.
			method, path, ok := uwsgiRequest(line)
			return ok && method == "POST" && strings.HasSuffix(path, "/auth/tokens")
		}},
		{computeService, "nova-api.log", isEventletRequestOf},
		{networkService, "neutron.log", isEventletRequestOf},
		{balancerService, "octavia-api.log", func(line, _ string) bool {
			_, path, ok := uwsgiRequest(line)
			return ok && !strings.HasSuffix(path, looksPath) && !strings.HasSuffix(path, poolsPath)
		}},
	}
}

// uwsgiLine is uWSGI's own format: "[pid: 1|...] 127.0.0.1 () {...} [Sat Nov 21 20:43:24 2026] GET
// /path => generated 36 bytes in 10 msecs ...".
var uwsgiLine = regexp.MustCompile(`^\[pid: .*\] ([A-Z]+) (\S+) => generated `)

func uwsgiRequest(line string) (method, path string, ok bool) {
	found := uwsgiLine.FindStringSubmatch(line)
	if found == nil {
		return "", "", false
	}
	return found[1], found[2], true
}

// eventletLine is that of oslo.log with a request of Eventlet's server in it: "... INFO
// neutron.wsgi [None req-<id> <user> <project> ...] 127.0.0.1 "GET /path HTTP/1.1" status: 200
// ...".
var eventletLine = regexp.MustCompile(
	`wsgi(?:\.server)? \[\S+ req-\S+ \S+ (\S+) [^]]*\] \S+ "[A-Z]+ \S+ HTTP/1\.[01]" status: `)

func isEventletRequestOf(line, project string) bool {
	found := eventletLine.FindStringSubmatch(line)
	return found != nil && found[1] == project
}

// logMark is how long each log was at a moment, by its file.
type logMark map[string]int64

// markLogs notes how long the logs in a folder are.
func markLogs(folder string) (logMark, error) {
	mark := logMark{}
	for _, l := range serviceLogs() {
		info, err := os.Stat(filepath.Join(folder, l.file))
		if err != nil {
			return nil, fmt.Errorf("look at the services' logs: %w", err)
		}
		mark[l.file] = info.Size()
	}
	return mark, nil
}

// countLogged counts, by service, the requests of a project's user that were noted after the mark.
func countLogged(folder string, mark logMark, project string) (map[string]int, error) {
	counts := map[string]int{}
	for _, l := range serviceLogs() {
		n, err := l.count(filepath.Join(folder, l.file), mark[l.file], project)
		if err != nil {
			return nil, fmt.Errorf("count in the services' logs: %w", err)
		}
		counts[l.service] = n
	}
	return counts, nil
}

func (l serviceLog) count(path string, from int64, project string) (n int, err error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return 0, err
	}
	for reader := bufio.NewReader(file); ; {
		line, err := reader.ReadString('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
		if l.of(line, project) {
			n++
		}
		if err != nil {
			return n, nil
		}
	}
}
