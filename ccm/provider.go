package ccm

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"
)

// A Provider is a factory of cloudprovider.Interface.
type Provider struct {
	// Name is the value of --cloud-provider that selects this provider. Required.
	Name string

	// New is called once a term. ctx ends with the term. An error, a nil result or a panic ends the
	// term; Status has the reason, and a new term follows after a pause. If the result has a method
	// Close() error, it is called when the term has drained.
	New func(ctx context.Context, env ProviderEnv) (cloudprovider.Interface, error)

	// Validate checks the provider's own configuration without a network. New of this package calls
	// it for the selected provider. Its error is part of New's *[ConfigError]. Optional.
	Validate func(Config) error

	// outlives reports that the term must not close the cloud.
	outlives bool
}

// ProviderEnv is the input of [Provider].New. A Manager sets every field; its functions and clients
// are safe for concurrent use.
type ProviderEnv struct {
	// Config is the Manager's whole configuration, such as the CIDRs of the cluster. The next four
	// fields are parts of it.
	Config Config

	// ClusterName is --cluster-name.
	ClusterName string

	// ConfigFile is --cloud-config, the path of the provider's own configuration. It may be empty.
	ConfigFile string

	// ConfigStrict is --cloud-config-strict: unknown keys in ConfigFile are an error instead of a
	// warning.
	ConfigStrict bool

	// UserAgents precede the provider's own user agent in its requests to the cloud.
	UserAgents []string

	// Identity is this process's name in the lease. Term is the number of the Manager's term.
	Identity string
	Term     uint64

	// Owner is Params.Owner.
	Owner string

	// RequireOwnerMark is Params.RequireOwnerMark.
	RequireOwnerMark bool

	// Manager is the Manager's name, for the label "manager" of metrics. It may be empty.
	Manager string

	// Logger is the logger of the term.
	Logger logr.Logger

	// Registerer registers the provider's metrics. Nil: they are not registered. It outlives the
	// term, and several Managers may share it, so the provider's collectors may be registered
	// already (prometheus.AlreadyRegisteredError).
	Registerer prometheus.Registerer

	// Clock is the clock of the Manager.
	Clock clock.Clock

	// Recorder returns a recorder for events of a component; see [Term.Recorder].
	Recorder func(component string) record.EventRecorder

	// Clients makes the term's clients of the API server by name, as for Initialize; see
	// [Term].RESTConfig. In New its methods ...OrDie end the term with an error.
	Clients cloudprovider.ControllerClientBuilder

	// Informers are the term's shared informers. New requests those that the cloud needs, and must
	// not wait for them: they start when every controller has been built. Later requests may get
	// objects without the fields that the four cloud controllers do not read. Nil in a term that
	// only calls [ClusterCleaner], because the API server of the cluster is gone.
	Informers informers.SharedInformerFactory

	// Fail ends the term with the error, if the cloud cannot serve it any more. A new term follows
	// after a pause of 1 to 45 seconds. Fail does not block, and does nothing with a nil error or
	// after the term has ended.
	Fail func(error)

	// Leadership is for a cloud that acts from another process.
	Leadership Leadership

	// ReportTrouble reports a problem of the cloud that is not the error of one call: the identity
	// service is down, a quota is exhausted, a mass deletion was refused. The problem lasts until
	// the subject is reported with a nil cause or the term ends. [status.Manager].Troubles and the
	// gauge fxccm_cloud_trouble show it. The readiness check does not fail, and its detail shows
	// the problem without the cause. subject is a short constant, not a name of an object; a term
	// has at most 32. cause must not contain secrets. ReportTrouble does not block, and ignores
	// repetitions.
	ReportTrouble func(subject string, cause error)

	// Transport adds the term's fence to a provider's own HTTP client. After the term, mutating
	// requests are refused, and those in flight are canceled. A provider should wrap the transport
	// of its cloud client with it.
	Transport func(http.RoundTripper) http.RoundTripper
}

// StaticProvider returns a Provider for a cloud that the host has built. All terms share the cloud.
// Its Initialize is called once a term; it is never closed.
func StaticProvider(cloud cloudprovider.Interface) Provider {
	if cloud == nil {
		return Provider{}
	}
	return Provider{
		Name: cloud.ProviderName(),
		New: func(context.Context, ProviderEnv) (cloudprovider.Interface, error) {
			return cloud, nil
		},
		outlives: true,
	}
}

// selectProvider returns the named provider, or the only one.
func selectProvider(name string, given []Provider) (Provider, error) {
	path, hosts := field.NewPath("cloudProvider", "name"), field.NewPath("Params", "Providers")
	names := make([]string, 0, len(given))
	for _, p := range given {
		if p.Name == "" || p.New == nil {
			return Provider{}, configError(field.Required(hosts,
				fmt.Sprintf("a provider (%q) lacks Name or New", p.Name)))
		}
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if dup := firstDuplicate(names); dup != "" {
		return Provider{}, configError(field.Invalid(hosts, dup,
			"several cloud providers have this name"))
	}
	switch {
	case len(given) == 0:
		return Provider{}, configError(field.Required(path,
			"no cloud provider was given: add one to the fx app "+
				"(a provider's Module, or ccm.AsProvider), or set Params.Providers"))
	case name != "":
		for _, p := range given {
			if p.Name == name {
				return p, nil
			}
		}
		return Provider{}, configError(field.NotSupported(path, name, names))
	case len(given) > 1:
		return Provider{}, configError(field.Required(path,
			fmt.Sprintf("several cloud providers were given (%s): choose one with --cloud-provider",
				strings.Join(names, ", "))))
	}
	return given[0], nil
}

func firstDuplicate(sorted []string) string {
	for i := 1; i < len(sorted); i++ {
		if sorted[i] == sorted[i-1] {
			return sorted[i]
		}
	}
	return ""
}
