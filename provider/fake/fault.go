package fake

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// A Fault changes how some calls behave. [Cloud.On] is the convenient way to make one; as
// plain data it can be sent to another process ([Client.Inject]).
//
// Each fault that matches a call takes part, in the order in which they were injected, up to
// and including the first that has an Err, a Panic or a ReturnZero. A fault waits for its Delay
// first and then, if Hang, until it is cleared.
type Fault struct {
	// Which calls: those of any of Methods (empty means all methods), about Object and by Caller
	// ("" means any; see [Call]), the next Times of them (0 means until cleared).
	Methods []Method
	Object  string
	Caller  string
	Times   int

	// Delay is waited for on top of the cloud's latency.
	Delay time.Duration
	// Hang waits until the fault is cleared.
	Hang bool

	// At most one of these three is set. The call then ends this way, instead of doing its work.

	// Err is returned, as it is.
	Err error
	// Panic is what the call panics with. Over HTTP it arrives as text.
	Panic any
	// ReturnZero returns the method's zero results without an error: a nil *InstanceMetadata or
	// *LoadBalancerStatus, no routes, false.
	ReturnZero bool

	// IgnoreContext makes the call ignore its context, from its beginning (with AfterEffect: from
	// then) to its end.
	IgnoreContext bool
	// AfterEffect lets the call do its work first: the cloud has changed, and then the answer is
	// late, or lost.
	AfterEffect bool
}

func (f Fault) validate() error {
	for _, m := range f.Methods {
		if _, ok := operations[m]; !ok {
			return fmt.Errorf("fault: there is no method %q", m)
		}
	}
	if f.Times < 0 {
		return fmt.Errorf("fault: %d times is negative; 0 means until cleared", f.Times)
	}
	if f.Delay < 0 {
		return fmt.Errorf("fault: the delay %s is negative", f.Delay)
	}
	ends := 0
	for _, set := range []bool{f.Err != nil, f.Panic != nil, f.ReturnZero} {
		if set {
			ends++
		}
	}
	if ends > 1 {
		return errors.New("fault: more than one of error, panic and zero results is set")
	}
	if ends == 0 && f.Delay == 0 && !f.Hang && !f.IgnoreContext {
		return errors.New(
			"fault: it does nothing: no delay, hang, error, panic, zero results, or ignoring of the context")
	}
	return nil
}

func (f Fault) ends() bool { return f.Err != nil || f.Panic != nil || f.ReturnZero }

func (f Fault) fits(call Call) bool {
	return (len(f.Methods) == 0 || slices.Contains(f.Methods, call.Method)) &&
		(f.Object == "" || f.Object == call.Object) &&
		(f.Caller == "" || f.Caller == call.Caller)
}

// An ActiveFault is a fault that was injected and neither used up nor cleared.
type ActiveFault struct {
	ID    int   `json:"id"`
	Fault Fault `json:"fault"`
	// Used counts the calls it took part in.
	Used int `json:"used"`
}

// Inject adds a fault after the existing ones, and returns its ID for ClearFault. An invalid fault
// is an error.
func (c *Cloud) Inject(f Fault) (id int, err error) {
	if err := f.validate(); err != nil {
		return 0, err
	}
	return c.faults.add(f), nil
}

// ClearFault removes a fault and releases the calls that hang in it. An unknown ID is an error.
func (c *Cloud) ClearFault(id int) error {
	if !c.faults.remove(id) {
		return fmt.Errorf("there is no fault %d; it was used up or cleared", id)
	}
	return nil
}

// ClearFaults removes all faults and releases the calls that hang in them.
func (c *Cloud) ClearFaults() { c.faults.removeAll() }

// Faults returns the active faults in order. Fault.Methods is not to be written to.
func (c *Cloud) Faults() []ActiveFault { return c.faults.active() }

// SetLatency makes every call to the cloud take d from now on; the default is 0. It does not apply
// to Initialize, SetInformers, GetLoadBalancerName and CurrentNodeName, for which a provider does
// not ask its cloud. A negative d is 0.
func (c *Cloud) SetLatency(d time.Duration) { c.faults.setLatency(d) }

// faults holds what calls have to go through.
type faults struct {
	mu      sync.Mutex
	latency time.Duration
	lastID  int
	rules   []*rule
}

// rule is an injected fault. Its Fault is not written any more.
type rule struct {
	Fault
	id, used int
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

func (f *faults) add(fault Fault) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lastID++
	fault.Methods = slices.Clone(fault.Methods)
	f.rules = append(f.rules, &rule{Fault: fault, id: f.lastID, cleared: make(chan struct{})})
	return f.lastID
}

func (f *faults) remove(id int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	at := slices.IndexFunc(f.rules, func(r *rule) bool { return r.id == id })
	if at < 0 {
		return false
	}
	close(f.rules[at].cleared)
	f.rules = slices.Delete(f.rules, at, at+1)
	return true
}

func (f *faults) removeAll() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.rules {
		close(r.cleared)
	}
	f.rules = nil
}

func (f *faults) active() []ActiveFault {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := make([]ActiveFault, 0, len(f.rules))
	for _, r := range f.rules {
		all = append(all, ActiveFault{ID: r.id, Fault: r.Fault, Used: r.used})
	}
	return all
}

// take picks the faults that call has to go through, before or after its effect, and counts them as
// used.
func (f *faults) take(call Call, afterEffect bool) plan {
	f.mu.Lock()
	defer f.mu.Unlock()
	var p plan
	for _, r := range f.rules {
		if r.AfterEffect != afterEffect || r.usedUp() || !r.fits(call) {
			continue
		}
		r.used++
		p = append(p, r)
		if r.ends() {
			break
		}
	}
	// A hang stays when it is used up, so that it can still be cleared.
	f.rules = slices.DeleteFunc(f.rules, func(r *rule) bool { return r.usedUp() && !r.Hang })
	return p
}

func (r *rule) usedUp() bool { return r.Times > 0 && r.used >= r.Times }

// plan is what one call goes through.
type plan []*rule

func (p plan) ignoreContext() bool {
	return slices.ContainsFunc(p, func(r *rule) bool { return r.IgnoreContext })
}

// play goes through the plan, and tells whether that is the end of the call.
func (p plan) play(ctx context.Context) (ended bool, _ error) {
	for _, r := range p {
		if err := sleep(ctx, r.Delay); err != nil {
			return true, err
		}
		if r.Hang {
			select {
			case <-r.cleared:
			case <-ctx.Done():
				return true, ctx.Err()
			}
		}
		switch {
		case r.Err != nil:
			return true, r.Err
		case r.Panic != nil:
			panic(r.Panic)
		case r.ReturnZero:
			return true, nil
		}
	}
	return false, nil
}

// sleep returns early, and with the context's error, when ctx ends. It does so for d = 0, too.
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
