package ccm_test

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// The host's informers also serve the controllers, without a second watch or cache. They continue
// after a term and after the Manager's end.
func ExampleSharedInformers() {
	// a real host calls kubernetes.NewForConfig
	client := clientset.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Informer() // used by the host
	host, stopHost := context.WithCancel(context.Background())
	defer factory.Shutdown()
	defer stopHost()
	factory.StartWithContext(host)

	var stop context.CancelFunc
	lists := ccm.Controller{
		Name: "lists",
		New: func(_ context.Context, t *ccm.Term) (ccm.Runnable, error) {
			lister := t.Informers().Core().V1().Nodes().Lister()
			return ccm.RunnableFunc(func(ctx context.Context) error {
				all, err := lister.List(labels.Everything())
				fmt.Println("the controller sees", len(all), "node")
				stop() // ends the example
				<-ctx.Done()
				return err
			}), nil
		},
	}
	cfg := ccm.DefaultConfig()
	cfg.Controllers = []string{"lists"}
	log := logr.Discard()
	m, err := ccm.New(ccm.Params{
		Config:      cfg,
		Providers:   []ccm.Provider{fake.New().CCMProvider()},
		Controllers: []ccm.Controller{lists},
		RESTConfig:  &rest.Config{Host: "https://127.0.0.1:6443"},
		Elector:     &election.Alone{},
		Logger:      &log,
		// With fx: fx.Provide(func(…) informers.SharedInformerFactory { … }). The module stops them
		// if the host has not started them.
		Informers: ccm.SharedInformers{Factory: factory, Stop: host.Done()},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	stop = cancel
	fmt.Println("ended with", m.Run(ctx))

	fmt.Println("the host's informer has stopped:", nodes.IsStopped())
	// Output:
	// the controller sees 1 node
	// ended with <nil>
	// the host's informer has stopped: false
}

// zonedCloud is a cloud that reads all nodes.
type zonedCloud struct {
	cloudprovider.Interface
	nodes func() int
}

// SetInformers implements cloudprovider.InformerUser. The handlers that it adds are removed when
// the term ends.
func (c *zonedCloud) SetInformers(factory informers.SharedInformerFactory) {
	lister := factory.Core().V1().Nodes().Lister()
	c.nodes = func() int {
		all, _ := lister.List(labels.Everything())
		return len(all)
	}
}

// A provider that is a cloudprovider.InformerUser gets the term's informers before controllers are
// built.
func ExampleProvider_informerUser() {
	provider := ccm.Provider{
		Name: "zoned",
		New: func(context.Context, ccm.ProviderEnv) (cloudprovider.Interface, error) {
			return &zonedCloud{Interface: fake.New().Provider()}, nil // once a term
		},
	}
	m, err := ccm.New(ccm.Params{
		Config: ccm.DefaultConfig(), Providers: []ccm.Provider{provider},
		RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Status().Provider)
	// Output: zoned
}
