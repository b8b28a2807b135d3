package informerview

import "k8s.io/client-go/kubernetes"

// ListingClient returns client with [Listing].
func ListingClient(client kubernetes.Interface) kubernetes.Interface {
	return struct {
		kubernetes.Interface
		Listing
	}{Interface: client}
}

// Listing is embedded in a client whose informers must begin with a list instead of a watch-list,
// the stream of events that client-go prefers.
//
// While the API server refuses a watch-list, client-go's reflector (tools/cache, v0.37:
// Reflector.watchList) does not call the handler of watch errors, so the reason is lost, and it
// does not end with its context: it sleeps for up to a minute, and a shutdown waits for it. A list
// that fails is reported, and its pause ends with the context.
type Listing struct{}

// IsWatchListSemanticsUnSupported is the method by which client-go recognizes such a client
// (util/watchlist).
func (Listing) IsWatchListSemanticsUnSupported() bool { return true }
