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

// calls are requests that have reached OpenStack, as the simulator has recorded them. Each page of
// a list is one, and so are logins, version requests and retries.
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

// writes are those that may change something. A login does not.
func (c calls) writes() calls {
	return c.only(func(call openstacktest.Call) bool {
		return call.Method != http.MethodGet && call.Service != openstacktest.ServiceIdentity
	})
}

// answered are those that got a status.
func (c calls) answered(status int) calls {
	return c.only(func(call openstacktest.Call) bool { return call.Status == status })
}

// busiest is how many there were a second, in the time of a length in which there were the most.
func (c calls) busiest(length time.Duration) float64 {
	most, first := 0, 0
	for i := range c {
		for c[i].Time.Sub(c[first].Time) >= length {
			first++
		}
		most = max(most, i-first+1)
	}
	return float64(most) / length.Seconds()
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
