package loadbalancer

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cloud-provider/api"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// These are measured on a real OpenStack for a creation, a change and a deletion.
const creationTook, changeTook, deletionTook = 10 * time.Second, 3 * time.Second, 3 * time.Second

// busySite is a site whose clock advances only while all of its workers wait, so that the number of
// requests does not depend on the speed of the machine.
type busySite struct {
	*cluster
	now    *clocktesting.FakeClock
	active atomic.Int32
}

func newBusySite(t *testing.T) *busySite {
	t.Helper()
	now := clocktesting.NewFakeClock(time.Now().Truncate(time.Second))
	s := newSite(t, openstacktest.WithClock(now))
	s.clock = now
	s.defaults.LoadBalancer.DriftPeriod = 0
	return &busySite{cluster: s.begin("cluster-1", s.kube), now: now}
}

// each calls do for n Services concurrently.
func (b *busySite) each(n int, took time.Duration, do func(i int)) {
	defer b.site.Provision(openstacktest.ProvisioningRule{Duration: took})()
	var workers sync.WaitGroup
	b.active.Store(int32(n))
	for i := range n {
		workers.Go(func() {
			defer b.active.Add(-1)
			do(i)
		})
	}
	// A worker can have two timers while another one works, so one check is not enough.
	const looks = 5
	for idle := 0; b.active.Load() > 0; time.Sleep(time.Millisecond) {
		if int32(b.now.Waiters()) < b.active.Load() {
			idle = 0
		} else if idle++; idle == looks {
			idle = 0
			b.now.Step(100 * time.Millisecond)
		}
	}
	workers.Wait()
}

// serve reconciles as the service controller does: again after the annotations are written.
func (b *busySite) serve(service *v1.Service, nodes []*v1.Node) {
	for range 2 {
		b.pass(func() error {
			_, err := b.EnsureLoadBalancer(b.site.t.Context(), "kubernetes", b.site.now(service),
				nodes)
			return err
		})
	}
}

// update has a Service ensured, too, as the service controller does after an update that waits.
func (b *busySite) update(service *v1.Service, nodes []*v1.Node) {
	first := true
	b.pass(func() (err error) {
		if first {
			first = false
			return b.UpdateLoadBalancer(b.site.t.Context(), "kubernetes", b.site.now(service),
				nodes)
		}
		_, err = b.EnsureLoadBalancer(b.site.t.Context(), "kubernetes", b.site.now(service), nodes)
		return err
	})
}

func (b *busySite) delete(service *v1.Service) {
	service = b.site.now(service)
	deleted := metav1.NewTime(b.now.Now())
	service.DeletionTimestamp = &deleted
	b.pass(func() error {
		_, exists, err := b.GetLoadBalancer(b.site.t.Context(), "kubernetes", service)
		if err == nil && exists {
			err = b.EnsureLoadBalancerDeleted(b.site.t.Context(), "kubernetes", service)
		}
		return err
	})
}

func (b *busySite) pass(do func() error) {
	for {
		err := do()
		var later *api.RetryError
		if !errors.As(err, &later) {
			if err != nil {
				b.site.t.Error(err)
			}
			return
		}
		timer := b.now.NewTimer(later.RetryAfter())
		<-timer.C()
	}
}

type callCounts map[string]int

// callLimits are those of Services with a number of ports. The numbers of reads are limits; all
// others are exact.
func callLimits() []callLimit {
	const list, get = "loadbalancer_list", "loadbalancer_get"
	created := func(n, lists int) callCounts {
		return callCounts{
			"loadbalancer_create": n, "floating_ip_create": n, "floating_ip_tag_replace": n,
			list: lists,
		}
	}
	deleted := func(n, lists, gets int) callCounts {
		return callCounts{
			"loadbalancer_delete": n, "floating_ip_delete": n, "floating_ip_list": 1,
			list: lists, get: gets,
		}
	}
	changed := func(n, lists, gets int) callCounts {
		return callCounts{"loadbalancer_member_create": n, list: lists, get: gets}
	}
	return []callLimit{
		{1, 1, created(1, 2), changed(1, 1, 1), deleted(1, 1, 2)},
		{1, 3, created(1, 2), changed(3, 1, 1), deleted(1, 1, 2)},
		{10, 1, created(10, 5), changed(10, 5, 2), deleted(10, 6, 13)},
		{10, 3, created(10, 5), changed(30, 10, 3), deleted(10, 6, 13)},
	}
}

type callLimit struct {
	services, ports              int
	creation, addition, deletion callCounts
}

// Every request to OpenStack counts, even the reads while Octavia is at work. The first Service has
// caused those that come once a term: the login, the version, the networks, and the looks that
// teach how long Octavia takes.
func TestCalls_OfServices_AreFew(t *testing.T) {
	t.Parallel()
	for _, test := range callLimits() {
		t.Run(fmt.Sprintf("%d Services of %d ports", test.services, test.ports),
			func(t *testing.T) {
				t.Parallel()
				b := newBusySite(t)
				nodes := []*v1.Node{b.site.addNode("a"), b.site.addNode("b"), b.site.addNode("c")}
				ports := []int32{80, 443, 8080}[:test.ports]
				first := b.site.addService("first", ports...)
				b.each(1, creationTook, func(int) { b.serve(first, nodes[:2]) })
				b.each(1, changeTook, func(int) { b.update(first, nodes) })
				b.each(1, deletionTook, func(int) { b.delete(first) })
				var services []*v1.Service
				for i := range test.services {
					services = append(services,
						b.site.addService(fmt.Sprint("web-", i), ports...))
				}
				// most is the limit for each Service.
				check := func(
					what string, want callCounts, most int, took time.Duration, do func(i int),
				) {
					t.Helper()
					b.now.Step(time.Minute)
					mark := b.site.mark()
					b.each(test.services, took, do)
					got := b.site.counts(mark)
					t.Logf("%s: %d requests %v", what, total(got), got)
					if n := total(got); n > most*test.services {
						t.Errorf("%s: %d requests, want at most %d for each Service", what, n,
							most)
					}
					for operation := range maps.Keys(got) {
						if want[operation] == 0 {
							t.Errorf("%s: %d requests %s", what, got[operation], operation)
						}
					}
					for operation, n := range want {
						isRead := strings.HasSuffix(operation, "_list") ||
							strings.HasSuffix(operation, "_get")
						if got[operation] > n || got[operation] < n && !isRead {
							t.Errorf("%s: %d requests %s, want %d", what, got[operation],
								operation, n)
						}
					}
				}
				check("creation", test.creation, 5, creationTook,
					func(i int) { b.serve(services[i], nodes[:2]) })
				b.now.Step(floatingIPMaxAge)
				check("node added", test.addition, 2+test.ports, changeTook,
					func(i int) { b.update(services[i], nodes) })
				check("deletion", test.deletion, 6, deletionTook,
					func(i int) { b.delete(services[i]) })
			})
	}
}

func TestPage_RequestsOfTenServices_AreTheLimits(t *testing.T) {
	page, err := os.ReadFile("../../../../docs/explanation/openstack-load-balancers.md")
	if err != nil {
		t.Fatal(err)
	}
	limits := callLimits()
	last := limits[len(limits)-1]
	says := fmt.Sprintf("ten creations take at most %d requests, ten deletions %d, and a node that "+
		"joins ten load balancers of three ports %d.", total(last.creation), total(last.deletion),
		total(last.addition))
	if !strings.Contains(string(page), says) {
		t.Errorf("the page does not say %q", says)
	}
}

// The service controller also reconciles when a Service or a node changes, regardless of the pause.
func TestCreation_ReconciledOften_IsStillLookedAt(t *testing.T) {
	t.Parallel()
	b := newBusySite(t)
	defer b.site.Provision(openstacktest.ProvisioningRule{Duration: creationTook})()
	nodes := []*v1.Node{b.site.addNode("a")}
	service := b.site.addService("web", 80)
	begun := b.now.Now()
	for {
		_, err := b.EnsureLoadBalancer(t.Context(), "kubernetes", b.site.now(service), nodes)
		if err == nil {
			return
		}
		if b.now.Since(begun) > 10*creationTook {
			t.Fatalf("not served after %s: %v", b.now.Since(begun), err)
		}
		b.now.Step(100 * time.Millisecond)
	}
}
