package options

// differenceKind is the kind of a difference from upstream's flags.
type differenceKind string

const (
	// isAdded flags do not exist upstream.
	isAdded differenceKind = "added"
	// isDefault is another value when the flag is not given.
	isDefault differenceKind = "default"
	// isMeaning is another effect of some value.
	isMeaning differenceKind = "meaning"
	// isIgnored flags have no effect, upstream either; giving one is worth a warning.
	isIgnored differenceKind = "ignored"
	// isRefused flags configure unsupported features; a value other than the default is an error.
	isRefused differenceKind = "refused"
)

// difference is one deliberate difference from the flags of upstream's cloud-controller-manager.
type difference struct {
	// Flag is the name without prefix and dashes.
	Flag string
	Kind differenceKind
	// Upstream and Ours are the defaults, if Kind is isDefault.
	Upstream, Ours string
	// Accepted are values that a refused flag accepts besides its default.
	Accepted []string
	// Why is a sentence that explains it.
	Why string
}

// differences lists every deliberate difference from the flags of upstream's
// cloud-controller-manager v0.37.2, at most one for a flag. All other flags have the same name,
// type, default and meaning. [Options.Complete], the reference page and the comparison with
// upstream's flag sets read the list.
func differences() []difference {
	const (
		migration = "leader migration moves controllers between two leases of upstream's managers; fxccm holds one lease."
		webhooks  = "webhooks are not served."
		ipam      = "Kube-controller-manager has this flag for its own node-ipam-controller."
	)
	return append([]difference{
		{Flag: "config", Kind: isAdded, Why: "Upstream reads no configuration file."},
		{
			Flag: "node-selector", Kind: isAdded,
			Why: "Upstream manages every node. Some nodes are not the cloud's, such as those at the edge.",
		},
		{
			Flag: "update-node-labels", Kind: isAdded,
			Why: "Upstream sets the labels of a node once.",
		},
		{
			Flag: "cache-sync-timeout", Kind: isAdded,
			Why: "Upstream waits for its informers without a limit.",
		},
		{
			Flag: "cloud-config-strict", Kind: isAdded,
			Why: "Upstream leaves the file to the provider, and many providers ignore unknown keys.",
		},
		{
			Flag: "user-agent", Kind: isAdded,
			Why: "openstack-cloud-controller-manager has this flag; upstream does not.",
		},
		{
			Flag: "cloud-provider-start-timeout", Kind: isAdded,
			Why: "Upstream waits for its cloud provider without a limit.",
		},
		{
			Flag: "drain-timeout", Kind: isAdded,
			Why: "Upstream exits the process instead of draining.",
		},
		{
			Flag: "leader-elect-identity", Kind: isAdded,
			Why: "Upstream's identity is always the host name and a random suffix.",
		},
		{
			Flag: "default-load-balancer", Kind: isAdded,
			Why: "Upstream always serves Services without a class.",
		},
		{
			Flag: "load-balancer-classes", Kind: isAdded,
			Why: "Upstream serves no Service with a class.",
		},
		{Flag: "service-cluster-ip-range", Kind: isAdded, Why: ipam},
		{Flag: "node-cidr-mask-size", Kind: isAdded, Why: ipam},
		{Flag: "node-cidr-mask-size-ipv4", Kind: isAdded, Why: ipam},
		{Flag: "node-cidr-mask-size-ipv6", Kind: isAdded, Why: ipam},

		{
			Flag: "concurrent-node-syncs", Kind: isDefault, Upstream: "1", Ours: "32",
			Why: "With 1, new nodes wait for the cloud calls of other nodes.",
		},
		{
			Flag: "concurrent-node-lifecycle-syncs", Kind: isDefault, Upstream: "1", Ours: "16",
			Why: "With 1, a pass over the nodes takes as long as the sum of its cloud calls.",
		},
		{
			Flag: "concurrent-service-syncs", Kind: isDefault, Upstream: "1", Ours: "16",
			Why: "With 1, each Service waits until all earlier ones have their load balancer.",
		},
		{
			Flag: "kube-api-qps", Kind: isDefault, Upstream: "20", Ours: "0",
			Why: "The API server's priority and fairness limits requests. 0 or less means no limit; upstream uses 5 for 0.",
		},

		{
			Flag: "cloud-provider", Kind: isMeaning,
			Why: "It may be empty if the program has only one provider; upstream requires it.",
		},
		{
			Flag: "cluster-name", Kind: isMeaning,
			Why: "It must not be empty: cloud resources are named after it.",
		},
		{
			Flag: "allocate-node-cidrs", Kind: isMeaning,
			Why: "It enables node-ipam-controller if --controllers names that; upstream's command ignores the flag.",
		},
		{
			Flag: "cidr-allocator-type", Kind: isMeaning,
			Why: "node-ipam-controller reads it; upstream's command ignores the flag.",
		},
		{
			Flag: "contention-profiling", Kind: isMeaning,
			Why: "The setting applies to the whole process, so only the standalone binary applies it.",
		},
		{
			Flag: "authentication-kubeconfig", Kind: isMeaning,
			Why: "Empty means the Manager's own client; upstream tries the pod's service account, then treats every client as anonymous.",
		},
		{
			Flag: "authorization-kubeconfig", Kind: isMeaning,
			Why: "Empty means the Manager's own client; upstream tries the pod's service account, then forbids every request.",
		},
		{
			Flag: "feature-gates", Kind: isMeaning,
			Why: "Gates of other components and of other releases are a warning; upstream refuses those that its libraries do not have.",
		},

		{
			Flag: "external-cloud-volume-plugin", Kind: isIgnored,
			Why: "in-tree volume plugins are gone.",
		},
		{
			Flag: "node-sync-period", Kind: isIgnored,
			Why: "see --node-monitor-period and --node-status-update-frequency.",
		},

		{Flag: "enable-leader-migration", Kind: isRefused, Why: migration},
		{Flag: "leader-migration-config", Kind: isRefused, Why: migration},
		{
			Flag: "leader-elect-resource-lock", Kind: isRefused,
			Accepted: []string{"endpointsleases", "configmapsleases"},
			Why:      "the lock is always a Lease. The locks endpointsleases and configmapsleases of older releases contain the same Lease.",
		},
		{Flag: "webhooks", Kind: isRefused, Why: webhooks},
		{Flag: "webhook-secure-port", Kind: isRefused, Accepted: []string{"0"}, Why: webhooks},
	}, refused(webhooks,
		"webhook-bind-address", "webhook-disable-http2-serving", "webhook-cert-dir",
		"webhook-tls-cert-file", "webhook-tls-private-key-file", "webhook-tls-cipher-suites",
		"webhook-tls-curve-preferences", "webhook-tls-min-version", "webhook-tls-sni-cert-key")...)
}

func refused(why string, flags ...string) []difference {
	rows := make([]difference, 0, len(flags))
	for _, flag := range flags {
		rows = append(rows, difference{Flag: flag, Kind: isRefused, Why: why})
	}
	return rows
}

// ChangedDefault is a flag whose default differs from that of upstream's cloud-controller-manager.
type ChangedDefault struct {
	// Flag is the name without prefix and dashes.
	Flag string
	// Upstream and Default are upstream's default and the default of this package.
	Upstream, Default string
	// Why is a sentence that explains it.
	Why string
}

// ChangedDefaults lists the flags whose default differs from upstream's.
func ChangedDefaults() []ChangedDefault {
	var changed []ChangedDefault
	for _, d := range differences() {
		if d.Kind == isDefault {
			changed = append(changed, ChangedDefault{d.Flag, d.Upstream, d.Ours, d.Why})
		}
	}
	return changed
}
