package fake

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"
)

var errBroken = errors.New("broken")

// ensure ensures the load balancer of default/web.
func ensure(ctx context.Context, t *testing.T, p cloudprovider.Interface) error {
	t.Helper()
	_, err := balancersOf(t, p).EnsureLoadBalancer(ctx, "c", serviceNamed("web"), nil)
	return err
}

func exists(cloud *Cloud) bool {
	_, ok := cloud.LoadBalancer("default/web")
	return ok
}

func TestFail_AsOftenAsAsked_ThenTheCloudWorks(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		cloud.On("EnsureLoadBalancer").Times(2).Fail(errBroken)
		for n, want := range []string{"broken", "broken", "<nil>"} {
			if err := ensure(t.Context(), t, open()); fmt.Sprint(err) != want {
				t.Errorf("call %d returned %v, want %s", n+1, err, want)
			}
			if failed := want != "<nil>"; exists(cloud) == failed {
				t.Errorf("after call %d the load balancer exists: %v", n+1, !failed)
			}
		}
		if cloud.Faults() != 0 {
			t.Error("the fault is active after its last use")
		}
	})
}

func TestFail_Cleared_CallsSucceed(t *testing.T) {
	cloud := New()
	takeBack := cloud.On("EnsureLoadBalancer").Fail(errBroken)
	for range 5 {
		if err := ensure(t.Context(), t, cloud.Provider()); err != errBroken {
			t.Errorf("the call returned %v, want the injected error itself", err)
		}
	}
	if n := cloud.Faults(); n != 1 {
		t.Errorf("%d faults are active, want 1", n)
	}
	takeBack()
	takeBack()
	if err := ensure(t.Context(), t, cloud.Provider()); err != nil {
		t.Errorf("after the fault was cleared the call returned %v", err)
	}
}

func TestFail_WithWhatCallersCompare_ArrivesAsTheSame(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		for _, sentinel := range []error{
			cloudprovider.InstanceNotFound, cloudprovider.NotImplemented,
			cloudprovider.ImplementedElsewhere,
			cloudprovider.DiskNotFound, context.Canceled, context.DeadlineExceeded,
		} {
			cloud.On("EnsureLoadBalancer").Times(1).Fail(sentinel)
			if err := ensure(t.Context(), t, open()); err != sentinel {
				t.Errorf("%v arrives as %v", sentinel, err)
			}
			cloud.On("EnsureLoadBalancer").Times(1).Fail(fmt.Errorf("around: %w", sentinel))
			err := ensure(t.Context(), t, open())
			if err == sentinel || !errors.Is(err, sentinel) ||
				err.Error() != "around: "+sentinel.Error() {
				t.Errorf("an error around %v arrives as %v", sentinel, err)
			}
		}
		for text, retry := range map[string]error{
			"busy": api.NewRetryError("busy", 1500*time.Millisecond),
			"around: busy": fmt.Errorf("around: %w",
				api.NewRetryError("busy", 1500*time.Millisecond)),
		} {
			cloud.On("EnsureLoadBalancer").Times(1).Fail(retry)
			err := ensure(t.Context(), t, open())
			var got *api.RetryError
			if !errors.As(err, &got) || got.RetryAfter() != 1500*time.Millisecond ||
				got.Error() != "busy" || err.Error() != text {
				t.Errorf("the RetryError %q arrives as %v, with %v", text, err, got)
			}
		}
		cloud.On("EnsureLoadBalancer").Times(1).Fail(errors.New(""))
		if err := ensure(t.Context(), t, open()); err == nil {
			t.Error("an error without a text arrives as nil")
		}
	})
}

func TestScript_ChoosesByMethodObjectAndCaller(t *testing.T) {
	cloud := New()
	add(t, cloud, Instance{Name: "a"}, Instance{Name: "b"})
	cloud.On("InstanceExists", "InstanceShutdown").For("a").By("x").Fail(errBroken)
	x := instancesOf(t, cloud.Provider(WithCaller("x")))
	y := instancesOf(t, cloud.Provider(WithCaller("y")))
	ctx, byID := t.Context(), nodeWithID("", "fake://region-1/a")
	for what, err := range map[string]error{
		"the first method":          errOf(x.InstanceExists(ctx, nodeNamed("a"))),
		"the second method":         errOf(x.InstanceShutdown(ctx, nodeNamed("a"))),
		"the object by provider ID": errOf(x.InstanceExists(ctx, byID)),
	} {
		if err != errBroken {
			t.Errorf("%s: the answer is %v, want the fault", what, err)
		}
	}
	for what, err := range map[string]error{
		"another method": errOf(x.InstanceMetadata(ctx, nodeNamed("a"))),
		"another object": errOf(x.InstanceExists(ctx, nodeNamed("b"))),
		"another caller": errOf(y.InstanceExists(ctx, nodeNamed("a"))),
	} {
		if err != nil {
			t.Errorf("%s: the answer is %v, want no fault", what, err)
		}
	}
}

func TestScript_ForAllMethods(t *testing.T) {
	cloud := New()
	cloud.On().Fail(errBroken)
	if _, err := routesOf(t, cloud.Provider()).ListRoutes(t.Context(), "c"); err != errBroken {
		t.Errorf("ListRoutes answers %v", err)
	}
	if err := ensure(t.Context(), t, cloud.Provider()); err != errBroken {
		t.Errorf("EnsureLoadBalancer answers %v", err)
	}
	if name := balancersOf(t, cloud.Provider()).GetLoadBalancerName(t.Context(), "c",
		serviceNamed("web")); name != cloudprovider.DefaultLoadBalancerName(serviceNamed("web")) {
		t.Errorf("GetLoadBalancerName, which cannot fail, answers %q", name)
	}
}

func TestDelay_TakesTheTimeOnTopOfTheLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := New(WithLatency(50 * time.Millisecond))
		cloud.On("EnsureLoadBalancer").Delay(2 * time.Second)
		began := time.Now()
		if err := ensure(t.Context(), t, cloud.Provider()); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != 2050*time.Millisecond {
			t.Errorf("the call took %s, want 2.05s", took)
		}
		call := cloud.Calls()[0]
		if took := call.Ended.Sub(call.Started); took != 2050*time.Millisecond {
			t.Errorf("the record says it took %s", took)
		}
	})
}

func TestLatency_LocalMethods_AreNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := New()
		cloud.SetLatency(time.Second)
		began := time.Now()
		p := cloud.Provider()
		p.Initialize(nil, nil)
		p.(cloudprovider.InformerUser).SetInformers(nil)
		balancersOf(t, p).GetLoadBalancerName(t.Context(), "c", serviceNamed("web"))
		if took := time.Since(began); took != 0 {
			t.Errorf("the local methods took %s", took)
		}
		if _, err := routesOf(t, p).ListRoutes(t.Context(), "c"); err != nil ||
			time.Since(began) != time.Second {
			t.Errorf("ListRoutes took %s, %v; want 1s", time.Since(began), err)
		}
	})
}

func TestDelayAndLatency_EndWithTheContext_AndNothingHappened(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, slow := range []func(*Cloud){
			func(c *Cloud) { c.SetLatency(time.Hour) },
			func(c *Cloud) { c.On("EnsureLoadBalancer").Delay(time.Hour) },
			func(c *Cloud) { c.On("EnsureLoadBalancer").Hang() },
		} {
			cloud := New()
			slow(cloud)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := ensure(ctx, t, cloud.Provider()); err != context.DeadlineExceeded {
				t.Errorf("the call answers %v", err)
			}
			if exists(cloud) {
				t.Error("the canceled call made a load balancer")
			}
			if err := ensure(ctx, t, cloud.Provider()); err != context.DeadlineExceeded ||
				!cloud.Calls()[1].CtxDone || cloud.Calls()[0].CtxDone {
				t.Errorf("a call with a dead context answers %v and is recorded as %v", err,
					cloud.Calls()[1])
			}
		}
	})
}

func TestIgnoringContext_ContextEnds_CallContinues(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := New(WithLatency(time.Second))
		cloud.On("EnsureLoadBalancer").IgnoringContext().Delay(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		began := time.Now()
		if err := ensure(ctx, t, cloud.Provider()); err != nil ||
			time.Since(began) != 61*time.Second || !exists(cloud) {
			t.Errorf("it answers %v after %s, the load balancer exists: %v", err, time.Since(began),
				exists(cloud))
		}
	})
}

func TestHang_WaitsForItsRelease(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		for what, release := range map[string]func(release func()){
			"release":     func(release func()) { release() },
			"ClearFaults": func(func()) { cloud.ClearFaults() },
		} {
			cloud.ResetCalls()
			hung := cloud.On("EnsureLoadBalancer").Times(1).Hang()
			done := inBackground(func() error { return ensure(t.Context(), t, open()) })
			if _, err := cloud.WaitForCall(within(t),
				CallFilter{Method: "EnsureLoadBalancer"}.Matches); err != nil {
				t.Fatal(err)
			}
			// Only one call hangs; others succeed.
			if _, err := balancersOf(t, open()).EnsureLoadBalancer(t.Context(), "c",
				serviceNamed("other"), nil); err != nil {
				t.Error(err)
			}
			select {
			case err := <-done:
				t.Errorf("the call did not hang and returned %v", err)
			default:
			}
			release(hung)
			if err := <-done; err != nil {
				t.Errorf("%s: the call answers %v", what, err)
			}
		}
	})
}

func TestHang_IgnoringContext_EndsOnlyWhenReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := New()
		release := cloud.On("EnsureLoadBalancer").IgnoringContext().Hang()
		ctx, cancel := context.WithCancel(t.Context())
		done := inBackground(func() error { return ensure(ctx, t, cloud.Provider()) })
		synctest.Wait()
		cancel()
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("the call ended with its context: %v", err)
		default:
		}
		release()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestPanic_ReachesTheCallerAndIsRecorded(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		cloud.On("EnsureLoadBalancer").Times(1).Panic("boom")
		func() {
			defer func() {
				if v := recover(); v != "boom" {
					t.Errorf("it panicked with %v, want boom", v)
				}
			}()
			_ = ensure(t.Context(), t, open())
		}()
		if call := cloud.Calls()[0]; !call.Finished || call.Err != "panicked" {
			t.Errorf("the record is %+v", call)
		}
		if err := ensure(t.Context(), t, open()); err != nil {
			t.Errorf("after the panic the cloud answers %v", err)
		}
	})
}

func TestReturnZero_IsNilNil(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		add(t, cloud, machine)
		cloud.On().ReturnZero()
		p, ctx := open(), t.Context()
		if got, err := instancesOf(t, p).InstanceMetadata(ctx, nodeNamed("node-1")); got != nil ||
			err != nil {
			t.Errorf("InstanceMetadata answers %v, %v", got, err)
		}
		if got, err := instancesOf(t, p).InstanceExists(ctx, nodeNamed("node-1")); got ||
			err != nil {
			t.Errorf("InstanceExists answers %v, %v", got, err)
		}
		if got, err := balancersOf(t, p).EnsureLoadBalancer(ctx, "c", serviceNamed("web"),
			nil); got != nil || err != nil || exists(cloud) {
			t.Errorf("EnsureLoadBalancer answers %v, %v; the load balancer exists: %v", got, err,
				exists(cloud))
		}
		if got, err := routesOf(t, p).ListRoutes(ctx, "c"); len(got) != 0 || err != nil {
			t.Errorf("ListRoutes answers %v, %v", got, err)
		}
		instances, _ := p.Instances()
		if got, err := instances.InstanceID(ctx, "node-1"); got != "" || err != nil {
			t.Errorf("InstanceID answers %q, %v", got, err)
		}
	})
}

func TestAfterEffect_CallFails_CloudHasChanged(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		cloud.On("EnsureLoadBalancer").AfterEffect().Times(1).Fail(errBroken)
		if err := ensure(t.Context(), t, open()); err == nil || err.Error() != "broken" ||
			!exists(cloud) {
			t.Errorf("the call answers %v, and the load balancer exists: %v", err, exists(cloud))
		}
		// The state is visible while the answer hangs.
		cloud.On("EnsureLoadBalancerDeleted").AfterEffect().Hang()
		done := inBackground(func() error {
			return balancersOf(t, open()).EnsureLoadBalancerDeleted(t.Context(), "c",
				serviceNamed("web"))
		})
		if err := cloud.WaitUntil(within(t), func() bool { return !exists(cloud) }); err != nil {
			t.Error(err)
		}
		cloud.ClearFaults()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestAfterEffect_WhenTheCallFailsByItself_IsNotUsed(t *testing.T) {
	cloud := New()
	cloud.On("UpdateLoadBalancer").AfterEffect().Times(1).Fail(errBroken)
	err := balancersOf(t, cloud.Provider()).UpdateLoadBalancer(t.Context(), "c",
		serviceNamed("web"), nil)
	if err == errBroken || cloud.Faults() != 1 {
		t.Errorf("a call without an effect answers %v and leaves %d faults", err,
			cloud.Faults())
	}
}

func TestFaults_AreGoneThroughInOrderUntilOneEndsTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := New()
		cloud.On("EnsureLoadBalancer").Delay(time.Second)
		cloud.On("EnsureLoadBalancer").Times(1).Fail(errBroken)
		cloud.On("EnsureLoadBalancer").Delay(time.Minute)
		for n, want := range []time.Duration{time.Second, time.Minute + time.Second} {
			began := time.Now()
			if err := ensure(t.Context(), t, cloud.Provider()); (err == errBroken) != (n == 0) ||
				time.Since(began) != want {
				t.Errorf("call %d answers %v after %s, want it after %s", n+1, err,
					time.Since(began), want)
			}
		}
	})
}

func TestFault_Invalid_PanicsWithTheReason(t *testing.T) {
	cloud := New()
	for want, sentence := range map[string]func(){
		"less than one call": func() { cloud.On().Times(0) },
		"needs an error":     func() { cloud.On().Fail(nil) },
		"no method":          func() { cloud.On("Teapot").Hang() },
	} {
		func() {
			defer func() {
				if text, _ := recover().(string); !strings.Contains(text, want) {
					t.Errorf("it panics with %q, want %q", text, want)
				}
			}()
			sentence()
		}()
	}
}
