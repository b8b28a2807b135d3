package guard_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/informers"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/fence"
	"github.com/fxccm/fxccm/internal/guard"
)

type observed struct {
	iface, method string
	result        guard.Result
}

func (o observed) String() string { return o.iface + "." + o.method + " " + string(o.result) }

// observer records its calls.
type observer struct {
	mu        sync.Mutex
	inFlight  map[string]int
	ended     []observed
	durations []time.Duration
}

func (o *observer) CallStarted(iface, method string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inFlight == nil {
		o.inFlight = map[string]int{}
	}
	o.inFlight[iface+"."+method]++
}

func (o *observer) CallEnded(iface, method string, result guard.Result, duration time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inFlight[iface+"."+method]--; o.inFlight[iface+"."+method] == 0 {
		delete(o.inFlight, iface+"."+method)
	}
	o.ended = append(o.ended, observed{iface, method, result})
	o.durations = append(o.durations, duration)
}

func (o *observer) CallRefused(iface, method string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.ended = append(o.ended, observed{iface, method, guard.Refused})
}

// take returns the calls that have ended since the last take. No call may be in flight.
func (o *observer) take(t *testing.T) []observed {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.inFlight) != 0 {
		t.Errorf("in flight according to the observer: %v", o.inFlight)
	}
	ended := o.ended
	o.ended, o.durations = nil, nil
	return ended
}

func (o *observer) want(t *testing.T, want ...observed) {
	t.Helper()
	if got := o.take(t); !slices.Equal(got, want) {
		t.Errorf("observed %v, want %v", got, want)
	}
}

func observedCloud(
	real cloudprovider.Interface,
) (cloudprovider.Interface, *guard.Cloud, *fence.Fence, *observer) {
	f, o := fence.New(nil, clock.RealClock{}), &observer{}
	g, c := guard.New(real, f, logr.Discard(), guard.WithObserver(o))
	return g, c, f, o
}

func TestObserver_EachMethod_IsReported(t *testing.T) {
	panics := false
	quota := errors.New("quota")
	var answer error
	g, c, f, o := observedCloud(everything{answer: func(context.Context, string) error {
		if panics {
			panic("no")
		}
		return answer
	}})
	list := methods(g)
	if len(list) < 26 {
		t.Fatalf("only %d methods: %v", len(list), list)
	}
	o.take(t)
	for _, m := range list {
		failed := guard.Failed
		if !m.hasError() {
			failed = guard.OK
		}
		answer, panics = nil, false
		_, _ = m.call(t.Context())
		o.want(t, observed{m.iface, m.name, guard.OK})
		answer = quota
		_, _ = m.call(t.Context())
		o.want(t, observed{m.iface, m.name, failed})
		panics = true
		_, _ = m.call(t.Context())
		o.want(t, observed{m.iface, m.name, guard.Panicked})
	}
	answer, panics = nil, false
	if err := c.Start(nil, nil, informers.NewSharedInformerFactory(nil, 0)); err != nil {
		t.Error(err)
	}
	g.HasClusterID()
	g.ProviderName()
	answer = quota
	if err := c.Close(); !errors.Is(err, quota) {
		t.Errorf("Close: %v", err)
	}
	o.want(t, observed{"Cloud", "Initialize", guard.OK},
		observed{"Cloud", "SetInformers", guard.OK},
		observed{"Cloud", "HasClusterID", guard.OK}, observed{"Cloud", "ProviderName", guard.OK},
		observed{"Cloud", "Close", guard.Failed})
	answer = nil
	f.Close(errors.New("lost"))
	for _, m := range list {
		refused := guard.Refused
		if !m.hasError() {
			refused = guard.OK // it returns no error, so it cannot be refused
		}
		_, _ = m.call(t.Context())
		o.want(t, observed{m.iface, m.name, refused})
	}
}

func TestObserver_InterfaceIsRequestedTwice_IsReportedOnce(t *testing.T) {
	g, _, _, o := observedCloud(everything{
		none:   true,
		answer: func(context.Context, string) error { return nil },
	})
	for range 2 {
		g.LoadBalancer()
		g.Instances()
		g.InstancesV2()
		g.Zones()
		g.Clusters()
		g.Routes()
	}
	var want []observed
	for _, method := range []string{
		"LoadBalancer", "Instances", "InstancesV2", "Zones", "Clusters",
		"Routes",
	} {
		want = append(want, observed{"Cloud", method, guard.OK})
	}
	o.want(t, want...)
}

func TestObserver_ErrorOfACall_DecidesTheResult(t *testing.T) {
	retry := api.NewRetryError("busy", time.Second)
	deeply := func(err error) error {
		return fmt.Errorf("ensure: %w",
			errors.Join(errors.New("first"), err))
	}
	for _, c := range []struct {
		err  error
		want guard.Result
	}{
		{nil, guard.OK},
		{errors.New("quota"), guard.Failed},
		{cloudprovider.InstanceNotFound, guard.NotFound},
		{deeply(cloudprovider.InstanceNotFound), guard.NotFound},
		{cloudprovider.DiskNotFound, guard.NotFound},
		{errors.New(cloudprovider.InstanceNotFound.Error()), guard.Failed},
		{cloudprovider.NotImplemented, guard.NotImplemented},
		{deeply(cloudprovider.NotImplemented), guard.NotImplemented},
		{cloudprovider.ImplementedElsewhere, guard.NotImplemented},
		{retry, guard.Retry},
		{deeply(retry), guard.Retry},
		{deeply(context.Canceled), guard.Canceled},
		{deeply(fence.ErrClosed), guard.Canceled},
		{context.DeadlineExceeded, guard.Failed}, // the provider's own timeout
	} {
		g, _, _, o := observedCloud(&cloud{update: func(context.Context) error { return c.err }})
		lb, _ := g.LoadBalancer()
		o.take(t)
		if err := lb.UpdateLoadBalancer(t.Context(), "", nil, nil); err != c.err {
			t.Errorf("%v became %v", c.err, err)
		}
		o.want(t, observed{"LoadBalancer", "UpdateLoadBalancer", c.want})
	}
}

func TestObserver_CallersContextEnds_CallIsCanceled(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		want guard.Result
	}{
		"its deadline": {context.DeadlineExceeded, guard.Canceled},
		"not wrapped":  {errors.New("request failed: context canceled"), guard.Canceled},
		"not found":    {cloudprovider.InstanceNotFound, guard.NotFound},
		"success":      {nil, guard.OK},
		"retry":        {api.NewRetryError("busy", time.Second), guard.Retry},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		g, _, _, o := observedCloud(&cloud{update: func(ctx context.Context) error {
			cancel()
			<-ctx.Done()
			return c.err
		}})
		lb, _ := g.LoadBalancer()
		o.take(t)
		_ = lb.UpdateLoadBalancer(ctx, "", nil, nil)
		if got := o.take(t); len(got) != 1 || got[0].result != c.want {
			t.Errorf("%s: observed %v, want %s", name, got, c.want)
		}
	}
}

func TestObserver_FenceCloses_CallIsCanceledAndTheNextRefused(t *testing.T) {
	begun := make(chan struct{})
	g, _, f, o := observedCloud(&cloud{update: func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		return context.Cause(ctx)
	}})
	lb, _ := g.LoadBalancer()
	o.take(t)
	result := make(chan error, 1)
	go func() { result <- lb.UpdateLoadBalancer(context.TODO(), "", nil, nil) }()
	<-begun
	f.Close(errors.New("lost"))
	<-result
	_ = lb.UpdateLoadBalancer(context.TODO(), "", nil, nil)
	o.want(t, observed{"LoadBalancer", "UpdateLoadBalancer", guard.Canceled},
		observed{"LoadBalancer", "UpdateLoadBalancer", guard.Refused})
}

func TestObserver_CallTakesTime_DurationIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _, _, o := observedCloud(&cloud{update: func(context.Context) error {
			time.Sleep(3 * time.Second)
			return nil
		}})
		lb, _ := g.LoadBalancer()
		o.take(t)
		_ = lb.UpdateLoadBalancer(t.Context(), "", nil, nil)
		if !slices.Equal(o.durations, []time.Duration{3 * time.Second}) {
			t.Errorf("a call of 3s took %v", o.durations)
		}
	})
}

func TestObserver_CallWaitsAtAHeldFence_IsNotReported(t *testing.T) {
	for name, end := range map[string]func(*fence.Fence, context.CancelFunc){
		"the term ends": func(f *fence.Fence, _ context.CancelFunc) {
			f.Close(errors.New("stopped"))
		},
		"the caller ends": func(_ *fence.Fence, cancel context.CancelFunc) { cancel() },
	} {
		synctest.Test(t, func(t *testing.T) {
			g, _, f, o := observedCloud(&cloud{update: func(context.Context) error {
				t.Error("the call was made")
				return nil
			}})
			lb, _ := g.LoadBalancer()
			o.take(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			f.Hold()
			done := make(chan error)
			go func() { done <- lb.UpdateLoadBalancer(ctx, "", nil, nil) }()
			time.Sleep(time.Minute)
			o.want(t) // neither in flight nor ended
			end(f, cancel)
			if err := <-done; err == nil {
				t.Errorf("%s: the call that waited has no error", name)
			}
			o.want(t, observed{"LoadBalancer", "UpdateLoadBalancer", guard.Refused})
		})
	}
}
