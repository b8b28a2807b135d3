package main

import (
	"cmp"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/google/pprof/profile"
)

// measureGoroutines shows with what functions the goroutines of one more cluster began.
func (r *furtherRun) measureGoroutines() {
	r.addOwners("Goroutines of one more cluster", perCluster, "goroutine", firstFunction, 1)
}

// measureHeap shows what owns the memory of one more cluster.
func (r *furtherRun) measureHeap(when string) {
	r.addOwners("Go heap of one more cluster, "+when, kibibytes, "heap", ownerOf, 1<<10)
}

// addOwners reads the profiles of both fleets: what one more cluster has, by the code that it
// belongs to. scale is from the values of the profile to the unit.
func (r *furtherRun) addOwners(
	title string, u unit, profile string, owner func(functions []string) string, scale float64,
) {
	one, all := r.profile(r.one, profile, owner), r.profile(r.all, profile, owner)
	r.results.fleet.owners = append(r.results.fleet.owners,
		ownerTable(title, u, all.minus(one).over(r.further()*scale)))
}

// ownerTable has the owners of most first, without those that one more cluster does not add to.
func ownerTable(title string, u unit, values amounts) table {
	t := table{header: []string{title, ""}}
	owners := slices.Sorted(maps.Keys(values))
	slices.SortStableFunc(owners,
		func(a, b string) int { return cmp.Compare(values[b], values[a]) })
	for _, owner := range owners {
		if values[owner] >= 0.05 {
			t.lines = append(t.lines, []string{
				strings.ReplaceAll(owner, "|", `\|`), sample{value: values[owner]}.text(u),
			})
		}
	}
	return t
}

// profile reads a profile of a process after a garbage collection, by owner.
func (t *trial) profile(p *process, name string, owner func([]string) string) amounts {
	body, err := t.get(p, "/debug/pprof/"+name+"?gc=1")
	t.Check(err)
	defer func() { _ = body.Close() }()
	byOwner, err := parseProfile(body, owner)
	t.Check(err)
	return byOwner
}

// parseProfile adds up the last value of each sample: the number of goroutines, or the memory in
// use. owner gets the functions of a stack, the innermost first.
func parseProfile(text io.Reader, owner func(functions []string) string) (amounts, error) {
	p, err := profile.Parse(text)
	if err != nil {
		return nil, err
	}
	byOwner := amounts{}
	for _, s := range p.Sample {
		var functions []string
		for _, location := range s.Location {
			for _, line := range location.Line {
				functions = append(functions, line.Function.Name)
			}
		}
		if len(functions) > 0 {
			byOwner[owner(functions)] += float64(s.Value[len(s.Value)-1])
		}
	}
	return byOwner, nil
}

var typeArguments = regexp.MustCompile(`\[.*\]`)

// firstFunction is the function that a goroutine began with, without type arguments, and without
// the path of its package, but for the last two elements.
func firstFunction(functions []string) string {
	name := typeArguments.ReplaceAllString(functions[len(functions)-1], "[...]")
	elements := strings.Split(name, "/")
	return strings.Join(elements[max(0, len(elements)-2):], "/")
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
