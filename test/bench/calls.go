package main

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// calls are requests that have reached OpenStack, as the simulator has recorded them. Each page of a list is one, and so are logins,
// questions for versions, and what is asked again.
type calls []openstacktest.Call

// within are those of the time after the first one.
func (c calls) within(duration time.Duration) calls {
	if len(c) == 0 {
		return nil
	}
	return c.only(func(call openstacktest.Call) bool { return call.Time.Sub(c[0].Time) < duration })
}

// writesOf are those that change a resource, such as "port".
func (c calls) writesOf(resource string) calls {
	return c.only(func(call openstacktest.Call) bool { return isWriteOf(resource, call) })
}

// isWriteOf goes by the operation, <resource>_<verb>.
func isWriteOf(resource string, call openstacktest.Call) bool {
	_, isOf := strings.CutPrefix(call.Operation, resource+"_")
	return isOf && call.Method != http.MethodGet
}

func (c calls) only(matches func(openstacktest.Call) bool) (some calls) {
	for _, call := range c {
		if matches(call) {
			some = append(some, call)
		}
	}
	return some
}

// byOperation is how many there are of each operation, the most frequent first.
func (c calls) byOperation() string {
	counts := map[string]int{}
	for _, call := range c {
		counts[call.Operation]++
	}
	operations := slices.Sorted(maps.Keys(counts))
	slices.SortStableFunc(operations, func(a, b string) int { return counts[b] - counts[a] })
	var texts []string
	for _, operation := range operations {
		texts = append(texts, fmt.Sprintf("%s %d", operation, counts[operation]))
	}
	return strings.Join(texts, ", ")
}
