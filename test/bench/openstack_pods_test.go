package main

import (
	"net/http"
	"testing"
)

func TestMembers_OfAPoolAndSingleOnes_AreAllCounted(t *testing.T) {
	const pool = "/v2/lbaas/pools/5f0b/members"
	counted := calls{
		{Method: http.MethodGet, Path: pool},
		{Method: http.MethodPut, Path: pool, Body: `{"members":[{},{},{}]}`},
		{Method: http.MethodPost, Path: pool, Body: `{"member":{}}`},
		{Method: http.MethodPut, Path: pool + "/6d9c", Body: `{"member":{}}`},
		{Method: http.MethodDelete, Path: pool + "/6d9c"},
		{Method: http.MethodPut, Path: "/v2/lbaas/pools/5f0b"},
	}
	if got, err := counted.members(); err != nil || got != 6 {
		t.Errorf("%d members, %v, want 6", got, err)
	}
	counted = calls{{Method: http.MethodPut, Path: pool, Body: "{"}}
	if _, err := counted.members(); err == nil {
		t.Error("a body that is cut off is counted")
	}
}
