package octavia

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func (w *world) list(maxAge time.Duration) *Snapshot {
	w.t.Helper()
	snapshot, err := w.LoadBalancers(within(w.t), maxAge)
	if err != nil {
		w.t.Fatal(err)
	}
	return snapshot
}

func TestLoadBalancers_AreAllOfTheProject_WhateverThePages(t *testing.T) {
	w := newWorld(t)
	stranger := w.cloud.AddProject(openstacktest.Project{Name: "stranger"})
	want := map[string]bool{}
	for n := range 20 {
		want[w.add(fmt.Sprintf("lb-%d", n), 0, 0)] = true
		w.cloud.AddLoadBalancer(openstacktest.LoadBalancer{
			OctaviaResource: openstacktest.OctaviaResource{
				Name:      "other",
				ProjectID: stranger.ProjectID,
			}, VIPSubnetID: w.subnet,
		})
	}
	// An administrator sees the load balancers of all projects, even with a link to the next page.
	c := w.cloud.AddProject(openstacktest.Project{Name: "admin", Admin: true})
	a := w.open(c)
	a.config.Project = func(context.Context) (string, error) {
		return w.cloud.Credentials().ProjectID, nil
	}
	for _, size := range []int{0, 3} {
		w.cloud.SetPageSize(size)
		for _, api := range []*API{w.API, a} {
			snapshot, err := api.LoadBalancers(within(t), 0)
			if err != nil {
				t.Fatalf("pages of %d: %v", size, err)
			}
			got := map[string]bool{}
			for _, lb := range snapshot.All() {
				got[lb.ID] = true
			}
			if len(got) != 20 || len(snapshot.All()) != 20 {
				t.Errorf("pages of %d: %d load balancers, want 20", size, len(snapshot.All()))
			}
			for id := range want {
				if _, ok := snapshot.ByID(id); !ok || !got[id] {
					t.Errorf("pages of %d: %s is missing", size, id)
				}
			}
		}
	}
}

func TestLoadBalancers_MaxAge(t *testing.T) {
	w := newWorld(t)
	w.add("lb", 0, 0)
	first := w.list(time.Minute)
	if !first.Begun.Equal(w.clock.Now()) {
		t.Errorf("begun at %v, want %v", first.Begun, w.clock.Now())
	}
	w.clock.Step(59 * time.Second)
	if w.list(time.Minute) != first {
		t.Error("a list below the maximum age is read again")
	}
	w.calls(map[string]int{"loadbalancer_list": 1})
	w.clock.Step(time.Second)
	second := w.list(time.Minute)
	if second == first || w.list(time.Hour) != second {
		t.Error("the last list is not the newest")
	}
	w.calls(map[string]int{"loadbalancer_list": 2})
	// This holds even if the clock stands still.
	if w.list(0) == second {
		t.Error("a list from before the call is returned as a new one")
	}
	w.calls(map[string]int{"loadbalancer_list": 3})
}

func TestLoadBalancers_ConcurrentCalls_ShareAList(t *testing.T) {
	w := newWorld(t)
	w.add("lb", 0, 0)
	open := w.gate.close()
	done := make(chan error, 51)
	ask := func(maxAge time.Duration) {
		snapshot, err := w.LoadBalancers(t.Context(), maxAge)
		if err == nil && len(snapshot.All()) != 1 {
			err = errors.New("the list does not have exactly one load balancer")
		}
		done <- err
	}
	go ask(0)
	w.called("loadbalancer_list")
	for n := range 50 {
		go ask(time.Duration(n % 2))
	}
	open()
	for range 51 {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	// The scheduler decides how many calls are concurrent.
	if lists := w.cloud.Counts()["loadbalancer_list"]; lists > 10 {
		t.Errorf("%d lists for 51 calls", lists)
	}
}

func TestLoadBalancers_BadAnswers_AreErrors(t *testing.T) {
	for name, answer := range map[string]func([]byte) (int, []byte){
		"no status": func(body []byte) (int, []byte) {
			return 200, without(body, "provisioning_status")
		},
		"a bad time": func(body []byte) (int, []byte) {
			return 200, []byte(strings.ReplaceAll(string(body), "2030-01-02T", "soon"))
		},
		"not found": func([]byte) (int, []byte) {
			return 404, []byte(`{"faultstring": "not found"}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, openstacktest.WithPageSize(2))
			for n := range 3 {
				w.add(fmt.Sprintf("lb-%d", n), 0, 0)
			}
			w.rewrite("loadbalancer_list", answer)
			if snapshot, err := w.LoadBalancers(within(t), 0); err == nil || snapshot != nil {
				t.Errorf("%v, %v; want an error", snapshot, err)
			}
			// A failure is not cached.
			w.cloud.RemoveFaults()
			if n := len(w.list(time.Hour).All()); n != 3 {
				t.Errorf("afterwards there are %d load balancers, want 3", n)
			}
		})
	}
}

func TestLoadBalancers_AskForLargePagesAndFewFields(t *testing.T) {
	w := newWorld(t)
	w.add("lb", 1, 1)
	w.list(0)
	query, err := url.ParseQuery(w.cloud.Calls()[0].Query)
	if err != nil || query.Get("limit") != "1000" ||
		query.Get("project_id") != w.cloud.Credentials().ProjectID || len(query["fields"]) != 18 {
		t.Errorf("the query is %v, %v", query, err)
	}
}

func TestClose_CancelsAndRefuses(t *testing.T) {
	w := newWorld(t)
	id := w.add("lb", 1, 1)
	w.gate.close()
	done := make(chan error, 2)
	go func() { _, err := w.LoadBalancers(t.Context(), 0); done <- err }()
	go func() { _, err := w.Contents(t.Context(), id, InPart, time.Time{}); done <- err }()
	w.called("loadbalancer_list")
	w.called("loadbalancer_pool_list")
	w.Close()
	for range 2 {
		if err := <-done; err == nil {
			t.Error("a canceled call succeeded")
		}
	}
	if _, err := w.LoadBalancers(t.Context(), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("a list after Close: %v", err)
	}
	if _, err := w.Contents(t.Context(), id, InPart, time.Time{}); !errors.Is(err, ErrClosed) {
		t.Errorf("contents after Close: %v", err)
	}
	w.Close()
}
