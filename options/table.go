package options

import (
	"strings"

	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/servingconfig"
)

// flagSpec describes a flag for binding, validation, tests and the reference page.
type flagSpec struct {
	name, usage, deprecated string

	// add binds the flag under name in a set.
	add func(set *pflag.FlagSet, o *Options, name, usage string)

	// field returns the address of the field that the flag sets, and carry copies the field. Both
	// are nil for a flag that sets nothing in a Configuration.
	field func(*Configuration) any
	carry func(to, from *Configuration)
}

type flagGroup struct {
	name  string
	flags []flagSpec
}

// binder is the type of pflag's (*FlagSet).BoolVar and similar methods.
type binder[T any] func(set *pflag.FlagSet, p *T, name string, value T, usage string)

// sets returns a flag that sets a field of the Manager's Config. Its default is the field's value
// when it is bound.
func sets[T any](name string, bind binder[T], at func(*ccm.Config) *T, usage string) flagSpec {
	return setsIn(name, bind, func(c *Configuration) *T { return at(&c.Config) }, usage)
}

// serves returns a flag that sets a field of the secure port's Config.
func serves[T any](
	name string, bind binder[T], at func(*servingconfig.Config) *T, usage string,
) flagSpec {
	return setsIn(name, bind, func(c *Configuration) *T { return at(&c.Serving) }, usage)
}

func setsIn[T any](name string, bind binder[T], at func(*Configuration) *T, usage string) flagSpec {
	return flagSpec{
		name: name, usage: usage,
		add: func(set *pflag.FlagSet, o *Options, name, usage string) {
			p := at(&o.Configuration)
			bind(set, p, name, *p, usage)
		},
		field: func(c *Configuration) any { return at(c) },
		carry: func(to, from *Configuration) { *at(to) = *at(from) },
	}
}

// upstreams returns a flag without a field, for compatibility with upstream. See differences for
// its effect.
func upstreams[T any](name string, bind binder[T], value T, usage string) flagSpec {
	return flagSpec{
		name: name, usage: usage,
		add: func(set *pflag.FlagSet, _ *Options, name, usage string) {
			bind(set, new(T), name, value, usage)
		},
	}
}

func (f flagSpec) deprecate(why string) flagSpec {
	f.deprecated = why
	return f
}

// flagTable lists every flag in upstream's groups and their order.
func flagTable(controllers []string) []flagGroup {
	boolean, text := (*pflag.FlagSet).BoolVar, (*pflag.FlagSet).StringVar
	list, array := (*pflag.FlagSet).StringSliceVar, (*pflag.FlagSet).StringArrayVar
	number, number32 := (*pflag.FlagSet).IntVar, (*pflag.FlagSet).Int32Var
	real32, numbers32 := (*pflag.FlagSet).Float32Var, (*pflag.FlagSet).Int32SliceVar
	type (
		config   = ccm.Config
		serving  = servingconfig.Config
		duration = metav1.Duration
	)
	return []flagGroup{
		{"debugging", []flagSpec{
			serves("profiling", boolean, func(c *serving) *bool { return &c.Profiling },
				"Serve profiles of the process and debug pages of controllers under /debug/ on the secure port."),
			serves("contention-profiling", boolean,
				func(c *serving) *bool { return &c.ContentionProfiling },
				"Sample blocking for /debug/pprof/block, if --profiling is on."),
		}},
		{"leader-migration", []flagSpec{
			upstreams("enable-leader-migration", boolean, false,
				"Not supported: leader migration between controller managers."),
			upstreams("leader-migration-config", text, "",
				"Not supported: the file that configures leader migration."),
		}},
		{"generic", []flagSpec{
			{
				name:  "config",
				usage: "File to read the configuration from (YAML). A flag given on the command line wins over the file.",
				add: func(set *pflag.FlagSet, o *Options, name, usage string) {
					set.StringVar(&o.configFile, name, o.configFile, usage)
				},
			},
			sets("min-resync-period", durationVar,
				func(c *config) *duration { return &c.MinResyncPeriod },
				"Resync period of the informers. The actual period is random: at least this one, less than twice this one."),
			sets("cache-sync-timeout", durationVar,
				func(c *config) *duration { return &c.CacheSyncTimeout },
				"How long the informers of a controller may take to sync after a leader is elected, before the controller has failed and is retried."),
			sets("drain-timeout", durationVar, func(c *config) *duration { return &c.DrainTimeout },
				"How long controllers and calls in flight may take to finish when leadership ends. Keep it shorter than the stop timeout of the host."),
			sets("kube-api-content-type", text,
				func(c *config) *string { return &c.ClientConnection.ContentType },
				"Content type of requests to the API server."),
			sets("kube-api-qps", real32,
				func(c *config) *float32 { return &c.ClientConnection.QPS },
				"Requests a second that each client may send to the API server. 0 or less means no limit: the priority and fairness of the API server applies."),
			sets("kube-api-burst", int32Var,
				func(c *config) *int { return &c.ClientConnection.Burst },
				"Requests that each client may send at once above --kube-api-qps. Ignored without that limit."),
			sets("controller-start-interval", durationVar,
				func(c *config) *duration { return &c.ControllerStartInterval },
				"Pause between the starts of two controllers."),
			sets("controllers", list, func(c *config) *[]string { return &c.Controllers },
				"Controllers to run, separated by commas: '*' enables all that are on by default, 'foo' enables foo, '-foo' disables it. Controllers: "+
					strings.Join(controllers, ", ")+"."),
			sets("leader-elect", boolean,
				func(c *config) *bool { return &c.LeaderElection.LeaderElect },
				"Acquire a lease before changing anything. Disable it only if there is always a single replica."),
			sets("leader-elect-lease-duration", durationVar,
				func(c *config) *duration { return &c.LeaderElection.LeaseDuration },
				"How long other replicas wait after the last renewal before they acquire the lease."),
			sets("leader-elect-renew-deadline", durationVar,
				func(c *config) *duration { return &c.LeaderElection.RenewDeadline },
				"How long the leader retries a renewal before it stops leading. Must be shorter than --leader-elect-lease-duration."),
			sets("leader-elect-retry-period", durationVar,
				func(c *config) *duration { return &c.LeaderElection.RetryPeriod },
				"Pause between two attempts to acquire or renew the lease."),
			upstreams("leader-elect-resource-lock", text, "leases",
				"Kind of the lock; only leases is supported."),
			sets("leader-elect-resource-name", text,
				func(c *config) *string { return &c.LeaderElection.ResourceName },
				"Name of the lease."),
			sets("leader-elect-resource-namespace", text,
				func(c *config) *string { return &c.LeaderElection.ResourceNamespace },
				"Namespace of the lease."),
			sets("leader-elect-identity", text,
				func(c *config) *string { return &c.LeaderElection.Identity },
				"Name of this replica in the lease; it must be unique. Empty: the host name and a random suffix."),
			sets("cloud-provider", text, func(c *config) *string { return &c.CloudProvider.Name },
				"Name of the cloud provider. Empty: the only provider."),
			sets("cloud-config", text,
				func(c *config) *string { return &c.CloudProvider.ConfigFile },
				"File with the cloud provider's own configuration. Empty: none."),
			sets("cloud-config-strict", boolean,
				func(c *config) *bool { return &c.CloudProvider.ConfigStrict },
				"Refuse a --cloud-config with unknown sections or keys. If false, they are only logged as warnings."),
			sets("cloud-provider-start-timeout", durationVar,
				func(c *config) *duration { return &c.CloudProvider.StartTimeout },
				"How long the start of the cloud provider may take before the term fails and another replica can lead."),
			sets("user-agent", array,
				func(c *config) *[]string { return &c.CloudProvider.UserAgents },
				"Prefix of the cloud provider's user agent in its requests to the cloud. Can be repeated."),
			upstreams("external-cloud-volume-plugin", text, "",
				"No effect, like upstream: in-tree volume plugins are gone."),
			sets("use-service-account-credentials", boolean,
				func(c *config) *bool { return &c.UseServiceAccountCredentials },
				"Give each controller the credentials of its own service account."),
			sets("allow-untagged-cloud", boolean,
				func(c *config) *bool { return &c.CloudProvider.AllowUntagged },
				"Run even if the cloud provider has no cluster ID.").
				deprecate("give the cloud resources a cluster ID instead."),
			sets("route-reconciliation-period", durationVar,
				func(c *config) *duration { return &c.Route.ReconciliationPeriod },
				"Time between two reconciliations of the routes."),
			sets("cluster-name", text, func(c *config) *string { return &c.ClusterName },
				"Name of the cluster; cloud resources are named after it, so it must not change."),
			sets("cluster-cidr", text, func(c *config) *string { return &c.ClusterCIDR },
				"Range of pod addresses, or one IPv4 and one IPv6 range separated by a comma. The route controller and node-ipam-controller read it."),
			sets("allocate-node-cidrs", boolean,
				func(c *config) *bool { return &c.AllocateNodeCIDRs },
				"Let node-ipam-controller give each node a range of pod addresses. No effect unless --controllers names node-ipam-controller."),
			sets("cidr-allocator-type", text,
				func(c *config) *string { return &c.NodeIPAM.AllocatorType },
				"How node-ipam-controller chooses ranges: RangeAllocator divides --cluster-cidr, CloudAllocator asks the cloud provider."),
			sets("service-cluster-ip-range", text,
				func(c *config) *string { return &c.NodeIPAM.ServiceCIDR },
				"Range of Service addresses, or one IPv4 and one IPv6 range separated by a comma. node-ipam-controller leaves it out of --cluster-cidr."),
			sets("node-cidr-mask-size", number32,
				func(c *config) *int32 { return &c.NodeIPAM.NodeCIDRMaskSize },
				"Prefix length of a node's range if --cluster-cidr is one range. 0: 24 for IPv4, 64 for IPv6."),
			sets("node-cidr-mask-size-ipv4", number32,
				func(c *config) *int32 { return &c.NodeIPAM.NodeCIDRMaskSizeIPv4 },
				"Prefix length of a node's IPv4 range. 0: 24."),
			sets("node-cidr-mask-size-ipv6", number32,
				func(c *config) *int32 { return &c.NodeIPAM.NodeCIDRMaskSizeIPv6 },
				"Prefix length of a node's IPv6 range. 0: 64."),
			sets("configure-cloud-routes", boolean,
				func(c *config) *bool { return &c.ConfigureCloudRoutes },
				"Run the route controller if the cloud provider serves routes."),
			sets("node-selector", text, func(c *config) *string { return &c.NodeSelector },
				"Labels of the nodes to manage, in kubectl's notation. Other nodes are not looked up, changed or deleted, and get no load balancer and no route. Empty: all nodes."),
			upstreams("node-sync-period", durationVar, duration{},
				"No effect, as upstream.").deprecate("it has no effect."),
			{
				name: "feature-gates",
				usage: "Feature gates to set, as name=true or name=false separated by commas. " +
					gatesHelp(),
				add: func(set *pflag.FlagSet, o *Options, name, usage string) {
					set.Var(gatesValue{&o.featureGates, &o.unreadGates}, name, usage)
				},
			},
		}},
		{"cloud-node-controller", []flagSpec{
			sets("concurrent-node-syncs", number32,
				func(c *config) *int32 { return &c.Node.ConcurrentSyncs },
				"Number of nodes that are initialized at once."),
			sets("concurrent-node-status-updates", number32,
				func(c *config) *int32 { return &c.Node.ConcurrentStatusUpdates },
				"Number of nodes whose addresses are refreshed at once. 0: the value of --concurrent-node-syncs."),
			sets("update-node-labels", boolean,
				func(c *config) *bool { return &c.Node.UpdateLabels },
				"Let the labels of nodes follow their instances every --node-status-update-frequency: type, zone, region, and those that the cloud provider adds. If false, they are set once."),
		}},
		{"cloud-node-lifecycle-controller", []flagSpec{
			sets("concurrent-node-lifecycle-syncs", number32,
				func(c *config) *int32 { return &c.NodeLifecycle.ConcurrentSyncs },
				"Number of nodes that are looked up in the cloud at once."),
			sets("node-monitor-period", durationVar,
				func(c *config) *duration { return &c.NodeLifecycle.MonitorPeriod },
				"Pause between two passes over the nodes."),
		}},
		{"service-lb-controller", []flagSpec{
			sets("concurrent-service-syncs", number32,
				func(c *config) *int32 { return &c.Service.ConcurrentSyncs },
				"Number of Services that are reconciled at once. A higher number is faster and puts more load on the cloud's API."),
			sets("default-load-balancer", boolean,
				func(c *config) *bool { return &c.Service.DefaultLoadBalancer },
				"Serve Services of type LoadBalancer without spec.loadBalancerClass."),
			sets("load-balancer-classes", list,
				func(c *config) *[]string { return &c.Service.LoadBalancerClasses },
				"Values of spec.loadBalancerClass to serve. '*' serves every class, and '-name' leaves one out. Services of other classes are not touched."),
		}},
		{"webhook", []flagSpec{
			upstreams("webhooks", list, nil, "Not supported: webhooks to serve."),
		}},
		{"webhook serving", []flagSpec{
			upstreams("webhook-bind-address", ipVar, "0.0.0.0",
				"Not supported: the webhooks' address."),
			upstreams("webhook-secure-port", number, 10260,
				"Not supported: the webhooks' port. 0, which serves none, is accepted."),
			upstreams("webhook-disable-http2-serving", boolean, false,
				"Not supported: whether webhooks are served without HTTP/2."),
			upstreams("webhook-cert-dir", text, "",
				"Not supported: the directory of the webhooks' certificate."),
			upstreams("webhook-tls-cert-file", text, "",
				"Not supported: the webhooks' certificate."),
			upstreams("webhook-tls-private-key-file", text, "",
				"Not supported: the webhooks' private key."),
			upstreams("webhook-tls-cipher-suites", list, nil,
				"Not supported: the webhooks' cipher suites."),
			upstreams("webhook-tls-curve-preferences", numbers32, nil,
				"Not supported: the webhooks' key exchanges."),
			upstreams("webhook-tls-min-version", text, "",
				"Not supported: the minimum TLS version of webhooks."),
			upstreams("webhook-tls-sni-cert-key", certKeysVar, nil,
				"Not supported: the webhooks' further certificates."),
		}},
		{"secure serving", []flagSpec{
			serves("bind-address", ipVar, func(c *serving) *string { return &c.BindAddress },
				"IP address to serve HTTPS on; 0.0.0.0 and :: mean all addresses."),
			serves("secure-port", number, func(c *serving) *int { return &c.SecurePort },
				"Port to serve HTTPS on. 0: no port."),
			serves("disable-http2-serving", boolean,
				func(c *serving) *bool { return &c.DisableHTTP2 },
				"Serve without HTTP/2."),
			serves("cert-dir", text, func(c *serving) *string { return &c.CertDirectory },
				"Directory of the serving certificate. A missing certificate is created, self-signed. Ignored if --tls-cert-file and --tls-private-key-file are given. Empty: a self-signed certificate in memory."),
			serves("tls-cert-file", text, func(c *serving) *string { return &c.CertFile },
				"File with the serving certificate (PEM), followed by those of its CAs."),
			serves("tls-private-key-file", text, func(c *serving) *string { return &c.KeyFile },
				"File with the private key (PEM) of --tls-cert-file."),
			serves("tls-cipher-suites", list, func(c *serving) *[]string { return &c.CipherSuites },
				"Cipher suites to allow, by Go's names (crypto/tls). Empty: Go's own choice."),
			serves("tls-curve-preferences", numbers32,
				func(c *serving) *[]int32 { return &c.CurvePreferences },
				"Key exchanges to allow, by Go's numbers (crypto/tls.CurveID), in any order. Empty: Go's own choice."),
			serves("tls-min-version", text, func(c *serving) *string { return &c.MinTLSVersion },
				"Minimum TLS version: VersionTLS10, VersionTLS11, VersionTLS12 or VersionTLS13. Empty: Go's own choice."),
			serves("tls-sni-cert-key", certKeysVar,
				func(c *serving) *[]string { return &c.SNICertKeys },
				"Further certificate as 'cert,key', or as 'cert,key:name,name' to serve it for these names (also *.example.com) instead of those in the certificate. Can be repeated."),
			serves("http2-max-streams-per-connection", number,
				func(c *serving) *int { return &c.HTTP2MaxStreams },
				"Streams that a client may open in one HTTP/2 connection. 0: Go's own choice."),
			serves("permit-port-sharing", boolean,
				func(c *serving) *bool { return &c.PermitPortSharing },
				"Let other processes listen on the same address and port (SO_REUSEPORT)."),
			serves("permit-address-sharing", boolean,
				func(c *serving) *bool { return &c.PermitAddressSharing },
				"Listen even if the address is partly in use or in TIME_WAIT (SO_REUSEADDR)."),
		}},
		{"authentication", []flagSpec{
			serves("authentication-kubeconfig", text,
				func(c *serving) *string { return &c.Authentication.Kubeconfig },
				"Kubeconfig file to create TokenReviews with. Empty: the Manager's own client."),
			serves("authentication-token-webhook-cache-ttl", durationVar,
				func(c *serving) *duration { return &c.Authentication.TokenCacheTTL },
				"How long the result of a TokenReview is cached."),
			serves("client-ca-file", text,
				func(c *serving) *string { return &c.Authentication.ClientCAFile },
				"File with the CAs (PEM) of client certificates; the common name of a certificate is the user name."),
			serves("requestheader-username-headers", list,
				func(c *serving) *[]string {
					return &c.Authentication.RequestHeader.UsernameHeaders
				},
				"Request headers with the user name from a front proxy."),
			serves("requestheader-uid-headers", list,
				func(c *serving) *[]string { return &c.Authentication.RequestHeader.UIDHeaders },
				"Request headers with the user's UID from a front proxy."),
			serves("requestheader-group-headers", list,
				func(c *serving) *[]string { return &c.Authentication.RequestHeader.GroupHeaders },
				"Request headers with the user's groups from a front proxy."),
			serves("requestheader-extra-headers-prefix", list,
				func(c *serving) *[]string {
					return &c.Authentication.RequestHeader.ExtraHeaderPrefixes
				},
				"Prefixes of request headers with extra information about the user from a front proxy."),
			serves("requestheader-client-ca-file", text,
				func(c *serving) *string { return &c.Authentication.RequestHeader.ClientCAFile },
				"File with the CAs (PEM) of a front proxy's certificate; without a valid certificate its headers are ignored."),
			serves("requestheader-allowed-names", list,
				func(c *serving) *[]string { return &c.Authentication.RequestHeader.AllowedNames },
				"Common names that a front proxy's certificate may have. Empty: any."),
			serves("authentication-skip-lookup", boolean,
				func(c *serving) *bool { return &c.Authentication.SkipLookup },
				"Do not read the cluster's authentication configuration (kube-system/extension-apiserver-authentication)."),
			serves("authentication-tolerate-lookup-failure", boolean,
				func(c *serving) *bool { return &c.Authentication.TolerateLookupFailure },
				"Serve even if the cluster's authentication configuration cannot be read; clients may then be anonymous."),
		}},
		{"authorization", []flagSpec{
			serves("authorization-kubeconfig", text,
				func(c *serving) *string { return &c.Authorization.Kubeconfig },
				"Kubeconfig file to create SubjectAccessReviews with. Empty: the Manager's own client."),
			serves("authorization-webhook-cache-authorized-ttl", durationVar,
				func(c *serving) *duration { return &c.Authorization.AuthorizedCacheTTL },
				"How long a positive result of a SubjectAccessReview is cached."),
			serves("authorization-webhook-cache-unauthorized-ttl", durationVar,
				func(c *serving) *duration { return &c.Authorization.UnauthorizedCacheTTL },
				"How long a negative result of a SubjectAccessReview is cached."),
			serves("authorization-always-allow-paths", list,
				func(c *serving) *[]string { return &c.Authorization.AlwaysAllowPaths },
				"Paths that need no authorization."),
		}},
		{"misc", []flagSpec{
			sets("master", text, func(c *config) *string { return &c.ClientConnection.Master },
				"Address of the API server; overrides the kubeconfig's."),
			sets("kubeconfig", text,
				func(c *config) *string { return &c.ClientConnection.Kubeconfig },
				"Kubeconfig file to reach the API server with. Empty: the pod's service account."),
			sets("node-status-update-frequency", durationVar,
				func(c *config) *duration { return &c.Node.StatusUpdateFrequency },
				"Time between two refreshes of the addresses of all nodes."),
		}},
	}
}
