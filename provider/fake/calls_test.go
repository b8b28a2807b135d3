package fake

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	cloudprovider "k8s.io/cloud-provider"
)

// everyMethod calls each method once, so that a test can compare the record with the list of
// methods.
func everyMethod(ctx context.Context, t *testing.T, p cloudprovider.Interface) {
	t.Helper()
	stop := make(chan struct{})
	defer close(stop)
	volume := &v1.PersistentVolume{}
	volume.Name = "pv-1"
	web, nodes, node := serviceNamed("web"), nodesNamed("node-1"), nodeNamed("node-1")
	route := &cloudprovider.Route{TargetNode: "node-1", DestinationCIDR: "10.0.1.0/24"}
	v2, balancers, routes := instancesOf(t, p), balancersOf(t, p), routesOf(t, p)
	instances, _ := p.Instances()
	zones, _ := p.Zones()
	clusters, _ := p.Clusters()

	p.Initialize(nil, stop)
	p.(cloudprovider.InformerUser).SetInformers(nil)
	balancers.GetLoadBalancerName(ctx, "c", web)
	podCIDRs := v2.(interface {
		PodCIDRs(context.Context, *v1.Node) ([]string, error)
	}).PodCIDRs
	labels := p.(cloudprovider.PVLabeler).GetLabelsForVolume
	_, found, getErr := balancers.GetLoadBalancer(ctx, "c", web)
	errs := []error{
		errOf(v2.InstanceExists(ctx, node)), errOf(v2.InstanceShutdown(ctx, node)),
		errOf(v2.InstanceMetadata(ctx, node)), errOf(podCIDRs(ctx, node)),
		errOf(instances.InstanceExistsByProviderID(ctx, machineID)),
		errOf(instances.CurrentNodeName(ctx, "node-1")),
		errOf(zones.GetZone(ctx)), getErr,
		errOf(balancers.EnsureLoadBalancer(ctx, "c", web, nodes)),
		balancers.UpdateLoadBalancer(ctx, "c", web, nodes),
		balancers.EnsureLoadBalancerDeleted(ctx, "c", web),
		routes.CreateRoute(ctx, "c", "uid", route),
		errOf(routes.ListRoutes(ctx, "c")),
		routes.DeleteRoute(ctx, "c", route),
		errOf(clusters.ListClusters(ctx)), errOf(clusters.Master(ctx, "c")),
		errOf(labels(ctx, volume)),
	}
	if found {
		t.Error("a load balancer exists before it is created")
	}
	for _, q := range questions(instances, zones) {
		errs = append(errs, errOf(q.ask(ctx)))
	}
	if err := errors.Join(errs...); err != nil {
		t.Errorf("some calls failed: %v", err)
	}
	if err := instances.AddSSHKeyToAllInstances(ctx, "core",
		nil); err != cloudprovider.NotImplemented {
		t.Errorf("AddSSHKeyToAllInstances fails with %v, want NotImplemented", err)
	}
}

func TestCallFilter_MethodDoesNotExist_Panics(t *testing.T) {
	defer func() {
		text, _ := recover().(string)
		if !strings.Contains(text, `no method "EnsureLoadBalancers"`) {
			t.Errorf("it panics with %q, want the name of the method", text)
		}
	}()
	CallFilter{Method: "EnsureLoadBalancers"}.Matches(Call{})
}

func TestCalls_RecordEveryMethodOnce(t *testing.T) {
	onBoth(t, []Option{WithCluster("c", "192.0.2.1")},
		func(t *testing.T, cloud *Cloud, open opener) {
			add(t, cloud, machine)
			everyMethod(t.Context(), t, open(WithCaller("x")))
			objects := map[Interface]string{
				"Interface": "", "InformerUser": "", "InstancesV2": "node-1", "Instances": "node-1",
				"Zones":        "node-1",
				"LoadBalancer": "default/web", "Routes": "node-1", "Clusters": "c",
				"PVLabeler": "pv-1",
			}
			exceptions := map[Method]string{
				"GetZone": "", "ListRoutes": "", "ListClusters": "",
				"AddSSHKeyToAllInstances": "core",
			}
			for m, op := range operations {
				calls := cloud.Calls(CallFilter{Method: m}.Matches)
				if len(calls) != 1 {
					t.Errorf("%s was recorded %d times, want once", m, len(calls))
					continue
				}
				object, except := exceptions[m]
				if !except {
					object = objects[op.of]
				}
				call := calls[0]
				if call.Object != object || call.Caller != "x" || call.Interface != op.of ||
					!call.Finished || call.CtxDone || call.Ended.Before(call.Started) {
					t.Errorf("the record of %s, about %q, is %+v", m, object, call)
				}
				mutating := strings.HasPrefix(string(m), "Ensure") ||
					strings.HasPrefix(string(m), "Update") ||
					strings.HasPrefix(string(m), "Create") ||
					strings.HasPrefix(string(m), "Delete") ||
					strings.HasPrefix(string(m), "Add")
				if call.Mutating != mutating {
					t.Errorf("%s is recorded as mutating: %v", m, call.Mutating)
				}
			}
			for n, call := range cloud.Calls() {
				if call.Seq != uint64(n+1) {
					t.Errorf("call number %d has the number %d", n+1, call.Seq)
				}
			}
		})
}

func TestCalls_AreFiltered(t *testing.T) {
	cloud := New()
	add(t, cloud, machine)
	ctx := t.Context()
	a, b := cloud.Provider(WithCaller("a")), cloud.Provider(WithCaller("b"))
	_ = ensure(ctx, t, a)
	_ = ensure(ctx, t, b)
	_, _ = instancesOf(t, b).InstanceShutdown(ctx, nodeNamed("ghost"))
	for _, c := range []struct {
		filter CallFilter
		want   []uint64
	}{
		{CallFilter{}, []uint64{1, 2, 3}},
		{CallFilter{Method: "EnsureLoadBalancer"}, []uint64{1, 2}},
		{CallFilter{Interface: "InstancesV2"}, []uint64{3}},
		{CallFilter{Caller: "b"}, []uint64{2, 3}},
		{CallFilter{Caller: "b", Mutating: true}, []uint64{2}},
		{CallFilter{Object: "ghost"}, []uint64{3}},
		{CallFilter{Failed: true}, []uint64{3}},
		{CallFilter{Finished: true, Method: "Master"}, nil},
	} {
		var got []uint64
		for _, call := range cloud.Calls(c.filter.Matches) {
			got = append(got, call.Seq)
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%+v chooses %v, want %v", c.filter, got, c.want)
		}
	}
	if got := cloud.Calls(
		CallFilter{Failed: true}.Matches)[0].Err; got != cloudprovider.InstanceNotFound.Error() {
		t.Errorf("the recorded error is %q", got)
	}
}

func TestWaitForCall_SeesACallBeginAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := New()
		cloud.On("EnsureLoadBalancer").Delay(time.Minute)
		began := time.Now()
		var calls sync.WaitGroup
		calls.Go(func() {
			time.Sleep(time.Second)
			_ = ensure(t.Context(), t, cloud.Provider())
		})
		call, err := cloud.WaitForCall(t.Context(),
			CallFilter{Method: "EnsureLoadBalancer"}.Matches)
		if err != nil || call.Finished || time.Since(began) != time.Second {
			t.Errorf("after %s the call is %+v, %v; want it as it begins", time.Since(began), call,
				err)
		}
		call, err = cloud.WaitForCall(t.Context(), CallFilter{Finished: true}.Matches,
			func(c Call) bool { return len(cloud.Calls()) > 0 && c.Seq == 1 })
		if err != nil || !call.Finished || time.Since(began) != time.Minute+time.Second {
			t.Errorf("after %s the call is %+v, %v; want it as it ends", time.Since(began), call,
				err)
		}
		calls.Wait()
	})
}

func TestWaits_EndWithTheirContext(t *testing.T) {
	cloud := New()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := cloud.WaitForCall(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("WaitForCall returned %v", err)
	}
	if err := cloud.WaitUntil(ctx, func() bool { return false }); !errors.Is(err,
		context.Canceled) {
		t.Errorf("WaitUntil returned %v", err)
	}
}

func TestWaitUntil_AsksAgainAfterEveryChange(t *testing.T) {
	for what, change := range map[string]func(*Cloud) error{
		"an instance added": func(c *Cloud) error { return c.AddInstances(Instance{Name: "b"}) },
		"one stopped":       func(c *Cloud) error { return c.StopInstance("a") },
		"one removed":       func(c *Cloud) error { return c.RemoveInstance("a") },
		"a route added": func(c *Cloud) error {
			return c.AddRoutes(Route{DestinationCIDR: "10.0.0.0/8"})
		},
	} {
		cloud := New()
		add(t, cloud, Instance{Name: "a"})
		before := fmt.Sprint(cloud.Instances(), cloud.Routes())
		asked := make(chan struct{}, 100)
		done := make(chan error, 1)
		go func() {
			done <- cloud.WaitUntil(within(t), func() bool {
				asked <- struct{}{}
				return fmt.Sprint(cloud.Instances(), cloud.Routes()) != before
			})
		}()
		<-asked
		if err := change(cloud); err != nil {
			t.Fatal(err)
		}
		if err := <-done; err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
}

func TestConcurrentCalls_WhenTwoCallersChangeTheCloudAtOnce(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		release := cloud.On("EnsureLoadBalancer").By("a").Hang()
		var calls sync.WaitGroup
		calls.Go(func() { _ = ensure(t.Context(), t, open(WithCaller("a"))) })
		if _, err := cloud.WaitForCall(within(t), CallFilter{Caller: "a"}.Matches); err != nil {
			t.Fatal(err)
		}
		b := open(WithCaller("b"))
		if _, err := routesOf(t, b).ListRoutes(t.Context(), "c"); err != nil ||
			len(cloud.ConcurrentCalls()) != 0 {
			t.Errorf("a read counts as a concurrent call: %v, %v", cloud.ConcurrentCalls(), err)
		}
		if err := ensure(t.Context(), t, b); err != nil {
			t.Fatal(err)
		}
		overlaps := cloud.ConcurrentCalls()
		if len(overlaps) != 1 || overlaps[0].Call.Caller != "b" || len(overlaps[0].With) != 1 ||
			overlaps[0].With[0].Caller != "a" {
			t.Errorf("the overlaps are %+v, want b during a", overlaps)
		}
		stats := cloud.Stats()
		if stats.InFlight != 1 || stats.Callers["a"].InFlight != 1 {
			t.Errorf("the counts are %+v", stats)
		}
		release()
		calls.Wait()
		if stats := cloud.Stats(); stats.InFlight != 0 ||
			stats.Callers["a"] != (CallerStats{Calls: 1, MaxInFlight: 1}) {
			t.Errorf("at the end the counts are %+v", stats)
		}
	})
}

func TestConcurrentCalls_CallersFollowEachOther_NoneIsFound(t *testing.T) {
	cloud := New()
	for _, caller := range []string{"a", "b", "a"} {
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() { _ = ensure(t.Context(), t, cloud.Provider(WithCaller(caller))) })
		}
		calls.Wait()
	}
	if overlaps := cloud.ConcurrentCalls(); len(overlaps) != 0 {
		t.Errorf("the overlaps are %v", overlaps)
	}
}

func TestResetCalls_ForgetsAllButTheCallsInFlight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cloud := New()
		_ = ensure(t.Context(), t, cloud.Provider(WithCaller("old")))
		release := cloud.On("EnsureLoadBalancer").Hang()
		var calls sync.WaitGroup
		calls.Go(func() { _ = ensure(t.Context(), t, cloud.Provider(WithCaller("x"))) })
		synctest.Wait()
		cloud.ResetCalls()
		if got := cloud.Calls(); len(got) != 1 || got[0].Finished {
			t.Errorf("the calls are %+v, want the one in flight", got)
		}
		want := Stats{Callers: map[string]CallerStats{"x": {1, 1, 1}}, InFlight: 1}
		if got := cloud.Stats(); !reflect.DeepEqual(got, want) {
			t.Errorf("the counts are %+v, want %+v", got, want)
		}
		release()
		calls.Wait()
		if got := cloud.Calls(); len(got) != 1 || !got[0].Finished {
			t.Errorf("at the end the calls are %+v", got)
		}
	})
}

func TestCallLimit_TheOldestAreForgottenAndStillCounted(t *testing.T) {
	cloud := New(WithCallLimit(8))
	p := cloud.Provider()
	for range 100 {
		_ = ensure(t.Context(), t, p)
	}
	calls := cloud.Calls()
	if len(calls) > 8 || len(calls) < 6 || calls[len(calls)-1].Seq != 100 ||
		cloud.Stats().Callers[""].Calls != 100 {
		t.Errorf("of 100 calls %d are kept, the last is %d, and %+v are counted", len(calls),
			calls[len(calls)-1].Seq, cloud.Stats())
	}
}

func TestCloud_IsSafeForConcurrentUse(t *testing.T) {
	onBoth(t, []Option{WithCluster("c", "192.0.2.1")},
		func(t *testing.T, cloud *Cloud, open opener) {
			add(t, cloud, machine)
			ctx, cancel := context.WithCancel(t.Context())
			var readers sync.WaitGroup
			readers.Go(func() {
				for ctx.Err() == nil {
					cloud.Calls()
					cloud.Stats()
					cloud.ConcurrentCalls()
					cloud.Faults()
					cloud.LoadBalancers()
					cloud.Routes()
					cloud.Instances()
					cloud.On("Master").For("unknown").Fail(errBroken)()
				}
			})
			readers.Go(func() {
				_ = cloud.WaitUntil(ctx, func() bool { return false })
			})
			var callers sync.WaitGroup
			for n := range 4 {
				callers.Go(func() {
					p := open(WithCaller(fmt.Sprint(n)))
					for round := range 20 {
						web := serviceNamed(fmt.Sprintf("web-%d", n))
						if _, err := balancersOf(t, p).EnsureLoadBalancer(ctx, "c", web,
							nodesNamed("node-1")); err != nil {
							t.Error(err)
						}
						if _, err := instancesOf(t, p).InstanceMetadata(ctx,
							nodeNamed("node-1")); err != nil {
							t.Error(err)
						}
						name := fmt.Sprintf("node-%d-%d", n, round)
						if err := cloud.AddInstances(Instance{Name: name}); err != nil {
							t.Error(err)
						}
						route := &cloudprovider.Route{
							TargetNode:      "node-1",
							DestinationCIDR: fmt.Sprintf("10.%d.%d.0/24", n, round),
						}
						if err := routesOf(t, p).CreateRoute(ctx, "c", "hint", route); err != nil {
							t.Error(err)
						}
						if err := cloud.RemoveInstance(name); err != nil {
							t.Error(err)
						}
					}
				})
			}
			callers.Wait()
			cancel()
			readers.Wait()
			if b, r := len(cloud.LoadBalancers()), len(cloud.Routes()); b != 4 || r != 80 {
				t.Errorf("the cloud has %d load balancers and %d routes, want 4 and 80", b, r)
			}
		})
}
