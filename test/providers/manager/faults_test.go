package manager_test

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/test/internal/project"
)

// While everything changes, one request in five fails: refused, answered with an error after it
// took effect, not answered, or late.
func TestChurn_RequestsFailAtRandom_ClusterAndCloudAgreeAndNothingIsLeft(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	start := seed(t)
	nodes, services := names("node", 6), names("service", 5)
	c.addServers(nodes...)
	before := c.Inventory()
	cfg := c.config()
	// The test also needs groups and rules, to check that they are deleted.
	cfg.LoadBalancer.ManageSecurityGroups = true
	// The service controller doubles its pauses, to five minutes, with each failure. The
	// provider's own comparison comes earlier.
	cfg.LoadBalancer.DriftPeriod = 5 * c.pace()
	ccm := ccmtest.StartManager(t, c.plane.ControlPlane, nil,
		ccmtest.WithProvider(c.Provider(openstack.WithConfig(cfg))),
		ccmtest.WithIdentity(c.plane.Identity))
	c.join(nodes...)
	for _, name := range services {
		c.expose(name)
	}
	c.waitAgreement("6 nodes and 5 Services are served")

	mend := c.breakWire(chance(start, "faults"))
	random, table := chance(start, "changes"), changes(c.Zones[0])
	for i := range 40 {
		if i == 20 {
			c.remove(services[0])
		}
		name, change := services[1+random.IntN(4)], table[random.IntN(len(table))]
		c.edit(name, change.edit)
		c.tell("%s: %s", name, change.name)
		switch node := nodes[random.IntN(len(nodes))]; random.IntN(6) {
		case 0:
			// As if it had been drained and registered again.
			c.leave(node)
			c.join(node)
		case 1:
			c.exclude(node, random.IntN(2) == 0)
		}
		c.pause(time.Duration(random.Int64N(int64(2 * c.pace()))))
	}
	mend()
	c.callAgain(services[0])
	c.waitServicesGone(services[0])
	c.waitAgreement("cluster and cloud agree")
	if s := ccm.Manager.Status(); s.Term != 1 || !s.Ready {
		t.Errorf("the Manager is %s in term %d, ready: %t (%s); want that its first term goes on",
			s.State, s.Term, s.Ready, s.Reason)
	}

	for _, name := range services {
		c.remove(name)
	}
	c.waitServicesGone(services...)
	c.leave(nodes...)
	c.wait("nothing is left over", func() []string { return before.Differences(c.Inventory()) })
	ccm.Stop()
}

// callAgain ends the pause between two calls for a Service that is being deleted, which doubles to
// five minutes, by a change of an annotation. The Service may be gone.
func (c *cluster) callAgain(name string) {
	c.t.Helper()
	if _, err := c.services().Patch(c.t.Context(), name, types.MergePatchType,
		[]byte(`{"metadata":{"annotations":{"changed":"now"}}}`), metav1.PatchOptions{},
	); err != nil && !apierrors.IsNotFound(err) {
		c.t.Fatal(err)
	}
}

// breakWire makes requests fail at random until mend is called, which fails the test if hardly any
// failed.
func (c *cluster) breakWire(random *rand.Rand) (mend func()) {
	c.t.Helper()
	const share = 0.025
	retryAfter := http.Header{"Retry-After": {"1"}}
	anything := func(*http.Request) bool { return true }
	// A login is not refused, because a client with unknown credentials stops retrying.
	noLogin := func(r *http.Request) bool { return r.Header.Get("X-Auth-Token") != "" }
	var removals []func()
	counts := map[string]int{}
	for _, f := range []struct {
		name    string
		matches func(*http.Request) bool
		fault   project.Fault
	}{
		{"500", anything, project.Fault{Status: http.StatusInternalServerError}},
		{"500, carried out", anything, project.Fault{Status: http.StatusInternalServerError, After: true}},
		{"503", anything, project.Fault{Status: http.StatusServiceUnavailable, Header: retryAfter}},
		{"429", anything, project.Fault{Status: http.StatusTooManyRequests, Header: retryAfter}},
		{"504, carried out", anything, project.Fault{Status: http.StatusGatewayTimeout, After: true}},
		{"401", noLogin, project.Fault{Status: http.StatusUnauthorized}},
		{"no answer", anything, project.Fault{Err: io.ErrUnexpectedEOF}},
		{"no answer, carried out", anything, project.Fault{Err: io.ErrUnexpectedEOF, After: true}},
		{"late", anything, project.Fault{Delay: 2 * time.Second}},
	} {
		// The wire asks one at a time.
		f.fault.Matches = func(r *http.Request) bool {
			hit := f.matches(r) && random.Float64() < share
			if hit {
				counts[f.name]++
			}
			return hit
		}
		removals = append(removals, c.Wire.Break(f.fault))
	}
	mark := c.Wire.Mark()
	return func() {
		c.t.Helper()
		for _, remove := range removals {
			remove()
		}
		all := 0
		for _, n := range counts {
			all += n
		}
		c.tell("of %d requests %d went wrong: %v", c.Wire.Mark()-mark, all, counts)
		if all < 20 {
			c.t.Errorf("hardly anything went wrong: %v", fmt.Sprint(counts))
		}
	}
}
