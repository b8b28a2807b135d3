package main

import (
	"github.com/spf13/pflag"
)

// oldFlag is a flag that a cloud-controller-manager of an older release had.
type oldFlag struct {
	name string
	// isSwitch flags may be given without a value.
	isSwitch bool
	// instead is a sentence that explains what replaces the flag.
	instead string
}

// oldFlags are the flags that upstream's cloud-controller-manager has removed, among them the flags
// of klog (KEP-2845). They are accepted without effect, so that an old manifest starts.
func oldFlags() []oldFlag {
	const (
		stream  = "logs go to standard error."
		headers = "every line has a header; --logging-format=json has fields instead."
		files   = "logs go to standard error; the container runtime writes and rotates their files."
		gce     = "the provider of GCE that read it is not part of Kubernetes any more."
	)
	return []oldFlag{
		{"add-dir-header", true, headers},
		{"alsologtostderr", true, stream},
		{"log-backtrace-at", false, "use --vmodule for more lines of one file."},
		{"log-dir", false, files},
		{"log-file", false, files},
		{"log-file-max-size", false, files},
		{"logtostderr", true, stream},
		{"one-output", true, stream},
		{"skip-headers", true, headers},
		{"skip-log-headers", true, headers},
		{"stderrthreshold", false, "use --v for more or fewer lines."},
		{"address", false, "plain HTTP is not served; the secure port is on --bind-address, by default all addresses."},
		{"port", false, "plain HTTP is not served; use --secure-port."},
		{"cloud-provider-gce-l7lb-src-cidrs", false, gce},
		{"cloud-provider-gce-lb-src-cidrs", false, gce},
	}
}

// addOldFlags adds the old flags, each with a warning when it is given. They are not in the help.
func addOldFlags(set *pflag.FlagSet) {
	for _, old := range oldFlags() {
		if set.Lookup(old.name) != nil {
			continue
		}
		_ = set.String(old.name, "", "No effect.")
		flag := set.Lookup(old.name)
		flag.Deprecated, flag.Hidden = "it has no effect: "+old.instead, true
		if old.isSwitch {
			flag.NoOptDefVal = "true"
		}
	}
}
