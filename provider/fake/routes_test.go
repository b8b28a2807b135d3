package fake

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

func TestRoutes_LiveFromCreateToDelete(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, Instance{Name: "a"})
		routes, ctx := routesOf(t, open()), t.Context()
		// A node of a dual-stack cluster: two routes with one hint.
		for _, cidr := range []string{"10.0.1.0/24", "fd00:1::/64"} {
			route := &cloudprovider.Route{
				TargetNode: "a", DestinationCIDR: cidr,
				TargetNodeAddresses: []v1.NodeAddress{{Address: "10.1.1.1"}},
			}
			// The second creation changes nothing.
			for range 2 {
				if err := routes.CreateRoute(ctx, "c", "uid", route); err != nil {
					t.Fatal(err)
				}
			}
		}
		got, err := routes.ListRoutes(ctx, "c")
		want := []*cloudprovider.Route{
			{Name: "c-uid-10.0.1.0-24", TargetNode: "a", DestinationCIDR: "10.0.1.0/24"},
			{Name: "c-uid-fd00:1::-64", TargetNode: "a", DestinationCIDR: "fd00:1::/64"},
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("the routes are %v, %v; want %v", got, err, want)
		}
		if other, err := routes.ListRoutes(ctx, "d"); err != nil || len(other) != 0 {
			t.Errorf("another cluster has the routes %v, %v", other, err)
		}
		for range 2 {
			if err := routes.DeleteRoute(ctx, "c", got[0]); err != nil {
				t.Error(err)
			}
		}
		if left := cloud.Routes(); len(left) != 1 || left[0].DestinationCIDR != "fd00:1::/64" {
			t.Errorf("after the deletion the cloud has %v", left)
		}
	})
}

func TestRoutes_WhenTheInstanceIsGone_AreBlackholes(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, Instance{Name: "a"})
		routes, ctx := routesOf(t, open()), t.Context()
		if err := routes.CreateRoute(ctx, "c", "uid",
			&cloudprovider.Route{TargetNode: "a", DestinationCIDR: "10.0.1.0/24"}); err != nil {
			t.Fatal(err)
		}
		if err := cloud.RemoveInstance("a"); err != nil {
			t.Fatal(err)
		}
		got, err := routes.ListRoutes(ctx, "c")
		if err != nil || len(got) != 1 || !got[0].Blackhole {
			t.Fatalf("the routes are %v, %v; want one blackhole", got, err)
		}
		if err := routes.DeleteRoute(ctx, "c", got[0]); err != nil || len(cloud.Routes()) != 0 {
			t.Errorf("the blackhole is not deleted: %v", err)
		}
	})
}

func TestCreateRoute_Invalid_IsRefused(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, Instance{Name: "a"}, Instance{Name: "b"})
		routes, ctx := routesOf(t, open()), t.Context()
		if err := routes.CreateRoute(ctx, "c", "uid",
			&cloudprovider.Route{TargetNode: "a", DestinationCIDR: "10.0.1.0/24"}); err != nil {
			t.Fatal(err)
		}
		for why, route := range map[string]*cloudprovider.Route{
			`"ghost": instance not found`: {TargetNode: "ghost", DestinationCIDR: "10.0.2.0/24"},
			`leads there via node "a"`:    {TargetNode: "b", DestinationCIDR: "10.0.1.7/24"},
			`"10.0" of a route`:           {TargetNode: "a", DestinationCIDR: "10.0"},
			"no target node":              {DestinationCIDR: "10.0.3.0/24"},
			`"" has no`:                   nil,
		} {
			if err := routes.CreateRoute(ctx, "c", "uid", route); err == nil ||
				!strings.Contains(err.Error(), why) {
				t.Errorf("for %v the error is %v, want %q", route, err, why)
			}
		}
		err := routes.CreateRoute(ctx, "c", "uid",
			&cloudprovider.Route{TargetNode: "ghost", DestinationCIDR: "10.0.2.0/24"})
		if !errors.Is(err, cloudprovider.InstanceNotFound) {
			t.Errorf("the error for a node without instance is %v and not InstanceNotFound", err)
		}
	})
}

func TestRoutes_WithNodeAddresses_RememberThem(t *testing.T) {
	onBoth(t, []Option{WithRouteNodeAddresses()}, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, Instance{Name: "a"})
		routes, ctx := routesOf(t, open()), t.Context()
		addresses := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.1.1.1"}}
		if err := routes.CreateRoute(ctx, "c", "uid", &cloudprovider.Route{
			TargetNode:          "a",
			TargetNodeAddresses: addresses, DestinationCIDR: "10.0.1.0/24",
		}); err != nil {
			t.Fatal(err)
		}
		got, err := routes.ListRoutes(ctx, "c")
		if err != nil || len(got) != 1 || !got[0].EnableNodeAddresses ||
			!reflect.DeepEqual(got[0].TargetNodeAddresses, addresses) {
			t.Errorf("the routes are %+v, %v", got, err)
		}
	})
}

func TestDeleteRoute_WhenTheRouteWasReplaced_LeavesTheNewOne(t *testing.T) {
	cloud := New()
	if err := cloud.AddRoutes(Route{
		Cluster: "c", Name: "new", TargetNode: "a",
		DestinationCIDR: "10.0.1.0/24",
	}); err != nil {
		t.Fatal(err)
	}
	old := &cloudprovider.Route{Name: "old", TargetNode: "b", DestinationCIDR: "10.0.1.0/24"}
	if err := routesOf(t, cloud.Provider()).DeleteRoute(t.Context(), "c", old); err != nil ||
		len(cloud.Routes()) != 1 {
		t.Errorf("deleting the old route answers %v and leaves %v", err, cloud.Routes())
	}
}

func TestAddRoutes_WhenOneIsWrong_AddsNoneAndSaysWhy(t *testing.T) {
	cloud := New()
	err := cloud.AddRoutes(Route{Cluster: "c", DestinationCIDR: "10.0.1.0/24"},
		Route{Name: "bad", DestinationCIDR: "x"})
	if err == nil || !strings.Contains(err.Error(), `"bad"`) || len(cloud.Routes()) != 0 {
		t.Errorf("the answer is %v and the routes are %v", err, cloud.Routes())
	}
}
