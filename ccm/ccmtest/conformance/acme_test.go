package conformance_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
)

// Acme is the provider of the page "Write a provider", with a stub of its cloud.

// docs: begin client
// acmeClient makes requests to the API of Acme.
type acmeClient struct {
	endpoint  string
	transport *http.Transport
	http      *http.Client
}

var errAcmeNotFound = errors.New("not found")

// do makes one request. It is canceled with ctx, and refused after the term.
func (c *acmeClient) do(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, c.endpoint+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return errAcmeNotFound
	case resp.StatusCode >= 300:
		return fmt.Errorf("%s %s: %s", method, path, resp.Status)
	case out == nil:
		return nil
	}
	return json.NewDecoder(resp.Body).Decode(out)
}

// docs: end

// docs: begin provider
// newAcme builds the provider for one term.
func newAcme(_ context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
	text, err := os.ReadFile(env.ConfigFile)
	if err != nil {
		return nil, err
	}
	var config struct {
		Endpoint string `json:"endpoint"`
	}
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return nil, fmt.Errorf("%s: %w", env.ConfigFile, err)
	}
	if u, err := url.Parse(config.Endpoint); err != nil || u.Host == "" {
		return nil, fmt.Errorf("%s: endpoint %q is not a URL", env.ConfigFile, config.Endpoint)
	}
	transport := &http.Transport{}
	return &acme{&acmeClient{
		endpoint: config.Endpoint, transport: transport,
		http: &http.Client{Transport: env.Transport(transport)},
	}}, nil
}

// acme implements cloudprovider.Interface. It serves instances and load balancers.
type acme struct{ client *acmeClient }

func (a *acme) ProviderName() string { return "acme" }

func (a *acme) HasClusterID() bool { return true }

// Initialize starts no background work.
func (a *acme) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

func (a *acme) InstancesV2() (cloudprovider.InstancesV2, bool) {
	return acmeInstances{a.client}, true
}

func (a *acme) LoadBalancer() (cloudprovider.LoadBalancer, bool) {
	return acmeBalancers{a.client}, true
}

func (a *acme) Instances() (cloudprovider.Instances, bool) { return nil, false }

func (a *acme) Zones() (cloudprovider.Zones, bool) { return nil, false }

func (a *acme) Clusters() (cloudprovider.Clusters, bool) { return nil, false }

func (a *acme) Routes() (cloudprovider.Routes, bool) { return nil, false }

// Close closes the connections of the term.
func (a *acme) Close() error {
	a.client.transport.CloseIdleConnections()
	return nil
}

// docs: end

// docs: begin instances
// acmeInstances implements cloudprovider.InstancesV2.
type acmeInstances struct{ client *acmeClient }

type acmeServer struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Running bool   `json:"running"`
}

const acmeScheme = "acme://"

// find returns the server of a Node: by the provider ID, or by the name while the Node has none.
func (i acmeInstances) find(ctx context.Context, node *corev1.Node) (acmeServer, error) {
	id := strings.TrimPrefix(node.Spec.ProviderID, acmeScheme) // a bare ID is an ID, too
	if id == "" {
		id = node.Name
	}
	var server acmeServer
	err := i.client.do(ctx, http.MethodGet, "/servers/"+url.PathEscape(id), nil, &server)
	if errors.Is(err, errAcmeNotFound) {
		err = cloudprovider.InstanceNotFound
	}
	return server, err
}

// InstanceExists returns an error if the cloud did not answer.
func (i acmeInstances) InstanceExists(ctx context.Context, node *corev1.Node) (bool, error) {
	_, err := i.find(ctx, node)
	if errors.Is(err, cloudprovider.InstanceNotFound) {
		return false, nil
	}
	return err == nil, err
}

func (i acmeInstances) InstanceShutdown(ctx context.Context, node *corev1.Node) (bool, error) {
	server, err := i.find(ctx, node)
	return err == nil && !server.Running, err
}

func (i acmeInstances) InstanceMetadata(
	ctx context.Context, node *corev1.Node,
) (*cloudprovider.InstanceMetadata, error) {
	server, err := i.find(ctx, node)
	if err != nil {
		return nil, err
	}
	return &cloudprovider.InstanceMetadata{
		ProviderID:   acmeScheme + server.ID,
		InstanceType: "standard",
		NodeAddresses: []corev1.NodeAddress{
			{Type: corev1.NodeHostName, Address: node.Name},
			{Type: corev1.NodeInternalIP, Address: server.Address},
		},
	}, nil
}

// docs: end

// docs: begin balancers
// acmeBalancers implements cloudprovider.LoadBalancer.
type acmeBalancers struct{ client *acmeClient }

type acmeBalancer struct {
	Address string   `json:"address"`
	Members []string `json:"members"`
}

// GetLoadBalancerName returns a name that is unique for the Service.
func (b acmeBalancers) GetLoadBalancerName(
	_ context.Context, _ string, service *corev1.Service,
) string {
	return string(service.UID)
}

func (b acmeBalancers) path(service *corev1.Service) string {
	return "/balancers/" + string(service.UID)
}

func (b acmeBalancers) GetLoadBalancer(
	ctx context.Context, _ string, service *corev1.Service,
) (*corev1.LoadBalancerStatus, bool, error) {
	var found acmeBalancer
	err := b.client.do(ctx, http.MethodGet, b.path(service), nil, &found)
	if errors.Is(err, errAcmeNotFound) {
		return nil, false, nil
	}
	return acmeStatus(found), err == nil, err
}

// EnsureLoadBalancer creates or updates. It is idempotent.
func (b acmeBalancers) EnsureLoadBalancer(
	ctx context.Context, _ string, service *corev1.Service, nodes []*corev1.Node,
) (*corev1.LoadBalancerStatus, error) {
	want := acmeBalancer{}
	for _, node := range nodes {
		want.Members = append(want.Members, node.Spec.ProviderID)
	}
	var made acmeBalancer
	if err := b.client.do(ctx, http.MethodPut, b.path(service), want, &made); err != nil {
		return nil, err
	}
	return acmeStatus(made), nil
}

func (b acmeBalancers) UpdateLoadBalancer(
	ctx context.Context, cluster string, service *corev1.Service, nodes []*corev1.Node,
) error {
	_, err := b.EnsureLoadBalancer(ctx, cluster, service, nodes)
	return err
}

// EnsureLoadBalancerDeleted succeeds if the load balancer does not exist.
func (b acmeBalancers) EnsureLoadBalancerDeleted(
	ctx context.Context, _ string, service *corev1.Service,
) error {
	err := b.client.do(ctx, http.MethodDelete, b.path(service), nil, nil)
	if errors.Is(err, errAcmeNotFound) {
		return nil
	}
	return err
}

func acmeStatus(b acmeBalancer) *corev1.LoadBalancerStatus {
	return &corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: b.Address}}}
}

// docs: end

// docs: begin stub
// acmeStub is the cloud in a test. The gate records, holds and fails its requests.
type acmeStub struct {
	conformance.Gate
	file string

	mu        sync.Mutex
	servers   map[string]acmeServer
	balancers map[string]acmeBalancer
}

func newAcmeStub(t testing.TB) conformance.Cloud {
	t.Helper()
	s := &acmeStub{
		file:      filepath.Join(t.TempDir(), "acme.yaml"),
		servers:   map[string]acmeServer{},
		balancers: map[string]acmeBalancer{},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/servers/{id}", s.serveServer)
	mux.HandleFunc("/balancers/{id}", s.serveBalancer)
	server := httptest.NewServer(s.Handler(mux, acmeOperation))
	t.Cleanup(server.Close)
	if err := os.WriteFile(s.file, []byte("endpoint: "+server.URL+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

// acmeOperation names requests of the same kind.
func acmeOperation(r *http.Request) (operation string, mutating bool) {
	return r.Method + " " + filepath.Dir(r.URL.Path), r.Method != http.MethodGet
}

func (s *acmeStub) serveServer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	server, ok := s.servers[r.PathValue("id")]
	if !ok {
		http.NotFound(w, r)
		return
	}
	_ = json.NewEncoder(w).Encode(server)
}

func (s *acmeStub) serveBalancer(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := r.PathValue("id")
	balancer, ok := s.balancers[id]
	switch {
	case r.Method == http.MethodPut:
		if err := json.NewDecoder(r.Body).Decode(&balancer); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		balancer.Address = "192.0.2.1"
		s.balancers[id] = balancer
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method == http.MethodDelete:
		delete(s.balancers, id)
	}
	_ = json.NewEncoder(w).Encode(balancer)
}

func (s *acmeStub) ConfigFile() string { return s.file }

func (s *acmeStub) AddInstance(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.servers[node] = acmeServer{ID: node, Address: "10.0.0.1", Running: true}
}

func (s *acmeStub) RemoveInstance(node string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.servers, node)
}

// docs: end

func TestAcme_Conforms(t *testing.T) {
	t.Parallel()
	// docs: begin conformance
	report := conformance.Run(t, conformance.Suite{
		Provider:  ccm.Provider{Name: "acme", New: newAcme},
		NewCloud:  newAcmeStub,
		BadConfig: "endpoint: nowhere\n",
		Cluster:   cluster, // optional: an API server that other tests use, too
	})
	// docs: end
	page, err := os.ReadFile("../../../docs/how-to/write-a-provider.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(page), "```text\nprovider acme\n")
	shown, _, ended := strings.Cut(shown, "\n```")
	if !found || !ended {
		t.Fatal("the page shows no report")
	}
	want := outcomes(shown)
	if got := outcomes(report.String())[1:]; !slices.Equal(got, want) {
		t.Errorf("the page shows %q, want %q", want, got)
	}
}

// outcomes are the lines of a report without the columns that differ from run to run.
func outcomes(report string) (lines []string) {
	for line := range strings.Lines(report) {
		words := strings.Fields(line)
		if len(words) > 3 {
			words = words[:2]
		}
		lines = append(lines, strings.Join(words, " "))
	}
	return lines
}
