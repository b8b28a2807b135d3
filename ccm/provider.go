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
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"
	"k8s.io/utils/clock"
)

// A Provider is a factory of cloudprovider.Interface.
type Provider struct {
	// Name is what --cloud-provider selects by. Required.
	Name string

	// New is called once a term. ctx ends with the term. An error, a nil or a panic ends the term;
	// Status shows why, and a new one is tried after a pause. If the result has a method Close() error it is
	// called when the term has drained.
	New func(ctx context.Context, env ProviderEnv) (cloudprovider.Interface, error)

	// Validate looks at the provider's own configuration, as far as that can be done without a network. It is called by this
	// package's New, if the provider is the one that is selected, and an error is part of New's *[ConfigError]. Optional.
	Validate func(Config) error

	// outlives tells that the cloud is not the term's to close.
	outlives bool
}

// ProviderEnv is what a provider is built with.
type ProviderEnv struct {
	// ClusterName is --cluster-name.
	ClusterName string

	// ConfigFile is --cloud-config, the path of the provider's own configuration. It may be empty.
	ConfigFile string

	// ConfigStrict is --cloud-config-strict: whether what is unknown in ConfigFile is an error, or a warning in the log.
	ConfigStrict bool

	// UserAgents are to be put before the provider's own user agent in its requests.
	UserAgents []string

	// Identity and Term tell who leads: the name written to the lease, and the number of the term in
	// this process.
	Identity string
	Term     uint64

	// Manager is the Manager's name, for the label "manager" of metrics. It may be empty.
	Manager string

	// Logger is the term's.
	Logger logr.Logger

	// Registerer is where metrics are registered; nil: nowhere. It outlives the term, and other Managers may share it, so a
	// provider must be ready to find its collectors there (prometheus.AlreadyRegisteredError).
	Registerer prometheus.Registerer

	// Clock is the Manager's.
	Clock clock.Clock

	// Recorder returns a recorder for events of a component; see [Term.Recorder].
	Recorder func(component string) record.EventRecorder

	// ReportTrouble tells operators of a problem of the cloud that is not the error of one call: the identity service is
	// down, a quota is used up, a mass deletion was refused. It shows in [Status].Troubles, without its cause in the detail of the
	// readiness check (which does not fail), and in the gauge fxccm_cloud_trouble, until the same subject is reported with a nil cause
	// or the term ends. subject is a short constant, not a name of an object; a term has at most 32. cause must hold nothing
	// secret. It is safe for concurrent use, does not block, and ignores repetitions. A Manager always sets it.
	ReportTrouble func(subject string, cause error)

	// Transport puts the term's fence in front of a provider's own HTTP: once the term is over,
	// requests that may change something are refused, and those in flight cancelled. A provider should wrap
	// the transport of its cloud client with it.
	Transport func(http.RoundTripper) http.RoundTripper
}

// StaticProvider hands out the same cloud in every term, for one that the host has built. Its Initialize is
// called once a term; it is never closed.
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

// selectProvider finds the one provider to use: the one that is named, or the only one.
func selectProvider(name string, given []Provider) (Provider, error) {
	path := field.NewPath("cloudProvider", "name")
	names := make([]string, 0, len(given))
	for _, p := range given {
		if p.Name == "" || p.New == nil {
			return Provider{}, &ConfigError{Fields: field.ErrorList{field.Required(path, fmt.Sprintf("a provider given by the host (%q) lacks Name or New", p.Name))}}
		}
		names = append(names, p.Name)
	}
	slices.Sort(names)
	if dup := firstDuplicate(names); dup != "" {
		return Provider{}, &ConfigError{Fields: field.ErrorList{field.Duplicate(path, dup)}}
	}
	switch {
	case len(given) == 0:
		return Provider{}, &ConfigError{Fields: field.ErrorList{field.Required(path, "no cloud provider was given: add one to the fx app (a provider's Module, or ccm.AsProvider), or set Params.Providers")}}
	case name != "":
		for _, p := range given {
			if p.Name == name {
				return p, nil
			}
		}
		return Provider{}, &ConfigError{Fields: field.ErrorList{field.NotSupported(path, name, names)}}
	case len(given) > 1:
		return Provider{}, &ConfigError{Fields: field.ErrorList{field.Required(path, "several cloud providers were given ("+strings.Join(names, ", ")+"): choose one with --cloud-provider")}}
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
