package ccm_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientfake "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	servicehelper "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/servicelb"
	"github.com/fxccm/fxccm/provider/fake"
)

// Calls in flight get time on a stop, but a controller that always has a call in flight must not
// use all of it.
func TestStop_ControllerWritesAllTheTime_IsNotWaitedFor(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request,
	) {
		w.WriteHeader(http.StatusConflict)
	}))
	defer server.Close()
	p := standaloneParams("busy")
	p.RESTConfig = &rest.Config{Host: server.URL}
	p.Config.DrainTimeout = metav1.Duration{Duration: time.Hour}
	p.Controllers = []ccm.Controller{{
		Name: "busy",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			client, err := t.Client("busy")
			return ccm.RunnableFunc(func(ctx context.Context) error {
				for ctx.Err() == nil {
					_, _ = client.CoreV1().Nodes().Patch(ctx, "n", types.MergePatchType,
						[]byte("{}"),
						metav1.PatchOptions{})
				}
				return nil
			}), err
		},
	}}
	m, stop := start(t, p)
	waitReady(t, m)
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// The calls have not failed: the next term makes them.
func TestTerm_EndsDuringCalls_CloudControllersRecordNoWarning(t *testing.T) {
	ready := func(status v1.ConditionStatus) []v1.NodeCondition {
		return []v1.NodeCondition{{Type: v1.NodeReady, Status: status}}
	}
	node := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node-1", UID: "1"},
		Spec:       v1.NodeSpec{PodCIDRs: []string{"10.244.1.0/24"}},
		Status: v1.NodeStatus{
			Conditions: ready(v1.ConditionTrue),
			Addresses:  []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.1"}},
		},
	}
	gone := &v1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "gone-1", UID: "2"},
		Status:     v1.NodeStatus{Conditions: ready(v1.ConditionUnknown)},
	}
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web", UID: "3",
			Annotations: map[string]string{servicelb.ServedClass: ""},
			Finalizers:  []string{servicehelper.LoadBalancerCleanupFinalizer},
		},
		Spec: v1.ServiceSpec{Type: v1.ServiceTypeLoadBalancer},
	}
	for _, way := range []string{"stop", "loss"} {
		t.Run(way, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := fake.New()
				if err := cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
					t.Fatal(err)
				}
				cloud.On("CreateRoute", "EnsureLoadBalancer").Hang()
				p := sharedParams(t, clientfake.NewClientset(node, gone, service),
					"cloud-node-lifecycle-controller", "service-lb-controller",
					"node-route-controller")
				p.Config.ClusterCIDR = "10.244.0.0/16"
				p.Providers = []ccm.Provider{cloud.CCMProvider()}
				deletions := make(chan string, 10)
				p.RESTConfig = &rest.Config{
					Host: "http://127.0.0.1:1",
					Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
						if r.Method == http.MethodDelete {
							deletions <- r.URL.Path
						}
						<-r.Context().Done()
						return nil, r.Context().Err()
					}),
				}
				recorder, elector := recordEvents(&p), election.NewHost()
				p.Elector = elector
				_, stop := start(t, p)
				leading, lose := context.WithCancel(t.Context())
				defer lose()
				led := make(chan error, 1)
				go func() { led <- elector.Lead(leading, election.Grant{}) }()
				if got := <-deletions; got != "/api/v1/nodes/gone-1" {
					t.Fatalf("the first deletion is %s", got)
				}
				for _, method := range []fake.Method{"CreateRoute", "EnsureLoadBalancer"} {
					for len(cloud.Calls(func(c fake.Call) bool {
						return c.Method == method
					})) == 0 {
						time.Sleep(time.Second)
					}
				}
				synctest.Wait()
				if way == "stop" {
					if err := stop(); err != nil {
						t.Error(err)
					}
				}
				lose()
				if err := <-led; err != nil {
					t.Error(err)
				}
				synctest.Wait()
				var seen []string
				for len(recorder.Events) > 0 {
					seen = append(seen, <-recorder.Events)
				}
				if slices.ContainsFunc(seen, func(event string) bool {
					return strings.HasPrefix(event, v1.EventTypeWarning)
				}) {
					t.Errorf("the events are %q, want no Warning", seen)
				}
			})
		})
	}
}
