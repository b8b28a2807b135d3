package ccm

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/election"
)

// Config is the configuration that a user types: plain data, the same as flags (package options),
// YAML, or a Go literal. Start from [DefaultConfig]; a zero Config is not valid. Names and meanings
// are those of upstream's cloud-controller-manager flags, given in parentheses.
type Config struct {
	// ClusterName prefixes what the provider creates in the cloud (--cluster-name). Default
	// "kubernetes". It must not be empty, and must not change over the life of a cluster.
	ClusterName string `json:"clusterName"`

	// ClusterCIDR is the range of pod addresses, or two of different IP families separated by a
	// comma (--cluster-cidr). The route controller and node-ipam-controller read it. Default "": if
	// the provider serves routes, the route controller fails, and the others serve.
	ClusterCIDR string `json:"clusterCIDR,omitempty"`

	// AllocateNodeCIDRs lets node-ipam-controller (package controllers/nodeipam) give each node a
	// range of pod addresses (--allocate-node-cidrs). It has no effect unless Controllers names
	// that controller. Default false.
	AllocateNodeCIDRs bool `json:"allocateNodeCIDRs,omitempty"`

	// ConfigureCloudRoutes lets the route controller run if the provider serves routes
	// (--configure-cloud-routes). Default true. False means that no controller creates routes: the
	// cloud-node-controller removes the condition NetworkUnavailable with the reason NoRouteCreated
	// from the provider's nodes. If another program runs the route controller for them, leave this
	// true, and have "-node-route-controller" in Controllers.
	ConfigureCloudRoutes bool `json:"configureCloudRoutes"`

	// NodeSelector selects nodes by their labels, in kubectl's notation (--node-selector). The four
	// controllers leave the other nodes alone: these are not looked up in the cloud, not
	// initialized, updated, tainted or deleted, are no members of load balancers, and their routes
	// are neither created nor deleted. Default "": all nodes.
	NodeSelector string `json:"nodeSelector,omitempty"`

	// Controllers selects the controllers that run (--controllers): "*" is all that are on by
	// default, "name" turns one on, "-name" turns one off. Names and upstream's aliases are
	// accepted. Default ["*"].
	Controllers []string `json:"controllers"`

	// ControllerStartInterval is the pause between the starts of two controllers
	// (--controller-start-interval). Default 0.
	ControllerStartInterval metav1.Duration `json:"controllerStartInterval"`

	// MinResyncPeriod is the shortest resync period of the informers (--min-resync-period). The
	// actual period is random, up to twice as long, so that replicas do not resync together.
	// Default 12h.
	MinResyncPeriod metav1.Duration `json:"minResyncPeriod"`

	// CacheSyncTimeout limits the initial sync of the informers of the provider, and of each
	// controller. When it expires for a controller, the controller has failed
	// ([Controller].RestartOnFailure). For the provider, the term ends and is retried after a
	// pause. Default 2m.
	CacheSyncTimeout metav1.Duration `json:"cacheSyncTimeout"`

	// DrainTimeout limits the end of a term. By then every controller has returned and no call to
	// the cloud or the API server is in flight, or a [DrainTimeoutError] names the stuck
	// activities. A longer drain timeout only delays the report of stuck calls. On a stop, calls in
	// flight get half of it before they are canceled. Default 8s. It should be shorter than the
	// host's own stop timeout (fx: 15s).
	DrainTimeout metav1.Duration `json:"drainTimeout"`

	// UseServiceAccountCredentials gives each controller its own identity, the ServiceAccount
	// kube-system/<client name> (--use-service-account-credentials). Default false.
	UseServiceAccountCredentials bool `json:"useServiceAccountCredentials"`

	CloudProvider    CloudProviderConfig    `json:"cloudProvider"`
	ClientConnection ClientConnectionConfig `json:"clientConnection"`
	LeaderElection   election.Config        `json:"leaderElection"`
	Node             NodeConfig             `json:"node"`
	NodeLifecycle    NodeLifecycleConfig    `json:"nodeLifecycle"`
	Service          ServiceConfig          `json:"service"`
	Route            RouteConfig            `json:"route"`
	NodeIPAM         NodeIPAMConfig         `json:"nodeIPAM"`
}

// CloudProviderConfig selects and configures the provider.
type CloudProviderConfig struct {
	// Name selects one of the providers that the host has given (--cloud-provider). Default "": the
	// only one.
	Name string `json:"name,omitempty"`

	// ConfigFile is the path of the provider's own configuration (--cloud-config). Default "".
	ConfigFile string `json:"configFile,omitempty"`

	// ConfigStrict makes unknown sections and keys in ConfigFile an error instead of a warning
	// (--cloud-config-strict). Default true.
	ConfigStrict bool `json:"configStrict"`

	// UserAgents precede the provider's own user agent in its requests to the cloud (--user-agent,
	// as in openstack-cloud-controller-manager). Default none.
	UserAgents []string `json:"userAgents,omitempty"`

	// StartTimeout limits how long a term builds and starts the provider and builds its
	// controllers, which ask the provider for its interfaces (--cloud-provider-start-timeout). When
	// it expires, the term fails, so that another replica can lead. Default 2m, also if it is 0.
	StartTimeout metav1.Duration `json:"startTimeout"`

	// AllowUntagged accepts a provider without a cluster ID (--allow-untagged-cloud, deprecated
	// upstream). Default false.
	AllowUntagged bool `json:"allowUntagged,omitempty"`
}

// ClientConnectionConfig configures all clients of the Manager. Kubeconfig and Master have no
// effect if the host gives a client configuration.
type ClientConnectionConfig struct {
	// Kubeconfig is the path of a kubeconfig file (--kubeconfig). Default "": the pod's own
	// service account.
	Kubeconfig string `json:"kubeconfig,omitempty"`

	// Master overrides the API server's address in the kubeconfig (--master). Default "".
	Master string `json:"master,omitempty"`

	// ContentType is the encoding of requests (--kube-api-content-type).
	// Default "application/vnd.kubernetes.protobuf".
	ContentType string `json:"contentType"`

	// QPS limits the requests per second of each client (--kube-api-qps). Default 0. 0 and negative
	// values are no limit, because the server's priority and fairness limits requests.
	QPS float32 `json:"qps"`

	// Burst is how many requests may exceed QPS at once (--kube-api-burst). It has no effect
	// without a limit. Default 30.
	Burst int `json:"burst"`
}

// DefaultConfig returns upstream's defaults, except for concurrency and client-side throttling,
// whose upstream defaults make a CCM slow (see docs/reference/flags.md).
func DefaultConfig() Config {
	return Config{
		ClusterName:          "kubernetes",
		ConfigureCloudRoutes: true,
		CloudProvider: CloudProviderConfig{
			ConfigStrict: true,
			StartTimeout: duration(defaultStartTimeout),
		},
		Controllers:      []string{"*"},
		MinResyncPeriod:  duration(12 * time.Hour),
		CacheSyncTimeout: duration(2 * time.Minute),
		DrainTimeout:     duration(8 * time.Second),
		ClientConnection: ClientConnectionConfig{
			ContentType: "application/vnd.kubernetes.protobuf",
			Burst:       30,
		},
		LeaderElection: election.Config{
			LeaderElect:       true,
			LeaseDuration:     duration(15 * time.Second),
			RenewDeadline:     duration(10 * time.Second),
			RetryPeriod:       duration(2 * time.Second),
			ResourceName:      "cloud-controller-manager",
			ResourceNamespace: "kube-system",
		},
		Node: NodeConfig{
			ConcurrentSyncs:       32,
			StatusUpdateFrequency: duration(5 * time.Minute),
		},
		NodeLifecycle: NodeLifecycleConfig{
			ConcurrentSyncs: 16,
			MonitorPeriod:   duration(5 * time.Second),
		},
		Service:  ServiceConfig{ConcurrentSyncs: 16, DefaultLoadBalancer: true},
		Route:    RouteConfig{ReconciliationPeriod: duration(10 * time.Second)},
		NodeIPAM: NodeIPAMConfig{AllocatorType: "RangeAllocator"},
	}
}

const defaultStartTimeout = 2 * time.Minute

func duration(d time.Duration) metav1.Duration { return metav1.Duration{Duration: d} }
