package ccm

import (
	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// Params is what a [Manager] is made of: a Config, and code. Only Config and Providers are required; what a host leaves out the
// Manager makes for itself.
type Params struct {
	// Name tells the Managers of one process apart, in logs and as the label "manager" of metrics. Default "".
	Name string

	// Config is validated by New. Start from [DefaultConfig].
	Config Config

	// Providers holds the cloud provider. If there are several, Config.CloudProvider.Name chooses.
	Providers []Provider

	// Controllers are the host's own, beside the four of upstream.
	Controllers []Controller

	// RESTConfig is the client configuration of the API server. Nil: from
	// Config.ClientConnection, or of the pod's service account.
	RESTConfig *rest.Config

	// Clients gives the client configuration of each name, instead of RESTConfig and Config.ClientConnection. Nil: all clients
	// are of one identity and have their name in the user agent.
	Clients ClientBuilder

	// Informers are the host's shared informers. Without them each term makes its own, and ends them.
	Informers SharedInformers

	// Elector decides when to act. Nil: a Lease, or [AlwaysLead] if Config says not to elect.
	Elector Elector

	// Logger is used by the Manager and handed to controllers. Nil: klog's. The four controllers of upstream write most of their
	// messages to klog, whatever this is.
	Logger *logr.Logger

	// EventRecorders is where events go that are recorded by the Manager and through [Term.Recorder]. Nil: to the API server,
	// as the Manager's own identity. The four controllers of upstream have recorders of their own.
	EventRecorders EventRecorderSource

	// Registerer is where the Manager's metrics are registered: calls to the cloud, terms, leadership. Several Managers may share
	// one. Nil: they are not. Those of upstream's controllers are in component-base's legacyregistry, whatever this is.
	Registerer prometheus.Registerer

	// OnDrainTimeout is called when a term did not end within its drain timeout while the Manager runs, once for each such
	// term. The Manager recovers by itself; a host that must be certain that nothing acts without the lease ends its process
	// if the error's MayAct is true. It must not block. Nil: nothing is called.
	OnDrainTimeout func(*DrainTimeoutError)

	// Clock is asked whether leadership is still valid, and paces what is tried again. Nil: the real one. Timeouts are always of
	// the real clock, and so is the default elector's campaign.
	Clock clock.Clock
}

// EventRecorderSource returns the recorder for events of a component. It must be safe for concurrent use. The method
// GetEventRecorderFor of controller-runtime's manager is one. The host ends what is behind it, after Run has returned.
type EventRecorderSource func(component string) record.EventRecorder
