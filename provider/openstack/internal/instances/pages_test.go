package instances

import (
	"context"
	"errors"
	"net/url"
	"slices"
	"testing"
)

// book answers with pages by their markers, and fails the test if it is read without end.
func book(t *testing.T, pages map[string]page[string]) func(context.Context, url.Values) (page[string], error) {
	reads := 0
	return func(_ context.Context, query url.Values) (page[string], error) {
		if reads++; reads > 10 {
			t.Fatal("the list is read without end")
		}
		if query.Get("name") != "n" {
			t.Errorf("query %v lacks the filter", query)
		}
		p, ok := pages[query.Get("marker")]
		if !ok {
			return page[string]{}, errors.New("no such page")
		}
		return p, nil
	}
}

func of(next string, items ...string) page[string] {
	p := page[string]{items: &items, links: []link{{"previous", "http://x/?marker=z"}}}
	if items == nil {
		p.items = &[]string{}
	}
	if next != "" {
		p.links = append(p.links, link{"next", "http://internal:8774/v2.1/servers?name=n&marker=" + next})
	}
	return p
}

func TestAllPages(t *testing.T) {
	for _, c := range []struct {
		name  string
		pages map[string]page[string]
		want  []string
		fails bool
	}{
		{"one page", map[string]page[string]{"": of("", "a", "b")}, []string{"a", "b"}, false},
		{"empty", map[string]page[string]{"": of("")}, nil, false},
		{"two", map[string]page[string]{"": of("b", "a", "b"), "b": of("", "c")}, []string{"a", "b", "c"}, false},
		{"an empty page ends it", map[string]page[string]{"": of("b", "a", "b"), "b": of("b")}, []string{"a", "b"}, false},
		{"a page that repeats ends it", map[string]page[string]{"": of("b", "a", "b"), "b": of("b", "a", "b")}, []string{"a", "b"}, false},
		{"pages that overlap, as when servers come and go", map[string]page[string]{"": of("b", "a", "b"), "b": of("", "b", "c")}, []string{"a", "b", "c"}, false},
		{"a later page fails", map[string]page[string]{"": of("b", "a")}, nil, true},
		{"no list at all", map[string]page[string]{"": {}}, nil, true},
		{"an item without an id", map[string]page[string]{"": of("", "a", "")}, nil, true},
		{"a link that is none", map[string]page[string]{"": {items: &[]string{"a"}, links: []link{{"next", "://"}}}}, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := allPages(t.Context(), url.Values{"name": {"n"}}, book(t, c.pages), func(s string) string { return s })
			if !slices.Equal(got, c.want) || (err != nil) != c.fails {
				t.Errorf("got %q, %v; want %q, an error: %t", got, err, c.want, c.fails)
			}
		})
	}
}
