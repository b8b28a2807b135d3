package fake

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
)

const defaultCallLimit = 100_000

// A Cloud is the state of a cloud, its faults, and a record of its calls. Any number of providers
// can be opened on it. All methods are safe for concurrent use. A Cloud has no goroutines and needs
// no closing.
type Cloud struct {
	// New sets these fields.
	name, region, zone string
	hasClusterID       bool
	routeNodeAddresses bool
	supported          map[Interface]bool
	clusters           map[string]string

	changes *signal
	record  *record
	faults  *faults

	// mu guards the following fields.
	mu           sync.Mutex
	instances    map[string]Instance
	instanceByID map[string]string
	balancers    map[balancerKey]*Balancer
	routes       map[routeKey]Route
	hosts        *pool
	ingressIPv4  *pool
	ingressIPv6  *pool
}

// New returns an empty cloud without faults. It panics with an explanation if an option is invalid.
func New(opts ...Option) *Cloud {
	c := &Cloud{
		name: "fake", region: "region-1", zone: "region-1a",
		hasClusterID: true,
		supported:    map[Interface]bool{},
		clusters:     map[string]string{},
		changes:      newSignal(),
		faults:       newFaults(),
		instances:    map[string]Instance{},
		instanceByID: map[string]string{},
		balancers:    map[balancerKey]*Balancer{},
		routes:       map[routeKey]Route{},
		hosts:        newPool("10.240.0.0/16"),
		// These ranges are for documentation and for benchmarks: RFC 5737, RFC 2544, RFC 3849. They
		// are not routed.
		ingressIPv4: newPool("192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "198.18.0.0/15"),
		ingressIPv6: newPool("2001:db8::/64"),
	}
	c.record = newRecord(defaultCallLimit, c.changes.notify)
	for _, i := range optional() {
		c.supported[i] = true
	}
	for _, opt := range opts {
		opt(c)
	}
	return c
}

// WaitUntil waits until cond holds. It calls cond now and after every change: the begin or end of a
// call, or a change of the cloud's instances, load balancers or routes. cond is called without a
// lock and may use the Cloud. If ctx ends first, the error wraps the error of ctx.
func (c *Cloud) WaitUntil(ctx context.Context, cond func() bool) error {
	for {
		// The channel is taken before cond is called, so that no change between the two is missed.
		changed := c.changes.next()
		if cond() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("wait for the fake cloud to reach a state: %w", ctx.Err())
		}
	}
}

// info is the data of a cloud that a provider needs before its first call.
type info struct {
	ProviderName string `json:"providerName"`
	HasClusterID bool   `json:"hasClusterID"`
	// RouteNodeAddresses is every route's EnableNodeAddresses.
	RouteNodeAddresses bool        `json:"routeNodeAddresses"`
	Supported          []Interface `json:"supported"`
}

func (i info) supports(which Interface) bool { return slices.Contains(i.Supported, which) }

func (c *Cloud) info() info {
	return info{
		ProviderName:       c.name,
		HasClusterID:       c.hasClusterID,
		RouteNodeAddresses: c.routeNodeAddresses,
		Supported:          slices.Sorted(maps.Keys(c.supported)),
	}
}

// call handles every call, whether it comes from a provider in this process or over HTTP.
func (c *Cloud) call(
	ctx context.Context, caller string, method Method, args arguments,
) (_ results, err error) {
	op, err := operationFor(method, args)
	if err != nil {
		return results{}, err
	}
	begun := Call{
		Caller:    caller,
		Interface: op.of,
		Method:    method,
		Object:    op.about.name(c, args),
		Mutating:  op.mutating,
		CtxDone:   ctx.Err() != nil,
	}
	// The fault is taken before the call is visible: a test that waits for the call and then makes
	// another must find the fault used.
	before := c.faults.take(begun, false)
	entry := c.record.begin(begun)
	returned := false
	defer func() {
		// recover would lose the stack of the panic.
		if !returned {
			err = errPanicked
		}
		c.record.end(entry, err)
	}()
	res, err := c.perform(ctx, op, before, entry.Call, args)
	returned = true
	return res, err
}

// perform applies the faults before the effect, then the effect, then the faults after it.
func (c *Cloud) perform(
	ctx context.Context, op operation, before plan, call Call, args arguments,
) (results, error) {
	if before.ignoreContext() {
		ctx = context.WithoutCancel(ctx)
	}
	if err := sleep(ctx, c.faults.latencyOf(op)); err != nil {
		return results{}, err
	}
	if ended, err := before.play(ctx); ended {
		return results{}, err
	}
	res, err := op.serve(c, args)
	if err != nil {
		return results{}, err
	}
	after := c.faults.take(call, true)
	if after.ignoreContext() {
		ctx = context.WithoutCancel(ctx)
	}
	if ended, err := after.play(ctx); ended {
		return results{}, err
	}
	return res, nil
}

// signal wakes all goroutines that wait for a change.
type signal struct {
	mu sync.Mutex
	ch chan struct{}
}

func newSignal() *signal { return &signal{ch: make(chan struct{})} }

// next returns a channel that is closed by the next notify.
func (s *signal) next() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ch
}

func (s *signal) notify() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.ch)
	s.ch = make(chan struct{})
}
