package informerview

import "k8s.io/client-go/kubernetes"

// ListingClient makes informers that use client begin with a list, and not with the stream of events called watch-list.
//
// While a watch-list is refused, client-go's reflector (tools/cache, v0.37: Reflector.watchList) neither calls the handler of watch
// errors, so nobody learns why the informer does not sync, nor ends with its context: it sleeps for up to a minute, and the
// factory's Shutdown waits for it. A list that fails is reported, and its pause ends with the context.
func ListingClient(client kubernetes.Interface) kubernetes.Interface { return listingClient{client} }

type listingClient struct{ kubernetes.Interface }

// IsWatchListSemanticsUnSupported is what client-go asks a client for (util/watchlist).
func (listingClient) IsWatchListSemanticsUnSupported() bool { return true }
