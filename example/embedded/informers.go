package main

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/fx"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// sharedInformers are the host's own: they run for as long as the process, whoever leads. The cloud
// controller manager takes the factory from the app, so that nodes and Services are watched and
// kept once, and takes back its handlers when a term ends.
//
// Controller-runtime has a cache of its own, which ends with its manager. The reconciler does not
// use these informers: what it would register with them could not be taken back after a loss.
var sharedInformers = fx.Module("informers",
	fx.Provide(newInformers),
	fx.Invoke(serveNodes),
)

func newInformers(
	lifecycle fx.Lifecycle, config *rest.Config,
) (informers.SharedInformerFactory, error) {
	client, err := kubernetes.NewForConfig(
		rest.AddUserAgent(rest.CopyConfig(config), "shared-informers"))
	if err != nil {
		return nil, fmt.Errorf("client for the informers: %w", err)
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	ctx, cancel := context.WithCancel(context.Background())
	lifecycle.Append(fx.Hook{
		OnStart: func(context.Context) error {
			factory.StartWithContext(ctx)
			return nil
		},
		OnStop: func(context.Context) error {
			cancel()
			factory.Shutdown()
			return nil
		},
	})
	return factory, nil
}

// serveNodes is what the host itself has its informers for: a page that counts the nodes.
func serveNodes(mux *http.ServeMux, factory informers.SharedInformerFactory) {
	nodes := factory.Core().V1().Nodes().Lister()
	mux.HandleFunc("GET /nodes", func(w http.ResponseWriter, _ *http.Request) {
		all, err := nodes.List(labels.Everything())
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		_, _ = fmt.Fprintln(w, len(all)) // it fails when the client has gone
	})
}
