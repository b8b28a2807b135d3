package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"k8s.io/client-go/rest"
)

// requestMetric is the histogram in which fxccm counts its requests to OpenStack that were
// answered, underwayMetric the gauge of those that are not yet.
const (
	requestMetric  = "fxccm_openstack_request_duration_seconds"
	underwayMetric = "fxccm_openstack_requests_in_flight"
)

// A requestKind is a service, an operation, and its result: a status, or a word without a response.
type requestKind struct{ service, operation, code string }

// A tally is how many requests there were of a kind, and how long they took together.
type tally struct {
	count int
	took  time.Duration
}

func (t tally) mean() time.Duration {
	if t.count == 0 {
		return 0
	}
	return t.took / time.Duration(t.count)
}

// tallies are requests as fxccm has counted them itself: each page of a list, and each time that
// one was made again.
type tallies map[requestKind]tally

// readTallies asks a process that serves its metrics at the address, also for how many requests are
// underway.
func readTallies(
	ctx context.Context, address string, admin *rest.Config,
) (_ tallies, underway int, _ error) {
	body, err := openMetrics(ctx, address, admin)
	if err != nil {
		return nil, 0, fmt.Errorf("read fxccm's count of its requests: %w", err)
	}
	defer func() { _ = body.Close() }()
	return parseTallies(body)
}

func parseTallies(metrics io.Reader) (_ tallies, underway int, _ error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(metrics)
	if err != nil {
		return nil, 0, fmt.Errorf("read fxccm's count of its requests: %w", err)
	}
	for _, series := range families[underwayMetric].GetMetric() {
		underway += int(series.GetGauge().GetValue())
	}
	all := tallies{}
	for _, series := range families[requestMetric].GetMetric() {
		labels := map[string]string{}
		for _, label := range series.GetLabel() {
			labels[label.GetName()] = label.GetValue()
		}
		h, kind := series.GetHistogram(),
			requestKind{labels["service"], labels["operation"], labels["code"]}
		all[kind] = tally{
			count: all[kind].count + int(h.GetSampleCount()),
			took:  all[kind].took + time.Duration(h.GetSampleSum()*float64(time.Second)),
		}
	}
	return all, underway, nil
}

// since are those that were counted after before was.
func (t tallies) since(before tallies) tallies {
	rest := tallies{}
	for kind, now := range t {
		then := before[kind]
		if now.count > then.count {
			rest[kind] = tally{now.count - then.count, now.took - then.took}
		}
	}
	return rest
}

// only are those of some kinds.
func (t tallies) only(matches func(requestKind) bool) tallies {
	some := maps.Clone(t)
	maps.DeleteFunc(some, func(kind requestKind, _ tally) bool { return !matches(kind) })
	return some
}

func (t tallies) sum() (all tally) {
	for _, one := range t {
		all.count, all.took = all.count+one.count, all.took+one.took
	}
	return all
}

// kinds are in the order in which they are shown: the most frequent first.
func (t tallies) kinds() []requestKind {
	return slices.SortedFunc(maps.Keys(t), func(a, b requestKind) int {
		if t[a].count != t[b].count {
			return t[b].count - t[a].count
		}
		return strings.Compare(a.service+" "+a.operation+" "+a.code,
			b.service+" "+b.operation+" "+b.code)
	})
}

// isAnswered tells those that a service has seen, which can be in its log.
func (k requestKind) isAnswered() bool {
	_, err := strconv.Atoi(k.code)
	return err == nil
}

// isWrite tells those that may have changed something. A login does not.
func (k requestKind) isWrite() bool {
	if k.service == identityService {
		return false
	}
	for _, verb := range []string{"_list", "_get", "_status"} {
		if strings.HasSuffix(k.operation, verb) {
			return false
		}
	}
	return true
}
