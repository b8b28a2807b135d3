package openstack

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/fxccm/fxccm/ccm"
)

func TestRoutesOf_RouteControllerServes_RangesAreThoseOfTheCluster(t *testing.T) {
	const cidrs = "10.244.0.0/16, fd00:10:244::/56"
	both := []netip.Prefix{
		netip.MustParsePrefix("10.244.0.0/16"), netip.MustParsePrefix("fd00:10:244::/56"),
	}
	for name, test := range map[string]struct {
		router, cidrs string
		isOn          bool
		want          []netip.Prefix
	}{
		"served":          {"router", cidrs, true, both},
		"no router":       {"", cidrs, true, nil},
		"no cluster CIDR": {"router", "", true, nil},
		"a wrong one":     {"router", "10.244.0.0", true, nil},
		"switched off":    {"router", cidrs, false, nil},
	} {
		got := routesOf(test.router, ccm.Config{
			ClusterCIDR: test.cidrs, ConfigureCloudRoutes: test.isOn,
		})
		if !slices.Equal(got.Ranges, test.want) || (got.RouterID != "") != (len(test.want) > 0) {
			t.Errorf("%s: got %+v, want %v", name, got, test.want)
		}
	}
}
