package controllers_test

import (
	"fmt"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/fake"
)

// concurrentObjects are more than may be handled at once.
const concurrentObjects = 7

func TestConcurrency_OfEachController_IsAsConfigured(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		controller string
		configure  func(*ccm.Config)
		method     fake.Method
		// object creates an object that makes the controller call the method, at once or after
		// trigger.
		object  func(t *testing.T, name string)
		want    int
		trigger func(t *testing.T, cloud *fake.Cloud)
	}{
		"node-syncs": {
			"cloud-node", func(c *ccm.Config) { c.Node.ConcurrentSyncs = 3 },
			"InstanceMetadata", taintedNode, 3, nil,
		},
		"node-updates": {
			"cloud-node", func(c *ccm.Config) {
				c.Node.ConcurrentSyncs, c.Node.ConcurrentStatusUpdates = 1, 3
			},
			"InstanceMetadata", initializedNode, 3, nil,
		},
		"node-updates-like-syncs": {
			"cloud-node", func(c *ccm.Config) {
				c.Node.ConcurrentSyncs, c.Node.ConcurrentStatusUpdates = 2, 0
			},
			"InstanceMetadata", initializedNode, 2, nil,
		},
		"lifecycle": {
			"cloud-node-lifecycle", func(c *ccm.Config) { c.NodeLifecycle.ConcurrentSyncs = 3 },
			"InstanceExists", lostNode, 3, nil,
		},
		"service": {
			"service", func(c *ccm.Config) { c.Service.ConcurrentSyncs = 3 },
			"EnsureLoadBalancer", pendingService, 3, nil,
		},
		"service-updates": {
			"service", func(c *ccm.Config) { c.Service.ConcurrentSyncs = 3 },
			"UpdateLoadBalancer", pendingService, 3, func(t *testing.T, cloud *fake.Cloud) {
				waitCalls(t, cloud, "all Services are served", concurrentObjects,
					fake.CallFilter{Method: "EnsureLoadBalancer", Finished: true}.Matches)
				ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode("service-updates"))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var objects []string
			for i := range concurrentObjects {
				objects = append(objects, fmt.Sprintf("%s-%d", name, i))
			}
			cloud := newCloud(t, objects)
			release := cloud.On(test.method).Hang()
			for _, object := range objects {
				test.object(t, object)
			}
			run(t, cloud, only(test.controller), func(p *ccm.Params) {
				p.Config.Node.StatusUpdateFrequency = metav1.Duration{
					Duration: 100 * time.Millisecond,
				}
				test.configure(&p.Config)
			})
			if test.trigger != nil {
				test.trigger(t, cloud)
			}
			waitInFlight(t, cloud, test.want)
			release()
			waitCalls(t, cloud, "all objects are handled", len(objects),
				fake.CallFilter{Method: test.method, Finished: true}.Matches)
			most := 0
			for _, stats := range cloud.Stats().Callers {
				most = max(most, stats.MaxInFlight)
			}
			if most != test.want {
				t.Errorf("up to %d calls were in flight, want %d", most, test.want)
			}
		})
	}
}

func taintedNode(t *testing.T, name string) {
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.TaintedNode(name))
}

func initializedNode(t *testing.T, name string) {
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode(name,
		ccmtest.NodeProviderID("fake://region-1/"+name)))
}

// lostNode creates a node that is not ready, so that each pass looks for its instance.
func lostNode(t *testing.T, name string) {
	ccmtest.CreateNode(t, shared.Client(t), ccmtest.ReadyNode(name, ccmtest.NodeNotReady(),
		ccmtest.NodeProviderID("fake://region-1/"+name)))
}

func pendingService(t *testing.T, name string) {
	ccmtest.CreateService(t, shared.Client(t), ccmtest.LoadBalancerService(name))
}

func waitInFlight(t *testing.T, cloud *fake.Cloud, n int) {
	t.Helper()
	waittest.Until(t, fmt.Sprintf("%d calls are in flight", n), func() error {
		if now := cloud.Stats().InFlight; now != n {
			return fmt.Errorf("%d are in flight", now)
		}
		return nil
	})
}

// The period begins with a pass, so a pass that takes longer than the period is followed by the
// next one at once.
func TestRoute_ReconciliationPeriod_CountsFromTheBeginningOfAPass(t *testing.T) {
	t.Parallel()
	const period = time.Second
	cloud := newCloud(t, nil)
	cloud.On("ListRoutes").Times(1).Delay(period + period/5)
	run(t, cloud, only("route"), func(p *ccm.Params) {
		p.Config.Route.ReconciliationPeriod = metav1.Duration{Duration: period}
	})
	calls := waitCalls(t, cloud, "routes are reconciled three times", 3,
		fake.CallFilter{Method: "ListRoutes"}.Matches)
	if pause := calls[1].Started.Sub(calls[0].Ended); pause > period*4/5 {
		t.Errorf("after a pass that took longer than the period the next one began after %s", pause)
	}
	if apart := calls[2].Started.Sub(calls[0].Started); apart < period*3/2 {
		t.Errorf("three passes began within %s", apart)
	}
}
