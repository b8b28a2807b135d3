// Package guard wraps a cloud provider. The fence of the term checks each call, each call ends with
// the term, and a panic does not end the process.
package guard

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/inflight"
	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/internal/tracing"
)

// A PanicError is a panic of the provider, returned as the error of the call that panicked.
type PanicError struct {
	Call  string
	Value any
}

// Error omits the stack, because errors are written to events. The stack is logged.
func (e *PanicError) Error() string {
	return fmt.Sprintf("cloud provider panicked in %s: %v", e.Call, e.Value)
}

// Cloud is a guarded cloudprovider.Interface. It serves the interfaces that the provider serves. It
// returns the provider's errors unchanged, because callers compare some of them by identity. A
// Cloud is safe for concurrent use if the provider is.
type Cloud struct {
	real  cloudprovider.Interface
	calls caller

	loadBalancer func() (cloudprovider.LoadBalancer, bool)
	instances    func() (cloudprovider.Instances, bool)
	instancesV2  func() (cloudprovider.InstancesV2, bool)
	zones        func() (cloudprovider.Zones, bool)
	clusters     func() (cloudprovider.Clusters, bool)
	routes       func() (cloudprovider.Routes, bool)
}

// An Option changes the result of [New].
type Option func(*caller)

// WithObserver reports every call to o, which may be nil.
func WithObserver(o Observer) Option { return func(c *caller) { c.observer = o } }

// WithPanics calls report for each panic of the provider, in the call's goroutine. fatal reports
// that the whole term depends on the call: the provider panicked when it returned an interface, its
// name, or whether it has a cluster ID.
func WithPanics(report func(err *PanicError, fatal bool)) Option {
	return func(c *caller) { c.panics = report }
}

// WithTracer makes a span of each call that passes the fence, with the common attributes. tracer
// may be nil. The provider gets the span in its context.
func WithTracer(tracer tracing.Tracer, common ...slog.Attr) Option {
	return func(c *caller) { c.tracer, c.common = tracer, common }
}

// New guards a provider for the term of the fence. The result also is a cloudprovider.PVLabeler if
// the provider is one. Its InstancesV2 also reports pod ranges, and its LoadBalancer also is a
// [members.EndpointBalancer], if the provider's is.
func New(
	real cloudprovider.Interface, f *fence.Fence, log logr.Logger, options ...Option,
) (cloudprovider.Interface, *Cloud) {
	calls := caller{fence: f, log: log}
	for _, option := range options {
		option(&calls)
	}
	// The guard requests each interface once. Some providers make network calls to answer, and a
	// controller that was skipped after a "no" does not start after a later "yes".
	c := &Cloud{
		real:  real,
		calls: calls,
		loadBalancer: ask(calls, "LoadBalancer", real.LoadBalancer,
			func(lb cloudprovider.LoadBalancer) cloudprovider.LoadBalancer {
				if balancer, ok := lb.(members.EndpointBalancer); ok {
					return endpointBalancer{loadBalancer{lb, calls}, balancer}
				}
				return loadBalancer{lb, calls}
			}),
		instances: ask(calls, "Instances", real.Instances,
			func(i cloudprovider.Instances) cloudprovider.Instances {
				return instances{i, calls}
			}),
		instancesV2: ask(calls, "InstancesV2", real.InstancesV2,
			func(i cloudprovider.InstancesV2) cloudprovider.InstancesV2 {
				if reporter, ok := i.(podCIDRReporter); ok {
					return reportingInstances{instancesV2{i, calls}, reporter}
				}
				return instancesV2{i, calls}
			}),
		zones: ask(calls, "Zones", real.Zones, func(z cloudprovider.Zones) cloudprovider.Zones {
			return zones{z, calls}
		}),
		clusters: ask(calls, "Clusters", real.Clusters,
			func(cl cloudprovider.Clusters) cloudprovider.Clusters {
				return clusters{cl, calls}
			}),
		routes: ask(calls, "Routes", real.Routes,
			func(r cloudprovider.Routes) cloudprovider.Routes {
				return routes{r, calls}
			}),
	}
	if labeler, ok := real.(cloudprovider.PVLabeler); ok {
		return struct {
			*Cloud
			cloudprovider.PVLabeler
		}{c, pvLabeler{labeler, calls}}, c
	}
	return c, c
}

func ask[T any](calls caller, name string, real func() (T, bool), wrap func(T) T) func() (T, bool) {
	return sync.OnceValues(func() (T, bool) {
		var answer T
		var served bool
		// A panic counts as "no", and the handler of panics ends the term.
		_ = calls.protectFatal(name, func() error {
			answer, served = real()
			return nil
		})
		if !served {
			var none T
			return none, false
		}
		return wrap(answer), true
	})
}

// Start initializes the provider with upstream's arguments and in upstream's order: Initialize,
// then SetInformers if the provider is an InformerUser. A panic is returned as an error.
func (c *Cloud) Start(
	clients cloudprovider.ControllerClientBuilder, stop <-chan struct{},
	factory informers.SharedInformerFactory,
) error {
	if err := c.calls.protect("Initialize",
		func() error { c.real.Initialize(clients, stop); return nil }); err != nil {
		return err
	}
	user, ok := c.real.(cloudprovider.InformerUser)
	if !ok {
		return nil
	}
	return c.calls.protect("SetInformers", func() error { user.SetInformers(factory); return nil })
}

// UsesInformers reports whether the provider is an InformerUser.
func (c *Cloud) UsesInformers() bool {
	_, ok := c.real.(cloudprovider.InformerUser)
	return ok
}

// Initialize does nothing, because Start has initialized the provider.
func (c *Cloud) Initialize(cloudprovider.ControllerClientBuilder, <-chan struct{}) {}

// LoadBalancer implements cloudprovider.Interface.
func (c *Cloud) LoadBalancer() (cloudprovider.LoadBalancer, bool) { return c.loadBalancer() }

// Instances implements cloudprovider.Interface.
func (c *Cloud) Instances() (cloudprovider.Instances, bool) { return c.instances() }

// InstancesV2 implements cloudprovider.Interface.
func (c *Cloud) InstancesV2() (cloudprovider.InstancesV2, bool) { return c.instancesV2() }

// Zones implements cloudprovider.Interface.
func (c *Cloud) Zones() (cloudprovider.Zones, bool) { return c.zones() }

// Clusters implements cloudprovider.Interface.
func (c *Cloud) Clusters() (cloudprovider.Clusters, bool) { return c.clusters() }

// Routes implements cloudprovider.Interface.
func (c *Cloud) Routes() (cloudprovider.Routes, bool) { return c.routes() }

// ProviderName implements cloudprovider.Interface.
func (c *Cloud) ProviderName() (name string) {
	_ = c.calls.protectFatal("ProviderName",
		func() error { name = c.real.ProviderName(); return nil })
	return name
}

// HasClusterID implements cloudprovider.Interface.
func (c *Cloud) HasClusterID() (has bool) {
	_ = c.calls.protectFatal("HasClusterID",
		func() error { has = c.real.HasClusterID(); return nil })
	return has
}

// CleanUpCluster deletes the remaining cloud objects of a deleted cluster. The error is
// [errors.ErrUnsupported] if the provider cannot do that.
func (c *Cloud) CleanUpCluster(ctx context.Context, uid string) ([]string, error) {
	cleaner, ok := c.real.(interface {
		CleanUpCluster(ctx context.Context, uid string) ([]string, error)
	})
	if !ok {
		return nil, fmt.Errorf("the cloud provider cannot clean up after a deleted cluster: %w",
			errors.ErrUnsupported)
	}
	return call(ctx, c.calls, writes("Cloud.CleanUpCluster", uid),
		func(ctx context.Context) ([]string, error) { return cleaner.CleanUpCluster(ctx, uid) })
}

// Ask calls f, which reads from a method of the provider that is not part of
// cloudprovider.Interface. The call is not measured and bypasses the fence. A panic of f is
// reported.
func (c *Cloud) Ask(name string, f func()) {
	_ = c.calls.recovered("Cloud."+name, func() error { f(); return nil })
}

// Close ends the provider if it can be closed.
func (c *Cloud) Close() error {
	closer, ok := c.real.(interface{ Close() error })
	if !ok {
		return nil
	}
	return c.calls.protect("Close", closer.Close)
}

// caller makes the calls of one term.
type caller struct {
	fence    *fence.Fence
	log      logr.Logger
	observer Observer
	panics   func(err *PanicError, fatal bool)
	// tracer may be nil.
	tracer tracing.Tracer
	common []slog.Attr
}

// protect makes a call that bypasses the fence. A panic of f becomes an error.
func (c caller) protect(name string, f func() error) error {
	return c.run(context.Background(), name, f)
}

// protectFatal is protect for a call whose panic ends the term.
func (c caller) protectFatal(name string, f func() error) error {
	err := c.protect(name, f)
	if panicked, ok := errors.AsType[*PanicError](err); ok && c.panics != nil {
		c.panics(panicked, true)
	}
	return err
}

// run makes a call without a check by the fence, and reports it to the observer.
func (c caller) run(ctx context.Context, name string, f func() error) (err error) {
	if c.observer == nil {
		return c.recovered(name, f)
	}
	iface, method := split(name)
	c.observer.CallStarted(iface, method)
	begun := time.Now()
	defer func() { c.observer.CallEnded(iface, method, resultOf(ctx, err), time.Since(begun)) }()
	return c.recovered(name, f)
}

func (c caller) recovered(name string, f func() error) error {
	return rescue.Call(f, func(value any) error { return c.panicked(name, value) })
}

func (c caller) panicked(name string, value any) error {
	// A nested panic of the term's own client builder carries the error that explains it.
	if cause, ok := value.(error); ok {
		var wanted *ClientError
		if errors.As(cause, &wanted) {
			return fmt.Errorf("%s: %w", name, wanted)
		}
	}
	c.log.Error(nil, "Cloud provider panicked", "call", name, "panic", fmt.Sprint(value), "stack",
		string(debug.Stack()))
	err := &PanicError{Call: name, Value: value}
	if c.panics != nil {
		c.panics(err, false)
	}
	return err
}

// A ClientError is the value with which a term's client builder panics where upstream's ends the
// process. Its ...OrDie methods have no other way to fail.
type ClientError struct {
	Client string
	Err    error
}

// Error names the client.
func (e *ClientError) Error() string { return fmt.Sprintf("client %q: %v", e.Client, e.Err) }

// Unwrap returns Err.
func (e *ClientError) Unwrap() error { return e.Err }

// reads is a call that cannot change the cloud according to the contract of its interface.
func reads(name, object string) inflight.Activity {
	return inflight.Activity{Name: name, Object: object}
}

// writes is a call that may change the cloud.
func writes(name, object string) inflight.Activity {
	return inflight.Activity{Name: name, Object: object, MayAct: true}
}

// call makes one call that returns a value. The provider's error is returned unchanged.
func call[T any](
	ctx context.Context, c caller, what inflight.Activity, f func(context.Context) (T, error),
) (result T, err error) {
	ctx, done, err := c.fence.EnterWhenOpen(ctx, what)
	if err != nil {
		c.refused(what.Name)
		return result, err
	}
	defer done()
	ctx, span := c.startSpan(ctx, what)
	err = c.run(ctx, what.Name, func() error {
		var callErr error
		result, callErr = f(ctx)
		return callErr
	})
	c.endSpan(ctx, span, err)
	return result, err
}

func (c caller) refused(name string) {
	if c.observer == nil {
		return
	}
	c.observer.CallRefused(split(name))
}

// do is call without a value.
func do(
	ctx context.Context, c caller, what inflight.Activity, f func(context.Context) error,
) error {
	_, err := call(ctx, c, what,
		func(ctx context.Context) (struct{}, error) { return struct{}{}, f(ctx) })
	return err
}

type pvLabeler struct {
	real cloudprovider.PVLabeler
	caller
}

func (p pvLabeler) GetLabelsForVolume(
	ctx context.Context, pv *v1.PersistentVolume,
) (map[string]string, error) {
	return call(ctx, p.caller, reads("PVLabeler.GetLabelsForVolume", ""),
		func(ctx context.Context) (map[string]string, error) {
			return p.real.GetLabelsForVolume(ctx, pv)
		})
}
