package ccm

import (
	"context"
	"log/slog"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/ccm/election"
)

// Params is the input of [New]: a Config, and code. Only Config and Providers are required. The
// Manager has defaults for all other fields.
type Params struct {
	// Name distinguishes the Managers of one process in logs and in the label "manager" of metrics.
	// Default "".
	Name string

	// Owner identifies the cluster in the cloud by a name that the cluster's own API server cannot
	// choose, unlike UIDs, which it reports. A provider marks the objects of the cluster with it,
	// and treats objects with another mark as another cluster's. A [ClusterCleaner] deletes only
	// objects with the mark. A fleet of Cluster API sets it to the Cluster's name there. It must be
	// unique among the Managers of a cloud, and must not change: objects with the earlier mark are
	// refused. Default "": no marks.
	Owner string

	// RequireOwnerMark makes a provider treat an object as another cluster's if it names a cluster
	// or Service without the mark of Owner, whatever its UIDs are. Objects that are older than the
	// marks, or that another cloud controller manager created, are then not taken over. It needs an
	// Owner. Default false: an object without a mark belongs to the cluster with its UIDs.
	RequireOwnerMark bool

	// Config is validated by New. Start from [DefaultConfig].
	Config Config

	// Providers holds the cloud provider. If there are several, Config.CloudProvider.Name chooses.
	Providers []Provider

	// Controllers are the host's own, in addition to the four cloud controllers.
	Controllers []Controller

	// RESTConfig is the client configuration of the API server. Nil: Config.ClientConnection, or
	// the pod's service account.
	RESTConfig *rest.Config

	// Clients returns the configuration of each client, and replaces RESTConfig and
	// Config.ClientConnection. Nil: all clients have one identity, and their name in the user
	// agent.
	Clients ClientBuilder

	// Informers are the host's shared informers. Without them each term makes and ends its own.
	Informers SharedInformers

	// Elector decides when to act. Nil: [election.NewLease], or [election.Alone] if Config disables
	// leader election.
	Elector election.Elector

	// Logger is the logger of the Manager and its controllers. Nil: klog's. The route
	// controller, which is upstream's, writes to klog in both cases.
	Logger *logr.Logger

	// EventRecorders returns the recorders of the Manager and of [Term.Recorder]. Nil: events go to
	// the API server under the Manager's own identity.
	EventRecorders EventRecorderSource

	// Registerer registers the metrics of the Manager and of its controllers. Several Managers may
	// share one. Nil: the metrics are not registered, which is one of Status.Warnings. If it is a
	// prometheus.Gatherer, too, as a *prometheus.Registry is, ccm/serving/endpoints serves it. The
	// route controller, which is upstream's, always uses component-base's legacyregistry.
	Registerer prometheus.Registerer

	// Tracer starts the spans of the Manager's terms: of each sync of a Service or a node, and of
	// the calls of the provider and the requests below it. The attribute "fxccm.manager" is Name.
	// Package ccm/tracing has a Tracer for OpenTelemetry. Nil: no spans, at no cost.
	Tracer Tracer

	// OnDrainTimeout is called once for each term that exceeds its drain timeout while the Manager
	// runs. The Manager recovers by itself. A host that must exclude any action without the lease
	// ends its process if the error's MayAct is true. It must not block. Nil: no call.
	OnDrainTimeout func(*DrainTimeoutError)

	// Clock decides whether leadership is still valid, and paces retries. Nil: the real clock.
	// Timeouts, and the default elector's campaign, always use the real clock.
	Clock clock.Clock
}

// EventRecorderSource returns the recorder for events of a component. It must be safe for
// concurrent use. An example is the method GetEventRecorderFor of controller-runtime's manager. The
// host closes the recorders after Run has returned.
type EventRecorderSource func(component string) record.EventRecorder

// Tracer starts spans, for any tracing library. It must be safe for concurrent use, and must not
// block.
type Tracer interface {
	// StartSpan starts a span. If ctx has a span of the Tracer, that is the parent. It returns a
	// context with the new span, and a function that ends it, which is called once. A span with the
	// attribute "http.request.method" is a request that is sent. err is nil unless the span has
	// failed: to wait for the cloud is no failure. The attributes of the end complete those of the
	// start. They hold no secrets: no headers, no queries and no bodies.
	StartSpan(ctx context.Context, name string, attributes []slog.Attr) (
		_ context.Context, end func(err error, attributes []slog.Attr))
}
