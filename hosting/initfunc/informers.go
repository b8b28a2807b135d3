package initfunc

import (
	"context"
	"fmt"
	"time"

	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/informerview"
)

// typedInformers are the shared informers of a term. A stopped informer cannot be started again. So
// an InitFunc that starts the informers with its own channel must not be able to end them, because
// other controllers use them, too.
type typedInformers struct {
	informers.SharedInformerFactory
	start func()
}

func newTypedInformers(ctx context.Context, shared informers.SharedInformerFactory) typedInformers {
	return typedInformers{
		SharedInformerFactory: shared,
		start:                 func() { shared.StartWithContext(ctx) },
	}
}

// Start implements informers.SharedInformerFactory. The informers run until the term is over.
func (i typedInformers) Start(<-chan struct{}) { i.start() }

// StartWithContext implements informers.SharedInformerFactory, like Start.
func (i typedInformers) StartWithContext(context.Context) { i.start() }

// metadataInformers are the metadata informers of one controller.
type metadataInformers struct {
	metadatainformer.SharedInformerFactory
	start func()
}

func newMetadataInformers(
	ctx context.Context, cfg *rest.Config, resync time.Duration,
) (metadataInformers, error) {
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return metadataInformers{}, fmt.Errorf("client for metadata: %w", err)
	}
	factory := metadatainformer.NewSharedInformerFactoryWithOptions(
		listingClient{Interface: client}, resync,
		metadatainformer.WithTransform(informerview.StripManagedFields))
	// Start starts a goroutine for each informer and returns. Shutdown waits for these goroutines.
	return metadataInformers{
		SharedInformerFactory: factory,
		start:                 func() { factory.Start(ctx.Done()) },
	}, nil
}

// Start implements metadatainformer.SharedInformerFactory. The informers run until the term is
// over, because Shutdown waits for them, and the given channel may never be closed.
func (i metadataInformers) Start(<-chan struct{}) { i.start() }

// listingClient is a client for metadata whose informers begin with a list.
type listingClient struct {
	metadata.Interface
	informerview.Listing
}
