package docs_test

import (
	"context"
	"fmt"

	"go.uber.org/fx"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	clientset "k8s.io/client-go/kubernetes/fake"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/provider/fake"
)

// docs: begin factory

// newFactory creates the host's informers, which run as long as the app.
func newFactory(
	lifecycle fx.Lifecycle, client kubernetes.Interface,
) informers.SharedInformerFactory {
	factory := informers.NewSharedInformerFactory(client, 0)
	factory.Core().V1().Nodes().Informer() // an informer that the host itself uses
	running, stop := context.WithCancel(context.Background())
	lifecycle.Append(fx.StartStopHook(
		func() { factory.StartWithContext(running) },
		func() {
			stop()
			factory.Shutdown()
		},
	))
	return factory
}

// docs: end

func Example_sharedInformers() {
	client := clientset.NewClientset(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}})
	sees := make(chan int)
	counts := func(t *ccm.Term, _ error) {
		sees <- len(t.Informers().Core().V1().Nodes().Informer().GetStore().List())
	}
	wants := announces(counts, nothing)
	build := wants.New
	wants.New = func(ctx context.Context, t *ccm.Term) (ccm.Runnable, error) {
		t.Informers().Core().V1().Nodes().Informer()
		return build(ctx, t)
	}
	others := fx.Options(
		fx.Provide(func() kubernetes.Interface { return client }),
		fx.NopLogger, fake.Module(fake.New()), fx.Supply(onlyAnnounces(), silence()),
		fx.Provide(hostRESTConfig),
		fx.Supply(&election.Alone{}),
		fx.Provide(ccm.AsController(func() ccm.Controller { return wants })),
	)
	// docs: begin share-fx
	app := fx.New(
		ccm.Module,
		fx.Provide(newFactory), // the Manager takes it by its type
		others,                 // the provider, the configuration, …
	)
	// docs: end
	if err := app.Start(context.Background()); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("the controller sees", <-sees, "node")
	fmt.Println(app.Stop(context.Background()))
	// Output:
	// the controller sees 1 node
	// <nil>
}
