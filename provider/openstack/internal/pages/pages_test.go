package pages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fxccm/fxccm/internal/pagedlist"
)

type thing struct {
	ID string `json:"id"`
}

func id(t *thing) string { return t.ID }

// from returns one body after the other, and records the queries.
func from(asked *[]string, bodies ...string) Reader {
	return func(_ context.Context, query url.Values) (map[string]json.RawMessage, error) {
		*asked = append(*asked, query.Encode())
		if len(*asked) > len(bodies) {
			return nil, errors.New("too many pages were requested")
		}
		var body map[string]json.RawMessage
		return body, json.Unmarshal([]byte(bodies[len(*asked)-1]), &body)
	}
}

func TestAll_ReadsToTheEnd_WithItsOwnFilters(t *testing.T) {
	var asked []string
	query := url.Values{"project_id": {"p"}}
	got, err := All(t.Context(), "things", query, id, from(&asked,
		`{"things": [{"id": "a"}, {"id": "b"}], "things_links": [{"rel": "previous", "href": "x"}, {"rel": "next", "href": "http://elsewhere/?marker=b&project_id=all"}]}`,
		`{"things": [{"id": "b"}, {"id": "c"}], "things_links": []}`))
	if want := []thing{{"a"}, {"b"}, {"c"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("the items are %v, %v; want %v", got, err, want)
	}
	if want := []string{"project_id=p", "marker=b&project_id=p"}; !slices.Equal(asked, want) ||
		query.Has("marker") {
		t.Errorf("the queries are %q, want %q, and the caller's query is %v", asked, want, query)
	}
	asked = nil
	if got, err := All(t.Context(), "things", nil, id,
		from(&asked, `{"things": []}`)); err != nil || len(got) > 0 {
		t.Errorf("an empty list is %v, %v", got, err)
	}
}

func TestAll_WhatIsNoList_IsAnError(t *testing.T) {
	for body, want := range map[string]string{
		`{}`:                          "",
		`{"things": null}`:            "",
		`{"things": {"id": "a"}}`:     "",
		`{"things": [{"name": "a"}]}`: "no id",
		`{"things": [{"id": "a"}], "things_links": "none"}`:                           "links",
		`{"things": [{"id": "a"}], "things_links": [{"rel": "next"}]}`:                "no marker",
		`{"things": [{"id": "a"}], "things_links": [{"rel":"next","href":"\u007f"}]}`: "link",
	} {
		var asked []string
		if got, err := All(t.Context(), "things", nil, id, from(&asked, body)); !errors.Is(err,
			ErrNoAnswer) || !strings.Contains(err.Error(), want) || got != nil {
			t.Errorf("%s: %v, %v; want an error with %q", body, got, err, want)
		}
	}
	var asked []string
	again := `{"things": [{"id": "a"}], "things_links": [{"rel": "next", "href": "?marker=a"}]}`
	if _, err := All(t.Context(), "things", nil, id,
		from(&asked, again, again, again)); !errors.Is(err, ErrNoAnswer) || len(asked) != 2 {
		t.Errorf("a list without end: %v after %d pages", err, len(asked))
	}
	for _, before := range [][]string{nil, {again}} {
		asked = nil
		if got, err := All(t.Context(), "things", nil, id, from(&asked, before...)); err == nil ||
			errors.Is(err, ErrNoAnswer) || got != nil {
			t.Errorf("a request that fails after %d pages: %v, %v", len(before), got, err)
		}
	}
}

func TestAllBy_AsksForAsManyAsAURLHolds_AndLosesNothing(t *testing.T) {
	values := []string{strings.Repeat("x", 3000), "ü/&="}
	for i := range 500 {
		values = append(values, fmt.Sprintf("00000000-0000-4000-8000-%012d", i))
	}
	var got []string
	requests := 0
	// Each part has two pages.
	all, err := AllBy(t.Context(), "things", "device_id", values, url.Values{"fields": {"id"}}, id,
		func(_ context.Context, query url.Values) (map[string]json.RawMessage, error) {
			requests++
			some := query["device_id"]
			if text := query.Encode(); len(text) > 2000 && len(some) > 1 ||
				query.Get("fields") != "id" {
				t.Errorf("the query for %d values is of %d bytes: %s", len(some), len(text), text)
			}
			if query.Has("marker") {
				return map[string]json.RawMessage{"things": json.RawMessage(`[]`)}, nil
			}
			got = append(got, some...)
			return map[string]json.RawMessage{
				"things":       json.RawMessage(fmt.Sprintf(`[{"id": %q}]`, some[0])),
				"things_links": json.RawMessage(`[{"rel": "next", "href": "?marker=a"}]`),
			}, nil
		})
	if err != nil || !slices.Equal(got, values) || len(all) != requests/2 {
		t.Errorf("%d requests asked for %d values, want %d, and have found %d, %v", requests,
			len(got), len(values), len(all), err)
	}
	if requests > 2*16 {
		t.Errorf("%d values take %d requests", len(values), requests)
	}
	all, err = AllBy(t.Context(), "things", "device_id", nil, nil, id, from(new([]string)))
	if err != nil || len(all) > 0 {
		t.Errorf("without values the items are %v, %v", all, err)
	}
	all, err = AllBy(t.Context(), "things", "device_id", values, nil, id,
		from(new([]string), `{"things": [{"id": "a"}]}`))
	if err == nil || all != nil {
		t.Errorf("for one part the items are %v, %v", all, err)
	}
}

// A transport can limit what a server sends as one list.
func TestAll_Pages_AreOfOneListForTheTransport(t *testing.T) {
	var lists []*atomic.Int64
	pagesOf := map[string]int{}
	read := func(ctx context.Context, query url.Values) (map[string]json.RawMessage, error) {
		list := pagedlist.Of(ctx)
		if list == nil {
			t.Fatal("the request is of no list")
		}
		if !slices.Contains(lists, list) {
			lists = append(lists, list)
		}
		key := query.Get("device_id")
		pagesOf[key]++
		body := map[string]json.RawMessage{
			"things": json.RawMessage(fmt.Sprintf(`[{"id": "%s-%d"}]`, key, pagesOf[key])),
		}
		if pagesOf[key] < 3 {
			body["things_links"] = json.RawMessage(`[{"rel": "next", "href": "?marker=a"}]`)
		}
		return body, nil
	}
	for want, list := range []func() ([]thing, error){
		func() ([]thing, error) { return All(t.Context(), "things", nil, id, read) },
		func() ([]thing, error) {
			return AllBy(t.Context(), "things", "device_id",
				[]string{strings.Repeat("a", 2000), strings.Repeat("b", 2000)}, nil, id, read)
		},
	} {
		if found, err := list(); err != nil || len(found) < 3 || len(lists) != want+1 {
			t.Errorf("%d items, %v, of %d lists, want %d", len(found), err, len(lists), want+1)
		}
	}
}
