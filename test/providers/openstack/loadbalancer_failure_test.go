package openstack_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// Each request that changes something goes wrong when it is made first, whatever it is: what the
// passes that follow make of it is what there would have been.
func TestFailure_OfEachRequest_IsMadeGood(t *testing.T) {
	t.Parallel()
	const immutable = `{"faultcode": "Client", "faultstring": "Load Balancer is immutable and cannot be updated.", "debuginfo": null}`
	for name, faults := range map[string][]project.Fault{
		"it is carried out": {{After: true, Err: io.ErrUnexpectedEOF}, {After: true, Status: http.StatusInternalServerError}},
		"it is not": {
			{Status: http.StatusInternalServerError},
			{Status: http.StatusConflict, Body: immutable},
			{Status: http.StatusServiceUnavailable, Header: http.Header{"Retry-After": {"1"}}},
			{Err: io.ErrUnexpectedEOF},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(t, 2, func(_ *project.Project, c *cloudconf.LoadBalancer) {
				c.ManageSecurityGroups, c.CreateMonitor = true, true
				// One request for each thing, so that there are more to go wrong.
				c.ProviderRequiresSerialAPICalls = name == "it is not"
			})
			firsts := &firstOfEach{kinds: len(faults), seen: map[string]bool{}}
			for kind, fault := range faults {
				fault.Matches = func(r *http.Request) bool { return firsts.fails(r, kind) }
				s.Wire.Break(fault)
			}
			var mu sync.Mutex
			failures := 0
			failed := func(error) { mu.Lock(); defer mu.Unlock(); failures++ }
			s.create("web", ports("80/TCP", "53/UDP"))
			s.serveDespite(failed, "web")
			s.change("web", ports("80/TCP", "443/TCP"), annotated("x-forwarded-for", "true"))
			s.serveDespite(failed, "web")
			s.quiet("web")
			v := s.view("web")
			if got := fmt.Sprint(v.portNames()); got != "[443/TCP 80/TCP]" || len(v.loose) > 0 ||
				len(v.floatingIPs) != 1 {
				t.Errorf("the ports are %s, the loose pools %v, the floating IPs %v", got, v.loose,
					v.floatingIPs)
			}
			s.wantMembers("web", v, s.servers...)
			for port, p := range v.ports {
				s.wantAttributes(port, p.listener, project.Object{"protocol": "HTTP"})
				s.wantAttributes(port, p.monitor, project.Object{"type": "TCP"})
			}
			s.wantRules("web", "tcp 30080 10.0.0.0/16", "tcp 30443 10.0.0.0/16")
			s.wantGroupAt("web", s.servers...)
			if all := s.Inventory(); len(all.Of("load balancer")) != 1 ||
				len(all.Of("floating IP")) != 1 {
				t.Errorf("there are %v and %v", all.Of("load balancer"), all.Of("floating IP"))
			}
			s.removeDespite(failed, "web")
			s.end()
			if failures == 0 || firsts.failed < 20 {
				t.Errorf("only %d requests went wrong, and %d passes", firsts.failed, failures)
			}
		})
	}
}

// firstOfEach chooses the requests that change something, of each the first time that it is made,
// for several kinds of faults in turn.
type firstOfEach struct {
	kinds int

	mu     sync.Mutex
	seen   map[string]bool
	failed int
}

// fails goes through the kinds in order, until one of them is the request's.
func (f *firstOfEach) fails(r *http.Request, kind int) bool {
	if r.Method == http.MethodGet || strings.HasSuffix(r.URL.Path, "/auth/tokens") {
		return false
	}
	key := r.Method + " " + r.URL.Path
	if r.GetBody != nil {
		if body, err := r.GetBody(); err == nil {
			text, _ := io.ReadAll(body)
			key += " " + string(text)
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[key] || f.failed%f.kinds != kind {
		return false
	}
	f.seen[key] = true
	f.failed++
	return true
}

// Another client keeps the load balancer busy.
func TestLoadBalancer_BusyWithOthersChanges_IsServedInTheEnd(t *testing.T) {
	t.Parallel()
	s := begin(t, 2, nil)
	s.create("web", ports("80/TCP", "443/TCP"))
	s.serve("web")
	id := s.id("web")
	user := s.User().API()
	// One change after the other, until the Service is as it should be and for five at least.
	done, over := make(chan struct{}), make(chan error, 1)
	go func() {
		for n := 1; ; {
			answer, err := user.Do(t.Context(), http.MethodPut, project.LoadBalancer,
				"/lbaas/loadbalancers/"+id, project.Object{
					"loadbalancer": project.Object{"description": fmt.Sprint("change ", n)},
				})
			switch {
			case err != nil:
				over <- err
				return
			case answer.Status == http.StatusOK:
				n++
			case answer.Status != http.StatusConflict:
				over <- errors.New(answer.String())
				return
			}
			select {
			case <-done:
				if n > 5 {
					over <- nil
					return
				}
			default:
			}
			// Octavia has others to serve.
			time.Sleep(100 * time.Millisecond)
		}
	}()
	s.change("web", ports("80/TCP", "8443/TCP"), annotated("connection-limit", "9"))
	s.serve("web")
	s.editNode("node-2", nil)
	s.update("web")
	close(done)
	if err := <-over; err != nil {
		t.Fatal(err)
	}
	s.WaitBalancer(id)
	s.serve("web")
	v := s.view("web")
	if got := fmt.Sprint(v.portNames()); got != "[80/TCP 8443/TCP]" {
		t.Errorf("the ports are %s", got)
	}
	s.wantMembers("web", v, s.servers[0])
	s.quietAfterRestart()
	s.end()
}
