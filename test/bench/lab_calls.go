package main

import (
	"cmp"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/common/model"
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

// talliesOf reads them, and how many requests are underway.
func talliesOf(metrics map[string]model.Vector) (_ tallies, underway int) {
	for _, s := range metrics[underwayMetric] {
		underway += int(s.Value)
	}
	all := tallies{}
	add := func(s *model.Sample, one tally) {
		kind := requestKind{
			string(s.Metric["service"]), string(s.Metric["operation"]), string(s.Metric["code"]),
		}
		all[kind] = tally{all[kind].count + one.count, all[kind].took + one.took}
	}
	for _, s := range metrics[requestMetric+"_count"] {
		add(s, tally{count: int(s.Value)})
	}
	for _, s := range metrics[requestMetric+"_sum"] {
		add(s, tally{took: time.Duration(float64(s.Value) * float64(time.Second))})
	}
	return all, underway
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
		return cmp.Or(t[b].count-t[a].count, strings.Compare(a.service+" "+a.operation+" "+a.code,
			b.service+" "+b.operation+" "+b.code))
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
