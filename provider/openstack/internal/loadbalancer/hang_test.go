package loadbalancer

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// A request that hangs ends only after a minute.
func TestReport_ServiceDoesNotAnswer_ShowsTheWaitBeforeTheCallEnds(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fault    openstacktest.Fault
		text     string
		isServed bool
	}{
		"Octavia": {
			openstacktest.Fault{Service: openstacktest.ServiceLoadBalancer}, "Octavia", false,
		},
		"Neutron": {
			openstacktest.Fault{Service: openstacktest.ServiceNetwork}, "Neutron", false,
		},
		"a creation": {
			openstacktest.Fault{Operation: "loadbalancer_create"}, "Octavia", false,
		},
		"a deletion": {
			openstacktest.Fault{Service: openstacktest.ServiceLoadBalancer}, "Octavia", true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			cl, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			if c.isServed {
				cl.ensure(service, node)
				service = s.now(service)
				gone := metav1.Now()
				service.DeletionTimestamp = &gone
				cl = s.begin("cluster-1", s.kube)
			}
			begun := time.Now()
			c.fault.Hang = true
			s.Inject(c.fault)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error)
			go func() {
				if c.isServed {
					ended <- cl.EnsureLoadBalancerDeleted(ctx, "kubernetes", service)
					return
				}
				_, err := cl.EnsureLoadBalancer(ctx, "kubernetes", service, []*v1.Node{node})
				ended <- err
			}()
			var got *metav1.Condition
			waittest.Until(t, "the wait is shown", func() error {
				select {
				case err := <-ended:
					t.Fatalf("the call ended before the wait was shown: %v", err)
				default:
				}
				got = meta.FindStatusCondition(s.now(service).Status.Conditions, ConditionType)
				if got == nil {
					return fmt.Errorf("the reports are %+v", cl.Reports())
				}
				return nil
			})
			if got.Status != metav1.ConditionFalse || got.Reason != "LoadBalancerWaiting" ||
				!strings.Contains(got.Message, c.text) ||
				got.LastTransitionTime.Time.Sub(begun).Abs() > time.Minute {
				t.Errorf("the condition is %+v, want the wait for %s since %s", got, c.text, begun)
			}
			report := cl.reported()
			if report.State != Waiting || report.Message != got.Message ||
				report.Since.Sub(begun).Abs() > time.Minute {
				t.Errorf("the report is %+v, want that of the condition", report)
			}
			cancel()
			<-ended
		})
	}
}
