package fake_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/cloud-provider/api"

	"github.com/fxccm/fxccm/provider/fake"
)

func web() *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: "web",
		UID: "6f1c",
	}}
}

func node(name string) *v1.Node {
	return &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
}

func Example() {
	ctx := context.Background()
	cloud := fake.New()
	if err := cloud.AddInstances(fake.Instance{Name: "node-1"}); err != nil {
		panic(err)
	}

	provider := cloud.Provider()
	instances, _ := provider.InstancesV2()
	metadata, err := instances.InstanceMetadata(ctx, node("node-1"))
	fmt.Println(metadata.ProviderID, metadata.Zone, err)

	balancers, _ := provider.LoadBalancer()
	status, err := balancers.EnsureLoadBalancer(ctx, "kubernetes", web(),
		[]*v1.Node{node("node-1")})
	fmt.Println(status.Ingress[0].IP, err)

	fmt.Println(cloud.LoadBalancers()[0].Members)
	// Output:
	// fake://region-1/node-1 region-1a <nil>
	// 192.0.2.1 <nil>
	// [node-1]
}

func ExampleCloud_On() {
	ctx := context.Background()
	cloud := fake.New()
	cloud.On("EnsureLoadBalancer").For("default/web").Times(1).Fail(
		api.NewRetryError("still building", 5*time.Second))

	balancers, _ := cloud.Provider().LoadBalancer()
	for range 2 {
		_, err := balancers.EnsureLoadBalancer(ctx, "kubernetes", web(), nil)
		var retry *api.RetryError
		if errors.As(err, &retry) {
			fmt.Println(err, "- again in", retry.RetryAfter())
			continue
		}
		fmt.Println(err)
	}
	// Output:
	// still building - again in 5s
	// <nil>
}

func ExampleFaultBuilder_Hang() {
	ctx := context.Background()
	cloud := fake.New()
	release := cloud.On("EnsureLoadBalancer").Hang()

	done := make(chan error)
	go func() {
		balancers, _ := cloud.Provider(fake.WithCaller("replica-a/term-1")).LoadBalancer()
		_, err := balancers.EnsureLoadBalancer(ctx, "kubernetes", web(), nil)
		done <- err
	}()

	waiting, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	call, err := cloud.WaitForCall(waiting,
		fake.CallFilter{Method: "EnsureLoadBalancer", Object: "default/web"}.Matches)
	fmt.Println(call.Caller, "has finished:", call.Finished, err)
	release()
	fmt.Println(<-done)
	// Output:
	// replica-a/term-1 has finished: false <nil>
	// <nil>
}

func ExampleCloud_ConcurrentCalls() {
	ctx := context.Background()
	cloud := fake.New()
	release := cloud.On("EnsureLoadBalancer").By("old leader").Hang()
	ensure := func(caller string) {
		balancers, _ := cloud.Provider(fake.WithCaller(caller)).LoadBalancer()
		_, _ = balancers.EnsureLoadBalancer(ctx, "kubernetes", web(), nil)
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		ensure("old leader")
	}()
	_, _ = cloud.WaitForCall(ctx, fake.CallFilter{Caller: "old leader"}.Matches)
	ensure("new leader")
	release()
	<-done

	for _, overlap := range cloud.ConcurrentCalls() {
		fmt.Println(overlap.Call.Caller, "began", overlap.Call.Method, "during",
			overlap.With[0].Method, "of", overlap.With[0].Caller)
	}
	// Output:
	// new leader began EnsureLoadBalancer during EnsureLoadBalancer of old leader
}

func ExampleWithout() {
	provider := fake.New(fake.Without("LoadBalancer", "PVLabeler")).Provider()
	_, ok := provider.LoadBalancer()
	fmt.Println("load balancers:", ok)
	_, ok = provider.(cloudprovider.PVLabeler)
	fmt.Println("volume labels:", ok)
	_, ok = provider.Routes()
	fmt.Println("routes:", ok)
	// Output:
	// load balancers: false
	// volume labels: false
	// routes: true
}

func ExampleDial() {
	ctx := context.Background()

	// One process has the cloud.
	cloud := fake.New()
	_ = cloud.AddInstances(fake.Instance{Name: "node-1"})
	server := httptest.NewServer(cloud.Handler())
	defer server.Close()

	// Another uses it.
	client, err := fake.Dial(ctx, server.URL)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	provider := client.Provider(fake.WithCaller("replica-b/term-1"))
	instances, _ := provider.InstancesV2()
	_, err = instances.InstanceMetadata(ctx, node("node-2"))
	fmt.Println(err == cloudprovider.InstanceNotFound)

	call := cloud.Calls()[0]
	fmt.Println(call.Caller, call.Method, call.Object, call.Err)
	// Output:
	// true
	// replica-b/term-1 InstanceMetadata node-2 instance not found
}
