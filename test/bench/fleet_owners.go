package main

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An ownerTable is what one more cluster has, by the code that it belongs to.
type ownerTable struct {
	title string
	unit  unit
	lines []ownerLine
}

type ownerLine struct {
	owner string
	value float64
}

// measureOwners reads the profiles of both fleets.
func (r *furtherRun) measureOwners(ctx context.Context) error {
	for _, of := range []struct {
		title, profile string
		unit           unit
		parse          func(io.Reader) (map[string]float64, error)
	}{
		{"Goroutines of one more cluster", "goroutine", perCluster, parseGoroutines},
		{"Go heap of one more cluster", "heap", kibibytes, parseHeap},
	} {
		one, err := r.one.profile(ctx, of.profile, of.parse)
		if err != nil {
			return err
		}
		all, err := r.all.profile(ctx, of.profile, of.parse)
		if err != nil {
			return err
		}
		for owner, value := range one {
			all[owner] -= value
		}
		table := ownerTable{title: of.title, unit: of.unit}
		for _, owner := range slices.Sorted(maps.Keys(all)) {
			table.lines = append(table.lines, ownerLine{owner, all[owner] / r.further()})
		}
		slices.SortStableFunc(table.lines,
			func(a, b ownerLine) int { return cmp.Compare(b.value, a.value) })
		r.bench.results.fleet.owners = append(r.bench.results.fleet.owners, table)
	}
	return nil
}

// profile reads a profile in its text form, after a garbage collection.
func (r *fleetReplica) profile(
	ctx context.Context, name string, parse func(io.Reader) (map[string]float64, error),
) (map[string]float64, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet,
		r.address+"/debug/pprof/"+name+"?debug=1&gc=1", nil)
	if err != nil {
		return nil, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, fmt.Errorf("ask %s for its profile %s: %w", r.name, name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	byOwner, err := parse(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("read the profile %s of %s: %w", name, r.name, err)
	}
	return byOwner, nil
}

// parseGoroutines counts goroutines by the function that they began with.
func parseGoroutines(profile io.Reader) (map[string]float64, error) {
	byOwner := map[string]float64{}
	err := eachRecord(profile, func(head string, functions []string) error {
		number, _, ok := strings.Cut(head, " @")
		n, err := strconv.ParseFloat(number, 64)
		if !ok || err != nil || len(functions) == 0 {
			return nil // the line above the records
		}
		byOwner[shortName(functions[len(functions)-1])] += n
		return nil
	})
	return byOwner, err
}

var heapRecord = regexp.MustCompile(`^(\d+): (\d+) \[\d+: \d+\] @`)

// parseHeap adds up the memory in use, in KiB, by owner. A record is a sample: it stands for as
// much memory as it is unlikely that it was taken.
func parseHeap(profile io.Reader) (map[string]float64, error) {
	byOwner := map[string]float64{}
	rate := 0.0
	err := eachRecord(profile, func(head string, functions []string) error {
		if _, text, ok := strings.Cut(head, "@ heap/"); ok {
			twice, err := strconv.ParseFloat(text, 64)
			rate = twice / 2 // the header has twice the sampling rate
			return err
		}
		match := heapRecord.FindStringSubmatch(head)
		if match == nil {
			return nil
		}
		objects, _ := strconv.ParseFloat(match[1], 64)
		bytes, _ := strconv.ParseFloat(match[2], 64)
		if objects == 0 {
			return nil
		}
		if rate > 1 {
			bytes /= 1 - math.Exp(-bytes/objects/rate)
		}
		byOwner[ownerOf(functions)] += bytes / (1 << 10)
		return nil
	})
	return byOwner, err
}

// eachRecord reads the text form of a profile: records of a head and the functions of a stack, the
// innermost first.
func eachRecord(profile io.Reader, do func(head string, functions []string) error) error {
	lines := bufio.NewScanner(profile)
	lines.Buffer(nil, 1<<20)
	head, functions := "", []string(nil)
	for lines.Scan() {
		text := lines.Text()
		if frame, ok := strings.CutPrefix(text, "#\t0x"); ok {
			fields := strings.Split(frame, "\t")
			if len(fields) > 1 {
				name, _, _ := strings.Cut(fields[1], "+0x")
				functions = append(functions, name)
			}
			continue
		}
		if head != "" {
			if err := do(head, functions); err != nil {
				return err
			}
		}
		head, functions = text, nil
		if strings.HasPrefix(text, "#") { // statistics follow the last record of the heap
			head = ""
		}
	}
	if head != "" {
		if err := do(head, functions); err != nil {
			return err
		}
	}
	return lines.Err()
}

// owners are the owners of memory, by the prefix of a function. The innermost function that has one
// decides; without one it is "other".
var owners = []struct{ prefix, owner string }{
	{"k8s.io/client-go/tools/cache", "informers"},
	{"k8s.io/apimachinery/pkg/watch.(*StreamWatcher)", "informers"},
	{"k8s.io/client-go/util/workqueue", "work queues"},
	{"k8s.io/client-go/tools/record", "event recorders"},
	{"k8s.io/apimachinery/pkg/watch.", "event recorders"},
	{"k8s.io/client-go/tools/leaderelection", "leader election"},
	{"k8s.io/cloud-provider/", "upstream's controllers"},
	{"crypto/", "connections"},
	{"net/http", "connections"},
	{"net.", "connections"},
	{"golang.org/x/net/http2", "connections"},
	{"k8s.io/client-go/", "clients"},
	{"github.com/prometheus/", "metrics"},
	{"k8s.io/component-base/metrics", "metrics"},
	{"github.com/fxccm/fxccm/", "fxccm"},
}

func ownerOf(functions []string) string {
	for _, f := range functions {
		for _, o := range owners {
			if strings.HasPrefix(f, o.prefix) {
				return o.owner
			}
		}
	}
	return "other"
}

// shortName leaves out the path of a function's package, but for its last two elements.
func shortName(function string) string {
	elements := strings.Split(function, "/")
	return strings.Join(elements[max(0, len(elements)-2):], "/")
}
