package servicelb_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	clienttesting "k8s.io/client-go/testing"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/informerview"
	"github.com/fxccm/fxccm/internal/members"
)

// endpointCloud is a cloud that may have endpoints as members.
type endpointCloud struct {
	*cloud
	wants func(*v1.Service) bool
}

var _ members.EndpointBalancer = endpointCloud{}

func (c endpointCloud) WantsEndpoints(s *v1.Service) bool { return c.wants(s) }

func (c endpointCloud) EnsureEndpointLoadBalancer(
	ctx context.Context, _ string, s *v1.Service, nodes []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) (*v1.LoadBalancerStatus, error) {
	if err := c.call(ctx, "ensure endpoints", s, nodes, endpoints...); err != nil {
		return nil, err
	}
	return c.serve(s), nil
}

func (c endpointCloud) UpdateEndpointLoadBalancer(
	ctx context.Context, _ string, s *v1.Service, nodes []*v1.Node,
	endpoints []*discoveryv1.EndpointSlice,
) error {
	return c.call(ctx, "update endpoints", s, nodes, endpoints...)
}

func addressesOf(all []*discoveryv1.EndpointSlice) string {
	var addresses []string
	for _, slice := range all {
		for _, endpoint := range slice.Endpoints {
			addresses = append(addresses, endpoint.Addresses...)
		}
	}
	slices.Sort(addresses)
	return strings.Join(addresses, " ")
}

func (w *world) balancer() cloudprovider.LoadBalancer {
	if w.wants == nil {
		return w.cloud
	}
	return endpointCloud{w.cloud, w.wants}
}

func (w *world) endpointInformers() (informers.SharedInformerFactory, error) {
	return informerview.New(informers.NewSharedInformerFactoryWithOptions(
		informerview.ListingClient(w.client), 0,
		informers.WithTransform(members.TrimEndpointSlice))), nil
}

// setEndpoints creates or changes the one EndpointSlice of a Service.
func (w *world) setEndpoints(service string, addresses ...string) {
	w.t.Helper()
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: service + "-1",
			Labels: map[string]string{discoveryv1.LabelServiceName: service},
		},
		AddressType: discoveryv1.AddressTypeIPv4,
	}
	for _, address := range addresses {
		slice.Endpoints = append(slice.Endpoints,
			discoveryv1.Endpoint{Addresses: []string{address}})
	}
	client := w.client.DiscoveryV1().EndpointSlices("default")
	_, err := client.Update(context.Background(), slice, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = client.Create(context.Background(), slice, metav1.CreateOptions{})
	}
	if err != nil {
		w.t.Fatal(err)
	}
}

// readsOfEndpoints counts the lists and watches of EndpointSlices.
func (w *world) readsOfEndpoints() (n int) {
	for _, action := range w.client.Actions() {
		if action.GetResource().Resource == "endpointslices" &&
			(action.GetVerb() == "list" || action.GetVerb() == "watch") {
			n++
		}
	}
	return n
}

const toPods = "to-pods"

// annotated wants endpoints for the Services with an annotation.
func annotated(s *v1.Service) bool { return s.Annotations[toPods] != "" }

func annotate(s *v1.Service) { s.Annotations = map[string]string{toPods: "true"} }

func (w *world) last() call {
	w.t.Helper()
	calls := w.calls()
	if len(calls) == 0 {
		w.t.Fatal("the cloud got no call")
	}
	return calls[len(calls)-1]
}

func TestEndpoints_NotWanted_AreNotRead(t *testing.T) {
	for name, wants := range map[string]func(*v1.Service) bool{
		"another provider":  nil,
		"another Service's": annotated,
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, false, func(w *world) {
				w.wants = wants
				defer w.start(onlyDefault).stop()
				w.setEndpoints("web", "10.0.0.1")
				w.add("web")
				w.wait(time.Second)
				w.changeNode("node-1", func(n *v1.Node) { n.Spec.ProviderID = "test://other" })
				w.wait(10 * time.Second)
				if err := errors.Join(want("calls", w.methods(), []string{"ensure", "update"}),
					want("reads", w.readsOfEndpoints(), 0)); err != nil {
					w.t.Error(err)
				}
			})
		})
	}
}

func TestEndpoints_Wanted_ComeWithTheNodes(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.wants = annotated
		defer w.start(onlyDefault).stop()
		w.setEndpoints("web", "10.0.0.1", "10.0.0.2")
		w.setEndpoints("other", "10.0.0.3")
		w.add("web", annotate)
		w.wait(10 * time.Second)
		got := w.last()
		if err := errors.Join(want("calls", w.methods(), []string{"ensure endpoints"}),
			want("endpoints", got.endpoints, "10.0.0.1 10.0.0.2"),
			want("nodes", got.nodes, "node-1"),
			want("address", w.address("web"), "192.0.2.1")); err != nil {
			w.t.Error(err)
		}

		w.addNode("node-2")
		w.wait(10 * time.Second)
		got = w.last()
		if err := errors.Join(want("call", got.method, "update endpoints"),
			want("endpoints", got.endpoints, "10.0.0.1 10.0.0.2"),
			want("nodes", got.nodes, "node-1 node-2")); err != nil {
			w.t.Error(err)
		}

		w.forgetCalls()
		w.change("web", func(s *v1.Service) { s.Annotations = nil })
		w.wait(10 * time.Second)
		w.setEndpoints("web", "10.0.0.4")
		w.wait(10 * time.Second)
		if err := want("calls", w.methods(), []string{"ensure"}); err != nil {
			w.t.Error(err)
		}
	})
}

// A load balancer that forwards to pods depends on the routes to them, and another one does not.
func TestEndpoints_RouteOfANodeChanges_AreUpdated(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.wants = annotated
		defer w.start(onlyDefault).stop()
		w.setEndpoints("web", "10.0.0.1")
		w.add("web", annotate)
		w.add("plain")
		w.wait(10 * time.Second)
		for _, status := range []v1.ConditionStatus{v1.ConditionTrue, v1.ConditionFalse} {
			w.forgetCalls()
			w.changeNode("node-1", func(n *v1.Node) {
				n.Status.Conditions = []v1.NodeCondition{
					{Type: v1.NodeReady, Status: v1.ConditionTrue},
					{
						Type: v1.NodeNetworkUnavailable, Status: status, Reason: "NoRouteCreated",
					},
				}
			})
			w.wait(10 * time.Second)
			if err := want("calls", w.methods(), []string{"update endpoints"}); err != nil {
				w.t.Error(status, err)
			}
		}
		w.forgetCalls()
		w.changeNode("node-1", func(n *v1.Node) { n.Spec.PodCIDRs = []string{"10.0.0.0/24"} })
		w.wait(10 * time.Second)
		if err := want("calls", w.methods(), []string{"update endpoints"}); err != nil {
			w.t.Error("podCIDRs", err)
		}
	})
}

func TestEndpoints_OfAnotherServiceOrUnchanged_LeadToNoCall(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.wants = annotated
		defer w.start(onlyDefault).stop()
		w.setEndpoints("web", "10.0.0.1")
		w.add("web", annotate)
		w.add("plain")
		w.wait(10 * time.Second)
		w.forgetCalls()
		w.setEndpoints("web", "10.0.0.1")
		w.setEndpoints("plain", "10.0.0.2")
		w.setEndpoints("unknown", "10.0.0.3")
		w.wait(10 * time.Second)
		if err := want("calls", w.methods(), []string(nil)); err != nil {
			w.t.Error(err)
		}
	})
}

func TestEndpoints_Rollout_AtMostOneUpdateInTwoSeconds(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.wants = annotated
		defer w.start(onlyDefault).stop()
		pods := make([]string, 100)
		for i := range pods {
			pods[i] = fmt.Sprintf("10.0.0.%d", i)
		}
		w.setEndpoints("web", pods...)
		w.add("web", annotate)
		w.wait(10 * time.Second)
		w.forgetCalls()
		events := w.events("Normal")
		for i := range pods {
			pods[i] = fmt.Sprintf("10.0.1.%d", i)
			w.setEndpoints("web", pods...)
			w.wait(100 * time.Millisecond)
		}
		w.wait(10 * time.Second)
		calls := w.calls()
		for i, c := range calls {
			if c.method != "update endpoints" ||
				i > 0 && c.begin-calls[i-1].begin < 2*time.Second {
				w.t.Errorf("call %d: %s at %s", i, c.method, c.begin)
			}
		}
		slices.Sort(pods)
		if err := errors.Join(
			want("enough calls", len(calls) >= 5, true),
			want("the last one's endpoints", w.last().endpoints, strings.Join(pods, " ")),
			want("events", w.events("Normal"), events)); err != nil {
			w.t.Error(err)
		}
	})
}

func TestEndpoints_Deleted_LeaveTheLoadBalancer(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.wants = annotated
		defer w.start(onlyDefault).stop()
		w.setEndpoints("web", "10.0.0.1")
		w.add("web", annotate)
		w.wait(10 * time.Second)
		if err := w.client.DiscoveryV1().EndpointSlices("default").Delete(context.Background(),
			"web-1", metav1.DeleteOptions{}); err != nil {
			w.t.Fatal(err)
		}
		w.wait(10 * time.Second)
		if err := errors.Join(
			want("calls", w.methods(), []string{"ensure endpoints", "update endpoints"}),
			want("endpoints", w.last().endpoints, "")); err != nil {
			w.t.Error(err)
		}
	})
}

// A Manager without the right to read EndpointSlices serves the other Services.
func TestEndpoints_Forbidden_AWarningSaysWhy(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.wants = annotated
		var isAllowed atomic.Bool
		w.client.PrependReactor("list", "endpointslices",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				if isAllowed.Load() {
					return false, nil, nil
				}
				return true, nil, apierrors.NewForbidden(
					discoveryv1.Resource("endpointslices"), "", errors.New("no rule"))
			})
		defer w.start(onlyDefault).stop()
		w.add("web", annotate)
		w.add("plain")
		w.wait(10 * time.Second)
		if err := errors.Join(want("calls", w.methods(), []string{"ensure"}),
			want("the other one's address", w.address("plain"), "192.0.2.1"),
			want("finalizer", w.hasFinalizer("web"), false),
			want("reported", w.hasTrouble("informer of endpointslices"), true),
			want("warnings", slices.Compact(w.events("Warning")),
				[]string{"SyncLoadBalancerFailed"})); err != nil {
			w.t.Error(err)
		}
		w.mu.Lock()
		for _, e := range w.recorded {
			if e.Type == v1.EventTypeWarning && !strings.Contains(e.Message, "forbidden") {
				w.t.Errorf("the Warning does not say why: %s", e.Message)
			}
		}
		w.mu.Unlock()

		isAllowed.Store(true)
		w.wait(15 * time.Minute)
		if err := errors.Join(want("address", w.address("web"), "192.0.2.2"),
			want("reported later", w.hasTrouble("informer of endpointslices"), false)); err != nil {
			w.t.Error(err)
		}
	})
}

func TestEndpoints_Restart_NoUpdateForTheFirstList(t *testing.T) {
	inWorld(t, false, func(w *world) {
		w.wants = annotated
		w.setEndpoints("web", "10.0.0.1")
		for range 2 {
			m := w.start(onlyDefault)
			if w.get("web") == nil {
				w.add("web", annotate)
			}
			w.wait(10 * time.Second)
			m.stop()
			if err := want("calls", w.methods(), []string{"ensure endpoints"}); err != nil {
				w.t.Error(err)
			}
			w.forgetCalls()
		}
	})
}
