package cloudcontrollers

import (
	"context"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
)

type createdRoutes struct {
	cloudprovider.Routes
	created []string
}

func (r *createdRoutes) CreateRoute(
	_ context.Context, _, _ string, route *cloudprovider.Route,
) error {
	r.created = append(r.created, route.DestinationCIDR)
	return nil
}

// A kubelet that registers its Node chooses the pod CIDRs.
func TestCreateRoute_OutsideOfTheClusterCIDR_IsRefused(t *testing.T) {
	cidrs, err := ParseClusterCIDRs("10.244.0.0/16,fd00:1::/48")
	if err != nil {
		t.Fatal(err)
	}
	for destination, isAllowed := range map[string]bool{
		"10.244.3.0/24": true, "10.244.0.0/16": true, "fd00:1:0:7::/64": true,
		"10.244.0.0/15": false, "10.245.0.0/24": false, "0.0.0.0/0": false, "::/0": false,
		"169.254.169.254/32": false, "fd00:2::/64": false, "::ffff:10.244.3.0/120": false,
		"10.244.3.0": false, "": false,
	} {
		routes, events := &createdRoutes{}, record.NewFakeRecorder(1)
		p := &routePasses{
			Routes: routes, cidrs: cidrs, pauses: newPauses(time.Second), recorder: events,
			shown: []*v1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n"}}},
		}
		err := p.CreateRoute(t.Context(), "", "",
			&cloudprovider.Route{TargetNode: "n", DestinationCIDR: destination})
		if (err == nil) != isAllowed || (len(routes.created) == 1) != isAllowed {
			t.Errorf("%q: error %v, created %q", destination, err, routes.created)
		}
		if isAllowed {
			continue
		}
		select {
		case event := <-events.Events:
			if !strings.Contains(event, "FailedToCreateRoute") {
				t.Errorf("%q: the event is %s", destination, event)
			}
		default:
			t.Errorf("%q: there is no event", destination)
		}
	}
}
