package loadbalancer

import (
	"net/http"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// A service that is overloaded must not get many requests for one new Service. The service
// controller repeats the call, so the client need not.
func TestEnsure_ServiceIsUnavailable_GetsFewRequestsInTheFirstMinute(t *testing.T) {
	t.Parallel()
	for _, down := range []string{
		openstacktest.ServiceLoadBalancer, openstacktest.ServiceNetwork,
	} {
		t.Run(down, func(t *testing.T) {
			t.Parallel()
			s, now := newTickingSite(t)
			c, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			s.Inject(openstacktest.Fault{
				Service: down, Status: http.StatusServiceUnavailable,
			})
			mark := s.mark()
			_ = c.attend(now, time.Minute, service, node)
			sent := 0
			for _, call := range s.Calls()[mark:] {
				if call.Service == down {
					sent++
				}
			}
			if sent == 0 || sent > 10 {
				t.Errorf("%s got %d requests in a minute, want 1 to 10: %v", down, sent,
					s.counts(mark))
			}
		})
	}
}

func TestPreview_OctaviaDoesNotAnswer_DesiredObjectsAreKnown(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	c, node := s.begin("cluster-1", s.kube), s.addNode("a")
	service := s.addService("web", 80)
	s.Inject(openstacktest.Fault{
		Service: openstacktest.ServiceLoadBalancer, Status: http.StatusServiceUnavailable,
	})
	preview, err := c.Preview(t.Context(), "kubernetes", service, []*v1.Node{node}, nil)
	if err == nil || strings.Contains(err.Error(), "retrying") ||
		!strings.HasPrefix(err.Error(), "Octavia: 503 Service Unavailable; ") {
		t.Errorf("the error is %v", err)
	}
	if len(preview.Desired) == 0 {
		t.Error("the desired objects are missing")
	}
}
