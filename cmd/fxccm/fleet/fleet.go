// Package fleet configures "fxccm fleet": a fleet whose clusters, placement and cloud providers are
// flags. It is an example of building the Params of a fleet from a program's own configuration.
package fleet

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/fleet"
	"github.com/fxccm/fxccm/internal/apiconn"
	"github.com/fxccm/fxccm/options"
	"github.com/fxccm/fxccm/provider/openstack"
)

// Labels of a cluster's object in its source.
const (
	// ProviderLabel chooses the cloud provider, instead of --cloud-provider.
	ProviderLabel = "fxccm.dev/cloud-provider"
	// NameLabel is the name of the cluster in the cloud: the --cluster-name of its earlier cloud
	// controller manager. The default is the cluster's name in the fleet.
	NameLabel = "fxccm.dev/cluster-name"
)

// A Config has the flags of a fleet. All other flags of fxccm apply to each cluster.
type Config struct {
	// Kind is clusterapi, secrets or directory.
	Kind string
	// Clusters is the namespace of the source's objects, and Selector selects among them.
	Clusters, Selector string
	// CleanUpLoadBalancers deletes the load balancers of deleted Clusters.
	CleanUpLoadBalancers bool
	// RequireOwnerMark treats objects without the mark of a Cluster as another cluster's.
	RequireOwnerMark bool
	// Directory is the directory with a folder for each cluster.
	Directory string
	// TrustClusters accepts all that a client configuration can do. Otherwise, the rules of Access
	// apply, whose RefusedRanges are those of RefuseRanges.
	TrustClusters bool
	Access        fleet.AccessRules
	RefuseRanges  []net.IPNet

	Name, Namespace, Identity string
	Weight                    int

	// Lock is management or workload.
	Lock   string
	Limits fleet.Limits

	// Cloud limits the requests of all clusters of one OpenStack project.
	Cloud openstack.SharedConfig
	// ClusterMetrics registers the metrics of each cluster's Manager, too.
	ClusterMetrics bool
}

// listMaxAge is 19 minutes: an idle cluster that is alone in its project then sends less than one
// request in two minutes. Drift of load balancers may be noticed 20 minutes later.
const listMaxAge = 19 * time.Minute

// The kinds of sources.
const (
	kindClusterAPI = "clusterapi"
	kindSecrets    = "secrets"
	kindDirectory  = "directory"
)

// Kinds returns the values of --clusters.
func Kinds() []string { return []string{kindClusterAPI, kindSecrets, kindDirectory} }

// AddFlags adds the flags to a set.
func (c *Config) AddFlags(set *pflag.FlagSet) {
	defaults := fleet.DefaultParams()
	set.StringVar(&c.Kind, "clusters", kindClusterAPI,
		"The source of the clusters: clusterapi, secrets or directory.")
	set.StringVar(&c.Clusters, "clusters-namespace", "",
		"The namespace of the clusters' objects. With clusterapi, empty means all namespaces.")
	set.StringVar(&c.Selector, "clusters-selector", "",
		"A label selector for the clusters' objects. With secrets, empty means "+
			"fxccm.dev/fleet-cluster=true.")
	set.BoolVar(&c.CleanUpLoadBalancers, "clean-up-load-balancers", false,
		"With clusterapi: delete the load balancers that remain of a deleted Cluster when its API "+
			"server is gone. Each Cluster gets a finalizer.")
	set.BoolVar(&c.RequireOwnerMark, "require-owner-mark", false,
		"With clusterapi: a load balancer, floating IP or security group whose tags name a cluster "+
			"without the mark of this Cluster (fxccm-owner) is another cluster's, whatever UIDs it "+
			"has. First run without the flag, so that existing objects get the mark.")
	set.StringVar(&c.Directory, "clusters-directory", "",
		"With directory: the directory with a folder for each cluster.")
	set.BoolVar(&c.TrustClusters, "clusters-trusted", false,
		"The kubeconfigs come from the operator alone: they may name files and programs, which the "+
			"replica reads and runs, and any address.")
	set.BoolVar(&c.Access.AllowProxy, "clusters-allow-proxy", false,
		"Use the proxy of a cluster's kubeconfig, or that of the environment. The proxy connects to "+
			"any address that the kubeconfig names.")
	set.BoolVar(&c.Access.AllowInsecureTLS, "clusters-allow-insecure-tls", false,
		"Permit insecure-skip-tls-verify in a cluster's kubeconfig.")
	set.IPNetSliceVar(&c.RefuseRanges, "clusters-refuse-ranges", nil,
		"CIDRs in which no cluster's API server may be, beside loopback, link-local and multicast "+
			"addresses.")
	set.StringVar(&c.Name, "name", defaults.Name,
		"The name of the fleet, which begins the names of its Leases.")
	set.StringVar(&c.Namespace, "namespace", defaults.Namespace,
		"The namespace of the fleet's Leases in the management cluster. It must exist.")
	set.StringVar(&c.Identity, "identity", "",
		"The name of this replica in the Leases, which must be unique. Empty: the host name and a "+
			"random suffix.")
	set.IntVar(&c.Weight, "weight", defaults.Weight,
		"This replica's share of the clusters in relation to the others', at most 100.")
	set.StringVar(&c.Lock, "lock", string(defaults.Lock),
		"Where the Lease of a cluster is: in the management cluster, or in the workload cluster "+
			"itself, where a cloud controller manager of its own has its Lease, too.")
	limits := defaults.Limits
	set.Int64Var(&c.Limits.ObjectBytes, "limit-object-bytes", limits.ObjectBytes,
		"How many bytes of a cluster's objects a replica keeps, as they come from the API server.")
	set.Int64Var(&c.Limits.BytesPerSecond, "limit-bytes-per-second", limits.BytesPerSecond,
		"How fast the responses of a cluster's API server are read.")
	set.Int64Var(&c.Limits.ReplicaListBytes, "limit-replica-list-bytes", limits.ReplicaListBytes,
		"How many bytes of large lists a replica reads and decodes at once, over all clusters. "+
			"Each counts as --limit-object-bytes.")
	set.DurationVar(&c.Limits.Outage, "limit-outage", limits.Outage,
		"How long the API server of a cluster may fail before its Manager is stopped and only a "+
			"probe remains.")
	set.Float64Var(&c.Cloud.RequestRate, "cloud-request-rate", 20,
		"How many requests a second all clusters of one OpenStack project send together, on "+
			"average. Negative: no limit.")
	set.IntVar(&c.Cloud.RequestBurst, "cloud-request-burst", 50,
		"How many requests all clusters of one OpenStack project may send at once.")
	set.DurationVar(&c.Cloud.MaxAge, "cloud-list-max-age", listMaxAge,
		"Maximum age of a list of an OpenStack project that another cluster has read, in periodic "+
			"checks of nodes' addresses and of load balancers. Negative: each check reads its own.")
	set.BoolVar(&c.ClusterMetrics, "cluster-metrics", false,
		"Also serve the metrics of each cluster, with its name as the label \"manager\". Their "+
			"number grows with the clusters.")
}

// Defaults sets the defaults that differ from those of a cloud controller manager of one cluster.
func Defaults(base *options.Options) { base.Configuration.Config = fleet.DefaultConfig() }

// Check returns an error for each flag that is missing or has no effect here.
func (c *Config) Check(set *pflag.FlagSet) error {
	var errs []error
	refuse := func(format string, args ...any) { errs = append(errs, fmt.Errorf(format, args...)) }
	switch isDirectory := c.Kind == kindDirectory; {
	case !slices.Contains(Kinds(), c.Kind):
		refuse("--clusters=%s is not supported: want %s", c.Kind, strings.Join(Kinds(), ", "))
	case c.Kind == kindSecrets && c.Clusters == "":
		refuse("--clusters=secrets needs --clusters-namespace")
	case isDirectory && c.Directory == "":
		refuse("--clusters=directory needs --clusters-directory")
	case !isDirectory && c.Directory != "":
		refuse("--clusters-directory needs --clusters=directory")
	case isDirectory && (c.Clusters != "" || c.Selector != ""):
		refuse("--clusters-namespace and --clusters-selector have no effect on a directory")
	}
	if c.CleanUpLoadBalancers &&
		(c.Kind != kindClusterAPI || c.Lock != string(fleet.LockManagement)) {
		refuse("--clean-up-load-balancers needs --clusters=clusterapi and --lock=management")
	}
	if c.RequireOwnerMark && c.Kind != kindClusterAPI {
		refuse("--require-owner-mark needs --clusters=clusterapi: other clusters have no marks")
	}
	if c.TrustClusters && (c.Access.AllowProxy || c.Access.AllowInsecureTLS ||
		len(c.RefuseRanges) > 0) {
		refuse("--clusters-trusted accepts all that --clusters-allow-proxy, " +
			"--clusters-allow-insecure-tls and --clusters-refuse-ranges limit")
	}
	locks := []string{string(fleet.LockManagement), string(fleet.LockWorkload)}
	if !slices.Contains(locks, c.Lock) {
		refuse("--lock=%s is not supported: want %s", c.Lock, strings.Join(locks, ", "))
	}
	if c.Cloud.RequestRate == 0 || c.Cloud.RequestBurst <= 0 || c.Cloud.MaxAge == 0 {
		refuse("--cloud-request-rate and --cloud-list-max-age must not be 0, and " +
			"--cloud-request-burst must be positive")
	}
	for _, flag := range refused() {
		isUsed := flag.why == ownLease && c.Lock == string(fleet.LockWorkload)
		if set.Changed(flag.name) && !isUsed {
			refuse("--%s has no effect in a fleet: %s", flag.name, flag.why)
		}
	}
	return errors.Join(errs...)
}

// ownLease explains why the name of a Lease has no effect with --lock=management.
const ownLease = "each cluster has a Lease in --namespace that begins with --name"

// refused are the flags of a single cluster that the fleet sets for each.
func refused() []struct{ name, why string } {
	return []struct{ name, why string }{
		{"cluster-name", "it is the cluster's own name, or its label " + NameLabel},
		{"leader-elect", "a cluster is served under its Lease only"},
		{"leader-elect-identity", "use --identity"},
		{"leader-elect-resource-name", ownLease},
		{"leader-elect-resource-namespace", ownLease},
	}
}

// A Host has the parts that the program gives to each cluster's Manager.
type Host struct {
	// Providers create a provider from a cluster's CloudConfig. If that is nil, the provider reads
	// the file of --cloud-config, if set.
	Providers map[string]func(*fleet.Cluster) (ccm.Provider, error)
	// Controllers are controllers beside the four cloud controllers.
	Controllers []ccm.Controller
	// Registerer registers the fleet's metrics, and with ClusterMetrics those of the clusters.
	Registerer prometheus.Registerer
	// Tracer starts the spans of the clusters' Managers. Nil: none.
	Tracer ccm.Tracer
}

// Params returns the Params of the fleet, from its flags and from the configuration of each
// cluster.
func (c *Config) Params(base ccm.Config, host Host) (fleet.Params, error) {
	if name := base.CloudProvider.Name; host.Providers[name] == nil {
		return fleet.Params{}, fmt.Errorf("--cloud-provider=%s is unknown: want %s", name,
			strings.Join(slices.Sorted(maps.Keys(host.Providers)), ", "))
	}
	management, err := connect(base.ClientConnection)
	if err != nil {
		return fleet.Params{}, err
	}
	access := c.Access
	for _, given := range c.RefuseRanges {
		prefix, err := netip.ParsePrefix(given.String())
		if err != nil {
			return fleet.Params{}, fmt.Errorf("--clusters-refuse-ranges: %w", err)
		}
		access.RefusedRanges = append(access.RefusedRanges, prefix)
	}
	source := c.source(management)
	if c.TrustClusters {
		source = fleet.Trusted(source)
	}
	params := fleet.Params{
		Name: c.Name, Namespace: c.Namespace, Identity: c.Identity, Weight: c.Weight,
		Management: management, Source: source, Access: access, Election: base.LeaderElection,
		Lock: fleet.Lock(c.Lock), Limits: c.Limits, Registerer: host.Registerer,
		RequireOwnerMark: c.RequireOwnerMark, Labels: []string{ProviderLabel, NameLabel},
		Manager: func(cluster fleet.Cluster) (ccm.Params, error) {
			params, err := manager(base, host, cluster)
			if c.ClusterMetrics {
				params.Registerer = host.Registerer
			}
			return params, err
		},
	}
	return params, nil
}

// connect returns the client configuration of the management cluster.
func connect(flags ccm.ClientConnectionConfig) (*rest.Config, error) {
	if flags.Kubeconfig == "" && flags.Master == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("no management cluster: set --kubeconfig, or run in a pod (%w)",
				err)
		}
		return config, nil
	}
	config, err := apiconn.FromFlags(flags.Master, flags.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("--kubeconfig: %w", err)
	}
	return config, nil
}

func (c *Config) source(management *rest.Config) fleet.Source {
	switch c.Kind {
	case kindSecrets:
		return fleet.Secrets(fleet.SecretsConfig{
			Management: management, Namespace: c.Clusters, Selector: c.Selector,
		})
	case kindDirectory:
		return fleet.Directory(c.Directory)
	}
	return fleet.ClusterAPI(fleet.ClusterAPIConfig{
		Management: management, Namespace: c.Clusters, Selector: c.Selector,
		CleanUpLoadBalancers: c.CleanUpLoadBalancers,
	})
}

// manager configures the Manager of one cluster.
func manager(base ccm.Config, host Host, cluster fleet.Cluster) (ccm.Params, error) {
	base.ClusterName = cmp.Or(cluster.Labels[NameLabel], cluster.Name)
	name := cmp.Or(cluster.Labels[ProviderLabel], base.CloudProvider.Name)
	base.CloudProvider.Name = name
	open, ok := host.Providers[name]
	if !ok {
		return ccm.Params{}, fmt.Errorf("the cloud provider %q in the cluster's label %s is unknown",
			name, ProviderLabel)
	}
	if cluster.CloudConfig != nil {
		base.CloudProvider.ConfigFile = ""
	}
	provider, err := open(&cluster)
	if err != nil {
		return ccm.Params{}, err
	}
	return ccm.Params{
		Config: base, Providers: []ccm.Provider{provider}, Controllers: host.Controllers,
		Tracer: host.Tracer,
	}, nil
}
