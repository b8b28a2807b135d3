package conformance_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/provider/fake"
)

// adoptedAnnotation names the load balancer of the user.
const adoptedAnnotation = "example.com/load-balancer-id"

// stub is the fake cloud behind an HTTP server. It also has load balancers of the user.
type stub struct {
	conformance.Gate
	cloud *fake.Cloud
	file  string

	mu      sync.Mutex
	adopted map[string]bool
}

var _ conformance.Adopter = (*stub)(nil)

func newStub(t testing.TB) conformance.Cloud {
	t.Helper()
	s := &stub{
		cloud: fake.New(), file: filepath.Join(t.TempDir(), "cloud.conf"),
		adopted: map[string]bool{},
	}
	mux := http.NewServeMux()
	mux.Handle("/", s.cloud.Handler())
	mux.HandleFunc("DELETE /adopted/{id}", func(_ http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.adopted, r.PathValue("id"))
	})
	server := httptest.NewServer(s.Handler(mux, classify))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	if err := os.WriteFile(s.file, []byte(server.URL), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// classify names a request by the called method. The fake client sends changes as POST.
func classify(r *http.Request) (operation string, mutating bool) {
	return path.Base(r.URL.Path), r.Method != http.MethodGet
}

func (s *stub) ConfigFile() string { return s.file }

func (s *stub) AddInstance(node string) {
	if err := s.cloud.AddInstances(fake.Instance{Name: node}); err != nil {
		panic(err)
	}
}

func (s *stub) RemoveInstance(node string) {
	if err := s.cloud.RemoveInstance(node); err != nil {
		panic(err)
	}
}

func (s *stub) AddLoadBalancer() (id string, annotations map[string]string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adopted["mine"] = true
	return "mine", map[string]string{adoptedAnnotation: "mine"}
}

func (s *stub) HasLoadBalancer(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.adopted[id]
}

// dialed is a well-behaved provider for a stub.
type dialed struct {
	cloudprovider.Interface
	client  *fake.Client
	address string
}

func dial(ctx context.Context, env ccm.ProviderEnv) (*dialed, error) {
	text, err := os.ReadFile(env.ConfigFile)
	if err != nil {
		return nil, err
	}
	address := strings.TrimSpace(string(text))
	client, err := fake.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("configuration file %s: %w", env.ConfigFile, err)
	}
	return &dialed{client.Provider(), client, address}, nil
}

func (d *dialed) Close() error {
	d.client.Close()
	return nil
}

// LoadBalancer returns load balancers. It uses those of the user, but does not change them.
func (d *dialed) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	inner, ok := d.Interface.LoadBalancer()
	return adopting{inner}, ok
}

type adopting struct{ cloudprovider.LoadBalancer }

func (a adopting) EnsureLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	if service.Annotations[adoptedAnnotation] != "" {
		return &corev1.LoadBalancerStatus{
			Ingress: []corev1.LoadBalancerIngress{{IP: "192.0.2.200"}},
		}, nil
	}
	return a.LoadBalancer.EnsureLoadBalancer(ctx, cluster, service, nodes)
}

func (a adopting) UpdateLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) error {
	if service.Annotations[adoptedAnnotation] != "" {
		return nil
	}
	return a.LoadBalancer.UpdateLoadBalancer(ctx, cluster, service, nodes)
}

func (a adopting) GetLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	if service.Annotations[adoptedAnnotation] != "" {
		return &corev1.LoadBalancerStatus{}, true, nil
	}
	return a.LoadBalancer.GetLoadBalancer(ctx, cluster, service)
}

func (a adopting) EnsureLoadBalancerDeleted(
	ctx context.Context, cluster string, service *corev1.Service,
) error {
	if service.Annotations[adoptedAnnotation] != "" {
		return nil
	}
	return a.LoadBalancer.EnsureLoadBalancerDeleted(ctx, cluster, service)
}
