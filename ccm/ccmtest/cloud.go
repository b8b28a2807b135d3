package ccmtest

import (
	"fmt"
	"testing"

	"github.com/fxccm/fxccm/provider/fake"
)

// WaitCloud waits until cond returns nil, which it asks now and after every call to the cloud and
// every change of it. cond's error says what is missing, and what completes the sentence "timed out
// waiting until …". It fails the test after [WaitLimit].
func WaitCloud(t testing.TB, cloud *fake.Cloud, what string, cond func() error) {
	t.Helper()
	ctx, cancel := limited(t)
	defer cancel()
	var lacks error
	err := cloud.WaitUntil(ctx, func() bool {
		lacks = cond()
		return lacks == nil
	})
	if err != nil {
		t.Fatalf("timed out waiting until %s; last seen: %v", what, lacks)
	}
}

// WaitCall waits for a call to the cloud for which every predicate holds, and returns the first.
// Calls that are recorded already count; see [fake.Cloud.ResetCalls].
func WaitCall(
	t testing.TB, cloud *fake.Cloud, what string, where ...func(fake.Call) bool,
) fake.Call {
	t.Helper()
	ctx, cancel := limited(t)
	defer cancel()
	call, err := cloud.WaitForCall(ctx, where...)
	if err != nil {
		t.Fatalf("timed out waiting until %s: %v; the cloud's counts: %+v",
			what, err, cloud.Stats())
	}
	return call
}

// WaitRoute waits until the cloud has a route to the Node for the CIDR, and returns it.
func WaitRoute(t testing.TB, cloud *fake.Cloud, node, cidr string) fake.Route {
	t.Helper()
	var found fake.Route
	WaitCloud(t, cloud, fmt.Sprintf("there is a route for %s to node %s", cidr, node),
		func() error {
			routes := cloud.Routes()
			for _, route := range routes {
				if route.TargetNode == node && route.DestinationCIDR == cidr && !route.Blackhole {
					found = route
					return nil
				}
			}
			return fmt.Errorf("the routes are %+v", routes)
		})
	return found
}
