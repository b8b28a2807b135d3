package api

import (
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"testing"
)

// pageOf requests a page of the list of a to e.
func pageOf(service, query string, pageSize int) string {
	r := httptest.NewRequest("GET", "/list?"+query, nil)
	values, _ := url.ParseQuery(query)
	s := &State{URL: "http://cloud", PageSize: pageSize}
	page, links, err := Paginate(&Request{Request: r, State: s, Query: values}, service,
		[]string{"a", "b", "c", "d", "e"}, func(text string) string { return text })
	var refusal *RefusedError
	if errors.As(err, &refusal) {
		return fmt.Sprint(refusal.Status)
	}
	text := fmt.Sprint(page)
	for _, link := range links {
		text += fmt.Sprintf(" %s=%s", link["rel"],
			link["href"].(string)[len("http://cloud/list?"):])
	}
	return text
}

func TestPaginate_EachLimitAndMarker_CutsAPage(t *testing.T) {
	for _, test := range []struct {
		service, query string
		pageSize       int
		want           string
	}{
		{ServiceCompute, "", 0, "[a b c d e]"},
		{ServiceCompute, "", 10, "[a b c d e]"},
		{ServiceCompute, "limit=2", 0, "[a b] next=limit=2&marker=b"},
		{ServiceCompute, "limit=9", 2, "[a b] next=limit=9&marker=b"},
		{ServiceCompute, "x=y", 2, "[a b] next=marker=b&x=y"},
		{ServiceCompute, "limit=2&marker=b", 0, "[c d] next=limit=2&marker=d"},
		{ServiceCompute, "limit=2&marker=d", 0, "[e]"},
		// A full page has a link to a next one, also if that is empty.
		{ServiceCompute, "limit=5", 0, "[a b c d e] next=limit=5&marker=e"},
		{ServiceCompute, "limit=5&marker=e", 0, "[]"},
		{ServiceCompute, "marker=z", 0, "400"},
		{ServiceCompute, "limit=-1", 0, "400"},
		{ServiceCompute, "limit=two", 0, "400"},
		{ServiceNetwork, "limit=2", 0, "[a b] next=limit=2&marker=b"},
		{ServiceNetwork, "limit=2&marker=d", 0, "[e]"},
		// Without a limit Neutron returns all items, and ignores the marker.
		{ServiceNetwork, "", 0, "[a b c d e]"},
		{ServiceNetwork, "marker=b", -1, "[a b c d e]"},
		{ServiceNetwork, "", 5, "[a b c d e] next=marker=e"},
		{ServiceNetwork, "limit=2&marker=e", 0, "[]"},
		{ServiceLoadBalancer, "limit=2", 0, "[a b] next=limit=2&marker=b"},
		{ServiceLoadBalancer, "limit=2&marker=b", 0, "[c d] next=limit=2&marker=d"},
		// Octavia's links omit the filters.
		{ServiceLoadBalancer, "limit=9&project_id=p", 2, "[a b] next=limit=2&marker=b"},
		{ServiceLoadBalancer, "fields=id", 2, "[a b] next=limit=2&marker=b"},
	} {
		if got := pageOf(test.service, test.query, test.pageSize); got != test.want {
			t.Errorf("%s, %q, at most %d:\n%s, want\n%s", test.service, test.query, test.pageSize,
				got, test.want)
		}
	}
}
