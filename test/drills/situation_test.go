//go:build linux

package drills_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/internal/netfault"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// cloudTakes is the duration of a call to the cloud during which an outage begins: the call
// succeeds while the term is valid, but its result cannot be written.
const cloudTakes = 700 * time.Millisecond

// A situation is the activity of a term when the outage begins.
type situation struct {
	name string
	// args are added to the command line of the processes.
	args []string
	// settle, if set, runs before the processes are measured.
	settle func(*world)
	// bring creates the situation, and begins the outage in it.
	bring func(w *world, begin func())
}

var situations = []situation{
	{name: "idle", bring: func(_ *world, begin func()) { begin() }},
	{name: "node shut off", settle: shutOffOne, bring: func(_ *world, begin func()) { begin() }},
	{name: "node being initialized", bring: func(w *world, begin func()) {
		node := w.nextNode()
		w.inFlight("InstanceMetadata", node.Name, func() { w.register(node) }, begin)
	}},
	{name: "Service being ensured", bring: func(w *world, begin func()) {
		service := w.nextService()
		w.inFlight("EnsureLoadBalancer", w.name+"/"+service.Name, func() { w.create(service) },
			begin)
	}},
	{name: "route being created", bring: func(w *world, begin func()) {
		node := w.nextNode()
		w.inFlight("CreateRoute", node.Name, func() { w.register(node) }, begin)
	}},
	{name: "token expired", args: []string{"--use-service-account-credentials"}, settle: shutOffOne, bring: expireTokens},
	{name: "informer relisting", bring: relist},
	{name: "term opening", bring: openTerm},
	{name: "term draining", settle: shutOffOne, bring: drainTerm},
}

func shutOffOne(w *world) { w.shutOff(w.nodes[0]) }

// inFlight delays a call of the method for an object, and begins the outage when the call is in
// flight.
func (w *world) inFlight(method fake.Method, object string, cause, begin func()) {
	w.t.Helper()
	w.cloud.On(method).For(object).Times(1).Delay(cloudTakes)
	cause()
	w.awaitInFlight(method, object, begin)
}

func (w *world) awaitInFlight(method fake.Method, object string, begin func()) {
	w.t.Helper()
	call := fake.CallFilter{Method: method, Object: object}
	if _, err := w.cloud.WaitForCall(waittest.Context(w.t), call.Matches,
		func(call fake.Call) bool { return !call.Finished }); err != nil {
		w.t.Fatal(err)
	}
	begin()
}

// expireTokens makes the API server treat tokens of ServiceAccounts as expired, and registers a
// node, which makes controllers use theirs. The outage begins at the first request for a new token,
// which is not answered.
func expireTokens(w *world, begin func()) {
	w.treat(func(rw http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/token") {
			begin()
			return false
		}
		token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		// Tokens of ServiceAccounts are JSON web tokens, but the endpoint's own is a word.
		if !strings.Contains(token, ".") {
			return false
		}
		answer(rw, apierrors.NewUnauthorized("the token has expired"))
		return true
	})
	w.register(w.nextNode())
}

// relist ends all watches, and answers new ones that they are too old. The outage begins when an
// informer lists again.
func relist(w *world, begin func()) {
	var expired atomic.Bool
	w.treat(func(rw http.ResponseWriter, r *http.Request) bool {
		query := r.URL.Query()
		listed := strings.HasSuffix(r.URL.Path, "/nodes") ||
			strings.HasSuffix(r.URL.Path, "/services")
		switch {
		case !listed || r.Method != http.MethodGet:
			return false
		case query.Get("watch") != "" && query.Get("sendInitialEvents") == "":
			expired.Store(true)
			answer(rw, apierrors.NewResourceExpired("the watch is too old"))
			return true
		case expired.Load():
			begin()
		}
		return false
	})
	for _, m := range w.members {
		for _, f := range []netfault.Fault{netfault.Reset(), netfault.Pass()} {
			if err := m.endpoint.Set(f); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// loseTerm refuses renewals until the term ends, and returns then. Reads of nodes are slow
// meanwhile.
func loseTerm(w *world) {
	w.t.Helper()
	w.treat(func(rw http.ResponseWriter, r *http.Request) bool {
		switch {
		case strings.Contains(r.URL.Path, "/leases"):
			answer(rw, apierrors.NewInternalError(http.ErrServerClosed))
			return true
		case r.Method == http.MethodGet && strings.Contains(r.URL.Path, "/nodes/"):
			select {
			case <-time.After(2 * time.Second):
			case <-r.Context().Done():
				return true
			}
		}
		return false
	})
	await(w.t, "the term ends", func() bool { return !w.lasts() })
}

// lasts reports whether a term has begun and not ended.
func (w *world) lasts() bool {
	last := w.lastToBegin()
	return len(w.entries(last, replica.TermBegins)) > len(w.entries(last, replica.TermEnds))
}

// openTerm begins the outage when a provider is built for the next term.
func openTerm(w *world, begin func()) {
	opening := treatment(func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/v1/cloud") {
			begin()
		}
		return false
	})
	loseTerm(w)
	w.cloudTreat.Store(&opening)
	w.treat(nil)
}

// drainTerm begins the outage right after the end of a term.
func drainTerm(w *world, begin func()) {
	loseTerm(w)
	begin()
}

func (w *world) entries(m *member, messages ...string) []replica.Entry {
	w.t.Helper()
	found, err := m.Entries(messages...)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// answer sends an error like the API server.
func answer(w http.ResponseWriter, err *apierrors.StatusError) {
	status := err.Status()
	status.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(int(status.Code))
	_ = json.NewEncoder(w).Encode(status)
}
