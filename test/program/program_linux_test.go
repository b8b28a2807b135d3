// Package program_test runs a cloud controller manager of an older Kubernetes, built only with
// upstream's framework, as a program behind the Manager's election and fence. The program is a
// separate module in the folder ccm.
package program_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/hosting/program"
)

var cluster *controlplane.ControlPlane

func TestMain(m *testing.M) {
	os.Exit(controlplane.Tests{M: m, ControlPlane: &cluster}.Run())
}

// stubCloud has an instance for each node, and records the requests.
type stubCloud struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string
}

func newStubCloud(t *testing.T) *stubCloud {
	t.Helper()
	c := &stubCloud{}
	c.Server = httptest.NewServer(c)
	t.Cleanup(c.Close)
	return c
}

func (c *stubCloud) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	c.requests = append(c.requests, r.Method+" "+r.URL.Path)
	c.mu.Unlock()
	switch path.Dir(r.URL.Path) {
	case "/instances":
		_ = json.NewEncoder(w).Encode(cloudprovider.InstanceMetadata{
			ProviderID:    "stub://" + path.Base(r.URL.Path),
			NodeAddresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.7"}},
		})
	case "/loadbalancers":
		_ = json.NewEncoder(w).Encode(v1.LoadBalancerStatus{
			Ingress: []v1.LoadBalancerIngress{{IP: "203.0.113.7"}},
		})
	}
}

func (c *stubCloud) received() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string{}, c.requests...)
}

// build builds the program.
func build(t *testing.T) string {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "ccm")
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", binary, ".")
	command.Dir = "ccm"
	command.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("build the program: %v\n%s", err, output)
	}
	return binary
}

func TestUpstreamsCommand_OfOlderKubernetes_ServesTwoTermsBehindTheFence(t *testing.T) {
	cloud := newStubCloud(t)
	t.Setenv("STUB_CLOUD", cloud.URL)
	app := ccmtest.StartManager(t, cluster, nil, ccmtest.WithProvider(program.Provider(
		program.Options{
			Name: "stub", Path: build(t),
			Args: append(program.UpstreamArgs(),
				"--cloud-provider=stub", "--controllers=*,-node-route-controller"),
			HealthURL: program.UpstreamHealthURL,
		})))
	for term := range 2 {
		if term > 0 {
			app.Elector.Lead()
		}
		app.WaitReady()
		name := fmt.Sprintf("term-%d", term)
		ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode(name))
		if id := ccmtest.Eventually(t, "the node is initialized",
			ccmtest.Initialized(app.Client, name)).Spec.ProviderID; id !=
			"stub://"+name {
			t.Errorf("the Node has the provider ID %q", id)
		}
		ccmtest.CreateService(t, app.Client, ccmtest.LoadBalancerService(name))
		ccmtest.Eventually(t, "the Service has an address",
			ccmtest.ServiceAddress(app.Client, "default", name))

		app.Elector.Lose(nil)
		if released := app.Elector.WaitReleased(t); !released.Drained {
			t.Errorf("term %d did not drain: %v", term+1, released.Err)
		}
		mark, before := cluster.Audit().Mark(), len(cloud.received())
		ccmtest.CreateNode(t, app.Client, ccmtest.TaintedNode("after-"+name))
		writes, err := cluster.Audit().Since(mark, controlplane.ByUser(app.User()),
			controlplane.Mutating())
		if err != nil || len(writes) > 0 {
			t.Errorf("the API server received after the term: %v, %v", writes, err)
		}
		if late := cloud.received()[before:]; len(late) > 0 {
			t.Errorf("the cloud received after the term: %s", strings.Join(late, ", "))
		}
	}
}
