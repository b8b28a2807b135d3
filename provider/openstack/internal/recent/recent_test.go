package recent_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/recent"
)

func TestRequests_ManyAndRepeated_LastOnesAreKeptOnce(t *testing.T) {
	var requests recent.Requests
	ctx := recent.With(t.Context(), &requests)
	send := func(path, code string) {
		recent.Add(ctx, recent.Request{Method: "GET", Path: path, Code: code})
	}
	recent.Add(t.Context(), recent.Request{Path: "/of/another/object"})
	for i := range 12 {
		send(fmt.Sprint("/", i), "200")
		send("/poll", "200")
	}
	send("/poll", "500")
	var got []string
	for _, r := range requests.List() {
		got = append(got, fmt.Sprintf("%s %s %d", r.Path, r.Code, r.Count))
	}
	if want := []string{
		"/poll 500 1", "/poll 200 12", "/11 200 1", "/10 200 1", "/9 200 1", "/8 200 1",
		"/7 200 1", "/6 200 1", "/5 200 1", "/4 200 1",
	}; !slices.Equal(got, want) {
		t.Errorf("the requests are %q, want %q", got, want)
	}
}
