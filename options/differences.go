package options

// DifferenceKind is the kind of a difference from upstream's flags.
type DifferenceKind string

const (
	// Added flags do not exist upstream.
	Added DifferenceKind = "added"
	// Default is another value when the flag is not given.
	Default DifferenceKind = "default"
	// Meaning is another effect of some value.
	Meaning DifferenceKind = "meaning"
	// Ignored flags have no effect, upstream either; giving one is worth a warning.
	Ignored DifferenceKind = "ignored"
	// Refused flags configure unsupported features; a value other than the default is an error.
	Refused DifferenceKind = "refused"
)

// Difference is one deliberate difference from the flags of upstream's cloud-controller-manager.
type Difference struct {
	// Flag is the name without prefix and dashes.
	Flag string
	Kind DifferenceKind
	// Upstream and Ours are the defaults, if Kind is Default.
	Upstream, Ours string
	// Accepted are values that a refused flag takes besides its default.
	Accepted []string
	// Why is a sentence that explains it.
	Why string
}

// Differences lists every deliberate difference from the flags of upstream's
// cloud-controller-manager v0.37.2, at most one for a flag. All other flags have the same name,
// type, default and meaning. [Options.Complete], the reference page and the comparison with
// upstream's flag sets read it.
func Differences() []Difference {
	const (
		migration = "leader migration moves controllers between two leases of upstream's managers; fxccm holds one lease."
		webhooks  = "webhooks are not served."
		podRanges = "the kube-controller-manager allocates pod ranges."
	)
	return append([]Difference{
		{Flag: "config", Kind: Added, Why: "Upstream reads no configuration file."},
		{
			Flag: "cache-sync-timeout", Kind: Added,
			Why: "Upstream waits for its informers without a limit.",
		},
		{
			Flag: "cloud-config-strict", Kind: Added,
			Why: "Upstream leaves the file to the provider, and many providers ignore unknown keys.",
		},
		{
			Flag: "user-agent", Kind: Added,
			Why: "openstack-cloud-controller-manager has this flag; upstream does not.",
		},
		{
			Flag: "cloud-provider-start-timeout", Kind: Added,
			Why: "Upstream waits for its cloud provider without a limit.",
		},
		{
			Flag: "drain-timeout", Kind: Added,
			Why: "Upstream exits the process instead of draining.",
		},
		{
			Flag: "leader-elect-identity", Kind: Added,
			Why: "Upstream's identity is always the host name and a random suffix.",
		},

		{
			Flag: "concurrent-node-syncs", Kind: Default, Upstream: "1", Ours: "32",
			Why: "With 1, new nodes wait for the cloud calls of other nodes.",
		},
		{
			Flag: "concurrent-node-lifecycle-syncs", Kind: Default, Upstream: "1", Ours: "16",
			Why: "With 1, a pass over the nodes takes as long as the sum of its cloud calls.",
		},
		{
			Flag: "concurrent-service-syncs", Kind: Default, Upstream: "1", Ours: "16",
			Why: "With 1, each Service waits until all earlier ones have their load balancer.",
		},
		{
			Flag: "kube-api-qps", Kind: Default, Upstream: "20", Ours: "0",
			Why: "The API server's priority and fairness limits requests. 0 or less means no limit; upstream uses 5 for 0.",
		},

		{
			Flag: "cloud-provider", Kind: Meaning,
			Why: "It may be empty if the program has only one provider; upstream requires it.",
		},
		{
			Flag: "cluster-name", Kind: Meaning,
			Why: "It must not be empty: cloud resources are named after it.",
		},
		{
			Flag: "contention-profiling", Kind: Meaning,
			Why: "The setting applies to the whole process, so only the standalone binary applies it.",
		},
		{
			Flag: "authentication-kubeconfig", Kind: Meaning,
			Why: "Empty means the Manager's own client; upstream tries the pod's service account, then treats every client as anonymous.",
		},
		{
			Flag: "authorization-kubeconfig", Kind: Meaning,
			Why: "Empty means the Manager's own client; upstream tries the pod's service account, then forbids every request.",
		},
		{
			Flag: "feature-gates", Kind: Meaning,
			Why: "Only gates that a cloud-controller-manager reads are known; upstream also accepts those of the API server's library.",
		},

		{
			Flag: "external-cloud-volume-plugin", Kind: Ignored,
			Why: "in-tree volume plugins are gone.",
		},
		{Flag: "allocate-node-cidrs", Kind: Ignored, Why: podRanges},
		{Flag: "cidr-allocator-type", Kind: Ignored, Why: podRanges},
		{
			Flag: "node-sync-period", Kind: Ignored,
			Why: "see --node-monitor-period and --node-status-update-frequency.",
		},

		{Flag: "enable-leader-migration", Kind: Refused, Why: migration},
		{Flag: "leader-migration-config", Kind: Refused, Why: migration},
		{Flag: "leader-elect-resource-lock", Kind: Refused, Why: "the lock is a Lease."},
		{Flag: "webhooks", Kind: Refused, Why: webhooks},
		{Flag: "webhook-secure-port", Kind: Refused, Accepted: []string{"0"}, Why: webhooks},
	}, refused(webhooks,
		"webhook-bind-address", "webhook-disable-http2-serving", "webhook-cert-dir",
		"webhook-tls-cert-file", "webhook-tls-private-key-file", "webhook-tls-cipher-suites",
		"webhook-tls-curve-preferences", "webhook-tls-min-version", "webhook-tls-sni-cert-key")...)
}

func refused(why string, flags ...string) []Difference {
	rows := make([]Difference, 0, len(flags))
	for _, flag := range flags {
		rows = append(rows, Difference{Flag: flag, Kind: Refused, Why: why})
	}
	return rows
}
