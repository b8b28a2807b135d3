package openstack_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// doubtful is an answer of Nova, or a missing one, that does not prove the absence of a server.
type doubtful struct {
	name  string
	fault openstacktest.Fault
}

// rewritten replaces the answers to lists and to requests for one server, each by a status and a
// body. A zero status keeps the answer.
func rewritten(list, get func() (int, string)) openstacktest.Fault {
	return openstacktest.Fault{
		Operation: "server_*",
		Rewrite: func(c openstacktest.Call, status int, body []byte) (int, []byte) {
			answer := get
			if c.Operation == "server_list" {
				answer = list
			}
			if answer == nil {
				return status, body
			}
			status, text := answer()
			return status, []byte(text)
		},
	}
}

func always(status int, body string) func() (int, string) {
	return func() (int, string) { return status, body }
}

const (
	noServers = `{"servers": []}`
	notFound  = `{"itemNotFound": {"code": 404, "message": "Instance could not be found."}}`
	proxyPage = "<html><body><h1>404 Not Found</h1></body></html>"
)

func doubts() []doubtful {
	return []doubtful{
		{"empty-list", rewritten(always(200, noServers), nil)},
		{"short-list", openstacktest.Fault{Operation: "server_list", Rewrite: shortened}},
		{"server-errors", openstacktest.Fault{Operation: "server_*", Status: http.StatusInternalServerError}},
		{"overload", openstacktest.Fault{Operation: "server_*", Status: http.StatusTooManyRequests}},
		{"forbidden", openstacktest.Fault{Operation: "server_*", Status: http.StatusForbidden}},
		{"cut-off", openstacktest.Fault{Operation: "server_*", Drop: true}},
		{"truncated", openstacktest.Fault{Operation: "server_*", Truncate: 20}},
		{"other-json", rewritten(always(200, `{"message": "welcome"}`), always(200, `{"message": "welcome"}`))},
		{"wrong-types", rewritten(always(200, `{"servers": {"id": 7}}`), always(200, `{"server": "gone"}`))},
		{"null", rewritten(always(200, `{"servers": null}`), always(200, `{"server": null}`))},
		{"another-server", rewritten(nil, always(200, `{"server": {"id": "00000000-0000-4000-8000-000000000000", "name": "other", "status": "DELETED"}}`))},
		{"proxy-page", openstacktest.Fault{Operation: "server_*", Status: http.StatusNotFound, Body: proxyPage}},
		{"wrong-address", rewritten(always(404, "{}"), always(404, "{}"))},
		{"wrong-project", rewritten(always(200, noServers), always(404, notFound))},
		{"all-not-found", openstacktest.Fault{Operation: "server_*", Status: http.StatusNotFound}},
	}
}

// shortened removes all servers but the first from a list, as when cells are down.
func shortened(_ openstacktest.Call, status int, body []byte) (int, []byte) {
	var list struct {
		Servers []json.RawMessage `json:"servers"`
	}
	if json.Unmarshal(body, &list) != nil || len(list.Servers) == 0 {
		return status, body
	}
	list.Servers = list.Servers[:1]
	body, _ = json.Marshal(list)
	return status, body
}

// doubtHaste shortens the provider's waits: a confirmation takes a twentieth of a second.
const doubtHaste = 60

// often makes the lifecycle controller check as often as the confirmation needs.
func often(l *launch) {
	l.haste = doubtHaste
	l.Config.NodeLifecycle.MonitorPeriod = metav1.Duration{Duration: 50 * time.Millisecond}
}

// waitDoubt waits until Nova has received requests for servers for several times as long as a
// confirmation takes.
func (s *site) waitDoubt(m mark) {
	s.t.Helper()
	const times, least = 4, 6
	ccmtest.Eventually(s.t, "Nova has received requests for long enough",
		func(context.Context) (bool, error) {
			asked := s.since(m, operations("server_list", "server_get"))
			if len(asked) < least {
				return false, fmt.Errorf("there were %d calls", len(asked))
			}
			if took := asked[len(asked)-1].Time.Sub(
				asked[0].Time) * doubtHaste; took < times*confirmation {
				return false,
					fmt.Errorf("there were %d calls in %s of the provider's time", len(asked), took)
			}
			return true, nil
		})
}

func TestDoubt_WhateverNovaAnswers_NoNodeIsDeletedBeforeTheTruth(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	r := ready(t, s, often, configured(unhurried), configured(func(c *cloudconf.Config) {
		c.Client.MaxRetries = 1
	}))
	for _, d := range doubts() {
		t.Run(d.name, func(t *testing.T) { s.in(t).doubt(d.name, d.fault, r, 5) })
	}
}

// doubt has several nodes that are not ready, so each pass requests their servers. The last one is
// deleted after the fault has lasted for long.
func (s *site) doubt(name string, fault openstacktest.Fault, r *replica, number int) {
	t := s.t
	t.Helper()
	asked := operations("server_list", "server_get")
	var machines []machine
	var nodes []*corev1.Node
	for i := range number {
		machines = append(machines, s.addServer(fmt.Sprint(name, "-", i)))
		nodes = append(nodes, notReady(t, machines[i]))
	}
	s.waitCalls(s.mark(), 3, asked, "the servers are requested")

	remove := s.Inject(fault)
	defer remove()
	s.waitDoubt(s.mark())
	wantUntouched(t, nodes...)

	last := len(machines) - 1
	s.must(s.DeleteServer(machines[last].id))
	remove()
	ccmtest.Eventually(t, "the node is gone",
		ccmtest.Gone(shared.Client(t).CoreV1().Nodes().Get, machines[last].name))
	waitEvent(t, shared.Client(t), nodes[last], "DeletingNode")
	s.waitCalls(s.mark(), 3, asked, "the servers are requested again")
	wantUntouched(t, nodes[:last]...)
	r.unbroken()
}
