package fake

import (
	"errors"
	"slices"
	"testing"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	cloudprovider "k8s.io/cloud-provider"
)

// served lists the optional interfaces that p offers.
func served(p cloudprovider.Interface) map[Interface]bool {
	_, instancesV2 := p.InstancesV2()
	_, instances := p.Instances()
	_, zones := p.Zones()
	_, balancers := p.LoadBalancer()
	_, routes := p.Routes()
	_, clusters := p.Clusters()
	_, informerUser := p.(cloudprovider.InformerUser)
	_, labeler := p.(cloudprovider.PVLabeler)
	return map[Interface]bool{
		"InstancesV2": instancesV2, "Instances": instances, "Zones": zones,
		"LoadBalancer": balancers, "Routes": routes, "Clusters": clusters,
		"InformerUser": informerUser, "PVLabeler": labeler,
	}
}

func TestProvider_ServesAllInterfaces(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, _ *Cloud, open opener) {
		for i, ok := range served(open()) {
			if !ok {
				t.Errorf("%s is not served", i)
			}
		}
	})
}

func TestProvider_WithoutAnInterface_ServesTheOthers(t *testing.T) {
	cases := [][]Interface{{"InformerUser", "PVLabeler"}, {"LoadBalancer", "Routes", "InstancesV2"}}
	for _, i := range optional() {
		cases = append(cases, []Interface{i})
	}
	for _, missing := range cases {
		onBoth(t, []Option{Without(missing...)}, func(t *testing.T, _ *Cloud, open opener) {
			for i, ok := range served(open()) {
				if ok == slices.Contains(missing, i) {
					t.Errorf("without %v, %s is served: %v", missing, i, ok)
				}
			}
		})
	}
}

func TestProvider_WhenNotServed_TheInterfaceIsNil(t *testing.T) {
	p := New(Without("LoadBalancer")).Provider()
	if b, _ := p.LoadBalancer(); b != nil {
		t.Errorf("the load balancers are %v, want a nil interface", b)
	}
}

func TestProvider_Options_SetNameAndClusterID(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, _ *Cloud, open opener) {
		if p := open(); p.ProviderName() != "fake" || !p.HasClusterID() {
			t.Errorf("the name is %q, with a cluster ID: %v", p.ProviderName(), p.HasClusterID())
		}
	})
	onBoth(t, []Option{WithProviderName("acme"), WithoutClusterID()},
		func(t *testing.T, _ *Cloud, open opener) {
			if p := open(); p.ProviderName() != "acme" || p.HasClusterID() {
				t.Errorf("it is called %q, with a cluster ID: %v", p.ProviderName(),
					p.HasClusterID())
			}
		})
}

func TestProvider_InitializeAndSetInformers_AreRecordedAndRunTheTestsFunctions(t *testing.T) {
	onBoth(t, nil, func(t *testing.T, cloud *Cloud, open opener) {
		var ran []string
		var gotFactory informers.SharedInformerFactory
		var gotStop <-chan struct{}
		p := open(WithCaller("x"),
			WithInitialize(func(_ cloudprovider.ControllerClientBuilder, stop <-chan struct{}) {
				ran, gotStop = append(ran, "Initialize"), stop
			}),
			WithSetInformers(func(f informers.SharedInformerFactory) {
				ran,
					gotFactory = append(ran, "SetInformers"), f
			}))

		stop := make(chan struct{})
		defer close(stop)
		factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
		p.Initialize(nil, stop)
		p.(cloudprovider.InformerUser).SetInformers(factory)
		if len(ran) != 2 || gotFactory != factory || gotStop != (<-chan struct{})(stop) {
			t.Errorf("%v ran, with what they should be given: %v, %v", ran, gotFactory == factory,
				gotStop == (<-chan struct{})(stop))
		}
		for n, m := range []Method{"Initialize", "SetInformers"} {
			if calls := cloud.Calls(CallFilter{
				Method: m, Caller: "x",
				Finished: true,
			}.Matches); len(calls) != 1 || calls[0].Seq != uint64(n+1) {
				t.Errorf("the record of %s is %v", m, calls)
			}
		}
	})
}

func TestProvider_WhenInitializeFails_TheTestsFunctionDoesNotRun(t *testing.T) {
	cloud := New()
	cloud.On("Initialize", "SetInformers").Fail(errors.New("no login"))
	p := cloud.Provider(
		WithInitialize(func(cloudprovider.ControllerClientBuilder, <-chan struct{}) {
			t.Error("the function ran after Initialize failed")
		}),
		WithSetInformers(func(informers.SharedInformerFactory) {
			t.Error("the function ran after SetInformers failed")
		}))
	p.Initialize(nil, nil)
	p.(cloudprovider.InformerUser).SetInformers(nil)
}

func TestOptions_Invalid_PanicWithTheReason(t *testing.T) {
	for name, opt := range map[string]func() Option{
		"provider name":     func() Option { return WithProviderName("a://b") },
		"region":            func() Option { return WithRegion("", "z") },
		"unknown interface": func() Option { return Without("Teapots") },
		"core interface":    func() Option { return Without("Interface") },
		"call limit":        func() Option { return WithCallLimit(0) },
	} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || len(text) < len("fake: ")+10 {
					t.Errorf("%s: it panics with %q, want a sentence", name, text)
				}
			}()
			New(opt())
		}()
	}
}
