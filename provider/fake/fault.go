package fake

import (
	"context"
	"slices"
	"sync"
	"time"
)

// A FaultBuilder first chooses calls and then defines their fault. [Cloud.On] returns one:
//
//	cloud.On("EnsureLoadBalancer").For("default/web").Times(2).Fail(err)
//	release := cloud.On("InstanceMetadata").IgnoringContext().Hang()
//
// Delay, Hang, Fail, Panic and ReturnZero inject the fault. They return a function that clears the
// fault and releases the calls that hang in it; it may be called more than once. The other methods
// return a changed copy.
//
// For a combination inject several faults: all faults that match a call apply in order, until one
// of them ends the call. An invalid fault, such as Times(-1), panics with the reason.
type FaultBuilder struct {
	cloud *Cloud
	fault fault
}

// On begins a fault for calls of any of the methods, or of all methods if none is given.
func (c *Cloud) On(methods ...Method) FaultBuilder {
	for _, m := range methods {
		mustExist(m)
	}
	return FaultBuilder{cloud: c, fault: fault{methods: slices.Clone(methods)}}
}

// For matches calls about the object only; see [Call].Object.
func (b FaultBuilder) For(object string) FaultBuilder {
	b.fault.object = object
	return b
}

// By matches calls of the caller only; see [WithCaller].
func (b FaultBuilder) By(caller string) FaultBuilder {
	b.fault.caller = caller
	return b
}

// Times matches only the next n calls; without it the fault lasts until it is cleared.
func (b FaultBuilder) Times(n int) FaultBuilder {
	if n < 1 {
		panic("fake: a fault for less than one call")
	}
	b.fault.times = n
	return b
}

// IgnoringContext makes the matching calls ignore their context, like a provider that does not pass
// it on.
func (b FaultBuilder) IgnoringContext() FaultBuilder {
	b.fault.ignoreContext = true
	return b
}

// AfterEffect makes the matching calls do their work first: the fault happens when the cloud has
// changed and the caller has no result yet.
func (b FaultBuilder) AfterEffect() FaultBuilder {
	b.fault.afterEffect = true
	return b
}

// Delay makes the calls take d longer. They end early when their context ends.
func (b FaultBuilder) Delay(d time.Duration) (clearFault func()) {
	b.fault.delay = d
	return b.inject()
}

// Hang makes the calls wait until release or [Cloud.ClearFaults] is called, or until their context
// ends. After a release they continue normally.
func (b FaultBuilder) Hang() (release func()) {
	b.fault.hang = true
	return b.inject()
}

// Fail makes the calls return err unchanged.
func (b FaultBuilder) Fail(err error) (clearFault func()) {
	if err == nil {
		panic("fake: a fault that fails calls needs an error")
	}
	b.fault.end = func() error { return err }
	return b.inject()
}

// Panic makes the calls panic with value.
func (b FaultBuilder) Panic(value any) (clearFault func()) {
	b.fault.end = func() error { panic(value) }
	return b.inject()
}

// ReturnZero makes the calls return their zero results without an error: (nil, nil) for
// InstanceMetadata and EnsureLoadBalancer.
func (b FaultBuilder) ReturnZero() (clearFault func()) {
	b.fault.end = func() error { return nil }
	return b.inject()
}

func (b FaultBuilder) inject() func() {
	r := b.cloud.faults.add(b.fault)
	return func() { b.cloud.faults.remove(r) }
}

// fault changes the behavior of some calls. All faults that match a call apply, in the order of
// their injection, up to and including the first that ends the call.
type fault struct {
	// methods, object and caller select calls; empty fields match all.
	methods        []Method
	object, caller string
	// times limits the calls; 0 means until the fault is cleared.
	times int

	delay time.Duration
	// hang waits until the fault is cleared.
	hang bool
	// end returns the call's error instead of doing its work; nil continues.
	end func() error

	// ignoreContext holds from the beginning of the call, with afterEffect from then, to its end.
	ignoreContext bool
	afterEffect   bool
}

func (f fault) fits(call Call) bool {
	return (len(f.methods) == 0 || slices.Contains(f.methods, call.Method)) &&
		(f.object == "" || f.object == call.Object) &&
		(f.caller == "" || f.caller == call.Caller)
}

// ClearFaults removes all faults and releases the calls that hang in them.
func (c *Cloud) ClearFaults() { c.faults.removeAll() }

// Faults returns the number of faults that are neither used up nor cleared.
func (c *Cloud) Faults() int { return c.faults.count() }

// SetLatency makes every call to the cloud take d from now on; the default is 0. It does not apply
// to Initialize, SetInformers, GetLoadBalancerName and CurrentNodeName, for which a provider makes
// no request to its cloud. A negative d is 0.
func (c *Cloud) SetLatency(d time.Duration) { c.faults.setLatency(d) }

// faults holds the injected faults and the latency.
type faults struct {
	mu      sync.Mutex
	latency time.Duration
	rules   []*rule
}

// rule is an injected fault. It is immutable.
type rule struct {
	fault
	used int
	// cleared is closed when the fault is removed.
	cleared chan struct{}
}

func newFaults() *faults { return &faults{} }

func (f *faults) setLatency(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.latency = d
}

func (f *faults) latencyOf(op operation) time.Duration {
	if op.local {
		return 0
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.latency
}

func (f *faults) add(added fault) *rule {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := &rule{fault: added, cleared: make(chan struct{})}
	f.rules = append(f.rules, r)
	return r
}

// remove clears the fault. It is idempotent.
func (f *faults) remove(r *rule) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at := slices.Index(f.rules, r); at >= 0 {
		close(r.cleared)
		f.rules = slices.Delete(f.rules, at, at+1)
	}
}

func (f *faults) removeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		close(r.cleared)
	}
	f.rules = nil
}

func (f *faults) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.rules)
}

// take returns the faults that apply to the call, before or after its effect, and counts them as
// used.
func (f *faults) take(call Call, afterEffect bool) plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	var p plan
	for _, r := range f.rules {
		if r.afterEffect != afterEffect || r.usedUp() || !r.fits(call) {
			continue
		}
		r.used++
		p = append(p, r)
		if r.end != nil {
			break
		}
	}
	// A hang stays when it is used up, so that it can still be cleared.
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) bool { return r.usedUp() && !r.hang })
	return p
}

func (r *rule) usedUp() bool { return r.times > 0 && r.used >= r.times }

// plan holds the faults that apply to one call.
type plan []*rule

func (p plan) ignoreContext() bool {
	return slices.ContainsFunc(p, func(r *rule) bool { return r.ignoreContext })
}

// play applies the faults, and reports whether one of them ends the call.
func (p plan) play(ctx context.Context) (ended bool, _ error) {
	for _, r := range p {
		if err := sleep(ctx, r.delay); err != nil {
			return true, err
		}
		if r.hang {
			select {
			case <-r.cleared:
			case <-ctx.Done():
				return true, ctx.Err()
			}
		}
		if r.end != nil {
			return true, r.end()
		}
	}
	return false, nil
}

// sleep returns early, with the error of ctx, when ctx ends. It does so for d = 0, too.
func sleep(ctx context.Context, d time.Duration) error {
	if err := ctx.Err(); err != nil || d <= 0 {
		return err
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
