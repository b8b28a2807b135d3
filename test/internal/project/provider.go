package project

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// Provider is the provider for a Manager. Its requests go over the wire.
func (p *Project) Provider(opts ...openstack.Option) ccm.Provider {
	provider := openstack.Provider(opts...)
	open := provider.New
	provider.New = func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
		env.Transport = p.Wire.Transport(env.Transport)
		return open(ctx, env)
	}
	return provider
}

// A Cloud is the provider, opened for one test, with a fake clientset and informers as its cluster.
type Cloud struct {
	cloudprovider.Interface
	// Kube has the namespace kube-system. The provider sees the objects that a test adds, when the
	// informers have.
	Kube *fake.Clientset
	// Informers are the provider's informers.
	Informers informers.SharedInformerFactory
	// Events are the events of the provider, in the format of record.FakeRecorder.
	Events chan string

	end func()
}

// Close ends the provider before the test ends.
func (c *Cloud) Close() { c.end() }

// ClusterUID is the UID of kube-system in a Cloud.
const ClusterUID = types.UID("6f1c5d0e-0000-4000-8000-00000c1057e4")

// Open opens the provider with a configuration, and with objects in the cluster.
func (p *Project) Open(t testing.TB, cfg cloudconf.Config, objects ...runtime.Object) *Cloud {
	t.Helper()
	return p.OpenWith(t, []openstack.Option{openstack.WithConfig(cfg)}, func(*ccm.ProviderEnv) {},
		objects...)
}

// OpenWith opens the provider in another way, such as from a file, or with another clock.
func (p *Project) OpenWith(
	t testing.TB, opts []openstack.Option, change func(*ccm.ProviderEnv), objects ...runtime.Object,
) *Cloud {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	system := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: metav1.NamespaceSystem,
		UID:  ClusterUID,
	}}
	c := &Cloud{
		Kube:   fake.NewClientset(append([]runtime.Object{system}, objects...)...),
		Events: make(chan string, 1000),
	}
	env := ccm.ProviderEnv{
		ClusterName: "kubernetes", Identity: "test", Term: 1, Logger: testr.New(testingT(t)),
		Clock: clock.RealClock{}, ConfigStrict: true,
		Recorder: func(string) record.EventRecorder {
			return &record.FakeRecorder{Events: c.Events}
		},
	}
	change(&env)
	var err error
	if c.Interface, err = p.Provider(opts...).New(ctx, env); err != nil {
		cancel()
		t.Fatal(err)
	}
	factory := informers.NewSharedInformerFactory(c.Kube, 0)
	c.Informers = factory
	c.Initialize(builder{c.Kube}, ctx.Done())
	if user, is := c.Interface.(cloudprovider.InformerUser); is {
		user.SetInformers(factory)
	}
	c.LoadBalancer()
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	c.end = sync.OnceFunc(func() {
		cancel()
		factory.Shutdown()
		if closer, is := c.Interface.(interface{ Close() error }); is {
			if err := closer.Close(); err != nil {
				t.Error(err)
			}
		}
	})
	t.Cleanup(c.end)
	return c
}

// testingT returns nil for a benchmark, which logs nothing.
func testingT(t testing.TB) *testing.T {
	if t, is := t.(*testing.T); is {
		return t
	}
	return &testing.T{}
}

// NextEvent is the next event; "" if no event comes within a second.
func (c *Cloud) NextEvent() string {
	select {
	case e := <-c.Events:
		return e
	case <-time.After(time.Second):
		return ""
	}
}

// builder returns the same clientset for all names.
type builder struct{ kube kubernetes.Interface }

// Config implements cloudprovider.ControllerClientBuilder; the provider needs none.
func (b builder) Config(string) (*rest.Config, error) { return &rest.Config{}, nil }

// ConfigOrDie implements cloudprovider.ControllerClientBuilder.
func (b builder) ConfigOrDie(string) *rest.Config { return &rest.Config{} }

// Client implements cloudprovider.ControllerClientBuilder.
func (b builder) Client(string) (kubernetes.Interface, error) { return b.kube, nil }

// ClientOrDie implements cloudprovider.ControllerClientBuilder.
func (b builder) ClientOrDie(string) kubernetes.Interface { return b.kube }
