// Package stub is a Huawei Cloud in memory, for tests: ECS, ELB and EIP behind one server, in the
// wire forms of Huawei's SDK. It verifies the signature of each request, and enforces the rules of
// the APIs on which the provider depends.
package stub

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	ecsmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/ecs/v2/model"
	eipmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/eip/v2/model"
	elbmodel "github.com/huaweicloud/huaweicloud-sdk-go-v3/services/elb/v3/model"
)

// The identity and the network of the stub.
const (
	ProjectID       = "05041fffa40025702f6dc009cc6f8f33"
	AccessKeyID     = "STUBACCESSKEY"
	AccessKeySecret = "stub-secret-key"
	VPC             = "30000000-0000-4000-8000-000000000001"
	Subnet          = "40000000-0000-4000-8000-000000000001"
	Zone            = "stub-1a"

	// SecondSubnet has the addresses 192.168.200.0/24 of the VPC; Subnet has the others.
	SecondSubnet = "40000000-0000-4000-8000-000000000002"
)

// Request is a request that the stub has received. Operation is the method with the collection,
// such as "POST listeners" or "DELETE pools".
type Request struct {
	Operation, Path, Body string
	Status                int
}

// Cloud is the stub. It is safe for concurrent use.
type Cloud struct {
	URL string
	// Handler is the handler of the stub, without the server.
	Handler http.Handler

	mu       sync.Mutex
	server   *httptest.Server
	requests []Request
	holds    map[string]chan struct{}
	released chan struct{}
	failures map[string][]failure
	count    int

	servers   map[string]ecsmodel.ServerDetail
	balancers map[string]*elbmodel.LoadBalancer
	listeners map[string]*elbmodel.Listener
	pools     map[string]*elbmodel.Pool
	members   map[string]map[string]*elbmodel.Member
	monitors  map[string]*elbmodel.HealthMonitor
	publicIPs map[string]*eipmodel.PublicipShowResp
	groups    map[string]*elbmodel.IpGroup
}

type failure struct {
	// after is the number of requests that succeed first.
	after, status int
	code, message string
}

// New starts a stub that ends with the test.
func New(t testing.TB) *Cloud {
	t.Helper()
	c := &Cloud{
		holds: map[string]chan struct{}{}, released: make(chan struct{}),
		failures:  map[string][]failure{},
		servers:   map[string]ecsmodel.ServerDetail{},
		balancers: map[string]*elbmodel.LoadBalancer{},
		listeners: map[string]*elbmodel.Listener{},
		pools:     map[string]*elbmodel.Pool{},
		members:   map[string]map[string]*elbmodel.Member{},
		monitors:  map[string]*elbmodel.HealthMonitor{},
		publicIPs: map[string]*eipmodel.PublicipShowResp{},
		groups:    map[string]*elbmodel.IpGroup{},
	}
	mux := http.NewServeMux()
	c.routeServers(mux)
	c.routeBalancers(mux)
	c.routeParts(mux)
	c.routeGroups(mux)
	c.routePublicIPs(mux)
	c.Handler = c.gate(mux)
	c.server = httptest.NewServer(c.Handler)
	c.URL = c.server.URL
	t.Cleanup(func() {
		c.Release()
		c.server.Close()
	})
	return c
}

// Requests returns the requests so far, without those that are held.
func (c *Cloud) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

// Forget drops the requests so far.
func (c *Cloud) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests = nil
}

// Writes returns the operations of the changes so far.
func (c *Cloud) Writes() []string {
	var writes []string
	for _, r := range c.Requests() {
		if !strings.HasPrefix(r.Operation, http.MethodGet) {
			writes = append(writes, r.Operation)
		}
	}
	return writes
}

// Hold blocks requests of an operation, before they have an effect, until Release or until the
// client leaves. The channel receives a value for each one that is held.
func (c *Cloud) Hold(operation string) <-chan struct{} {
	c.mu.Lock()
	defer c.mu.Unlock()
	held := make(chan struct{}, 100)
	c.holds[operation] = held
	return held
}

// Release ends all holds.
func (c *Cloud) Release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds = map[string]chan struct{}{}
	close(c.released)
	c.released = make(chan struct{})
}

// Fail refuses the next request of an operation.
func (c *Cloud) Fail(operation string, status int, code, message string) {
	c.FailLater(operation, 0, status, code, message)
}

// FailLater refuses one request of an operation, after others that succeed.
func (c *Cloud) FailLater(operation string, after, status int, code, message string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failures[operation] = append(c.failures[operation], failure{after, status, code, message})
}

// gate verifies, holds, fails and records requests.
func (c *Cloud) gate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(strings.NewReader(string(body)))
		operation := operationOf(r)
		if !c.pass(r, operation) {
			return
		}
		recorder := &statusRecorder{ResponseWriter: w, status: http.StatusOK}
		c.mu.Lock()
		defer c.mu.Unlock()
		planned := c.failures[operation]
		isDue := len(planned) > 0 && planned[0].after == 0
		if len(planned) > 0 && !isDue {
			planned[0].after--
		}
		switch problem := verify(r, body); {
		case problem != "":
			refuse(recorder, http.StatusUnauthorized, "APIGW.0301",
				"Incorrect IAM authentication information: "+problem)
		case isDue:
			c.failures[operation] = planned[1:]
			refuse(recorder, planned[0].status, planned[0].code, planned[0].message)
		default:
			next.ServeHTTP(recorder, r)
		}
		c.requests = append(c.requests,
			Request{operation, r.URL.RequestURI(), string(body), recorder.status})
	})
}

// pass waits while the operation is held. It returns false if the client has left.
func (c *Cloud) pass(r *http.Request, operation string) bool {
	c.mu.Lock()
	held, isHeld := c.holds[operation]
	released := c.released
	c.mu.Unlock()
	if !isHeld {
		return true
	}
	held <- struct{}{}
	select {
	case <-released:
		return r.Context().Err() == nil
	case <-r.Context().Done():
		return false
	}
}

type statusRecorder struct {
	http.ResponseWriter
	status int
}

func (s *statusRecorder) WriteHeader(status int) {
	s.status = status
	s.ResponseWriter.WriteHeader(status)
}

// operationOf is the method with the last collection of the path.
func operationOf(r *http.Request) string {
	collections := []string{
		"members", "healthmonitors", "pools", "listeners", "availability-zones", "loadbalancers",
		"publicips", "cloudservers", "ipgroups",
	}
	for _, collection := range collections {
		if strings.Contains(r.URL.Path+"/", "/"+collection+"/") {
			return r.Method + " " + collection
		}
	}
	return r.Method + " " + r.URL.Path
}

// subnetOf returns the subnet of an address.
func subnetOf(address string) string {
	if strings.HasPrefix(address, "192.168.200.") {
		return SecondSubnet
	}
	return Subnet
}

// id returns a new ID in the form of a UUID. It is called with the lock held, as all handlers are.
func (c *Cloud) id() string {
	c.count++
	return fmt.Sprintf("%08d-0000-4000-8000-%012d", c.count, c.count)
}

// address is the next one of an IPv4 network with a prefix of two bytes. It needs the lock.
func (c *Cloud) address(prefix string) string {
	return fmt.Sprintf("%s.%d.%d", prefix, 100+c.count/250, 1+c.count%250)
}

// refuse writes an error of ELB or of the API gateway.
func refuse(w http.ResponseWriter, status int, code, message string) {
	reply(w, status, map[string]any{
		"error_code": code, "error_msg": message, "request_id": "stub-request",
	})
}

func reply(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Request-Id", "stub-request")
	w.WriteHeader(status)
	if body != nil {
		_ = json.NewEncoder(w).Encode(body)
	}
}

// decode reads the body of a request. It replies and returns false if the body is invalid.
func decode(w http.ResponseWriter, r *http.Request, into any) bool {
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(into); err != nil {
		refuse(w, http.StatusBadRequest, "APIGW.0106", err.Error())
		return false
	}
	return true
}

// matches reports whether a query has no value for the key or this one among others.
func matches(r *http.Request, key, value string) bool {
	values := r.URL.Query()[key]
	return len(values) == 0 || slices.Contains(values, value)
}

// page returns one page of a list in the order of IDs.
func page[T any](r *http.Request, all map[string]*T, size int,
	keep func(id string, item *T) bool,
) (items []T, next *string) {
	ids := make([]string, 0, len(all))
	for id, item := range all {
		if id > r.URL.Query().Get("marker") && keep(id, item) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	items = []T{}
	for at, id := range ids {
		if at == size {
			return items, &ids[at-1]
		}
		items = append(items, *all[id])
	}
	return items, nil
}
