package v1provider_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/names"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/example/v1provider"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/provider/fake"
)

// hostV1 is the line that adds the provider to a program.
func hostV1(config string) ccm.Provider {
	return registered.Factory(v1provider.Name,
		func(env ccm.ProviderEnv) (cloudprovider.Interface, error) {
			transport := &http.Transport{DisableKeepAlives: true}
			client := &http.Client{Transport: env.Transport(transport)}
			return v1provider.New(strings.NewReader(config), client)
		})
}

// hosts serves the cloud's API: the host node-1 has the ID h-node-1 and the given pool.
type hosts struct {
	pool        atomic.Value
	requests    atomic.Int64
	connections atomic.Int64
}

func (h *hosts) start(t *testing.T) *httptest.Server {
	t.Helper()
	api := httptest.NewUnstartedServer(h)
	api.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			h.connections.Add(1)
		case http.StateClosed:
			h.connections.Add(-1)
		}
	}
	api.Start()
	t.Cleanup(api.Close)
	return api
}

// settle waits until all earlier requests have been counted, also canceled ones. The server accepts
// connections in order, so it has seen all of them when it answers a new one.
func (h *hosts) settle(t *testing.T, url string) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(url + "/hosts/h-settle")
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	ccmtest.Eventually(t, "the cloud has no connection",
		func(context.Context) (open int64, err error) {
			if open = h.connections.Load(); open > 0 {
				err = fmt.Errorf("it has %d", open)
			}
			return open, err
		})
}

func (h *hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.requests.Add(1)
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, "/hosts/"), "h-")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"id": "h-" + name, "address": "192.0.2.7", "type": "large", "zone": "z", "region": "r",
		"pool": h.pool.Load(),
	})
}

func TestProvider_TwoTerms_ItsControllerActsOnlyWithinThem(t *testing.T) {
	cp := controlplane.ForTest(t)
	admin, err := kubernetes.NewForConfig(cp.RESTConfig())
	if err != nil {
		t.Fatal(err)
	}
	cloud := &hosts{}
	cloud.pool.Store("blue")
	api := cloud.start(t)

	ccmtest.CreateNode(t, admin, ccmtest.TaintedNode("node-1"))
	app := ccmtest.StartManager(t, cp, fake.New(),
		ccmtest.WithProvider(hostV1(fmt.Sprintf("{%q: %q}", "url", api.URL))),
		ccmtest.WithConfig(func(c *ccm.Config) {
			c.Controllers = []string{names.CloudNodeController}
		}))
	served(t, admin, "node-1", "blue")

	app.Elector.Lose(errors.New("partition"))
	if got := app.Elector.WaitReleased(t); !got.Drained {
		t.Errorf("the first term did not drain: %v", got.Err)
	}
	released, mark := time.Now(), cp.Audit().Mark()
	cloud.settle(t, api.URL)
	before := cloud.requests.Load()
	cloud.pool.Store("green")
	ccmtest.CreateNode(t, admin, ccmtest.TaintedNode("node-2"))
	waiting, stopWaiting := context.WithTimeout(t.Context(), ccmtest.WaitLimit)
	defer stopWaiting()
	if _, err := cp.Audit().Wait(waiting, mark, 1, controlplane.ByName("node-2")); err != nil {
		t.Fatal(err)
	}
	records, err := cp.Audit().Since(mark, controlplane.ByUser(app.User()),
		controlplane.ByResource("", "nodes"), controlplane.ReceivedAfter(released))
	if err != nil {
		t.Fatal(err)
	}
	if got := cloud.requests.Load() - before; got > 0 || len(records) > 0 {
		t.Errorf("between the terms the cloud got %d requests, and the API server got %v", got,
			records)
	}

	app.Elector.Lead()
	served(t, admin, "node-1", "green")
	served(t, admin, "node-2", "green")
	app.VerifyNoLeaks()
}

// served waits until upstream's node controller has initialized the node through the V1
// interfaces, and the provider's own controller has labeled it.
func served(t *testing.T, admin kubernetes.Interface, name, pool string) {
	t.Helper()
	ccmtest.Eventually(t, "the node is initialized", ccmtest.Initialized(admin, name))
	ccmtest.Eventually(t, "the node is in the pool "+pool,
		ccmtest.Object(admin.CoreV1().Nodes().Get, name, func(node *corev1.Node) error {
			if node.Labels[v1provider.PoolLabel] != pool ||
				node.Spec.ProviderID != "hosts://h-"+name ||
				node.Labels[corev1.LabelTopologyZone] != "z" ||
				node.Labels[corev1.LabelInstanceTypeStable] != "large" {
				return fmt.Errorf("labels %v, provider ID %s", node.Labels, node.Spec.ProviderID)
			}
			return nil
		}))
}
