package options_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/options"
)

// Each mistake is made on the command line, then in a file. The error is one sentence that names
// its place.
func TestBadValue_FlagOrFile_OneSentenceNamesTheFlagOrTheField(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		args  string // separated by blanks
		yaml  string
		flag  string
		field string
		why   string
	}{
		"zero node syncs": {"--concurrent-node-syncs=0", "node: {concurrentSyncs: 0}", "concurrent-node-syncs", "node.concurrentSyncs", "at least 1"},
		"negative node syncs": {
			"--concurrent-node-syncs=-1", "node: {concurrentSyncs: -1}",
			"concurrent-node-syncs", "node.concurrentSyncs", "at least 1",
		},
		"negative status updates": {
			"--concurrent-node-status-updates=-1",
			"node: {concurrentStatusUpdates: -1}", "concurrent-node-status-updates",
			"node.concurrentStatusUpdates", "not be negative",
		},
		"zero lifecycle syncs": {
			"--concurrent-node-lifecycle-syncs=0",
			"nodeLifecycle: {concurrentSyncs: 0}", "concurrent-node-lifecycle-syncs",
			"nodeLifecycle.concurrentSyncs", "at least 1",
		},
		"negative lifecycle syncs": {
			"--concurrent-node-lifecycle-syncs=-3",
			"nodeLifecycle: {concurrentSyncs: -3}", "concurrent-node-lifecycle-syncs",
			"nodeLifecycle.concurrentSyncs", "at least 1",
		},
		"zero service syncs": {
			"--concurrent-service-syncs=0",
			"service: {concurrentSyncs: 0}", "concurrent-service-syncs", "service.concurrentSyncs",
			"at least 1",
		},
		"negative service syncs": {
			"--concurrent-service-syncs=-1",
			"service: {concurrentSyncs: -1}", "concurrent-service-syncs", "service.concurrentSyncs",
			"at least 1",
		},
		"renew after lease": {
			"--leader-elect-renew-deadline=20s",
			"leaderElection: {renewDeadline: 20s}", "leader-elect-lease-duration",
			"leaderElection.leaseDuration", "longer than",
		},
		"lease shorter than renew": {
			"--leader-elect-lease-duration=5s",
			"leaderElection: {leaseDuration: 5s}", "leader-elect-lease-duration",
			"leaderElection.leaseDuration", "longer than",
		},
		"retry after renew": {
			"--leader-elect-retry-period=9s",
			"leaderElection: {retryPeriod: 9s}", "leader-elect-renew-deadline",
			"leaderElection.renewDeadline", "longer than",
		},
		"zero lease": {
			"--leader-elect-lease-duration=0s",
			"leaderElection: {leaseDuration: 0s}", "leader-elect-lease-duration",
			"leaderElection.leaseDuration", "longer than 0",
		},
		"no lease name": {
			"--leader-elect-resource-name=",
			`leaderElection: {resourceName: ""}`, "leader-elect-resource-name",
			"leaderElection.resourceName", "needs a name",
		},
		"empty cluster name": {"--cluster-name=", `clusterName: ""`, "cluster-name", "clusterName", "not be empty"},
		"not a CIDR":         {"--cluster-cidr=10.0.0.0", "clusterCIDR: 10.0.0.0", "cluster-cidr", "clusterCIDR", "not a CIDR"},
		"two CIDRs of a family": {
			"--cluster-cidr=10.0.0.0/16,10.1.0.0/16",
			"clusterCIDR: 10.0.0.0/16,10.1.0.0/16", "cluster-cidr", "clusterCIDR", "one IP family",
		},
		"three CIDRs": {
			"--cluster-cidr=10.0.0.0/16,fd00::/48,10.1.0.0/16",
			"clusterCIDR: 10.0.0.0/16,fd00::/48,10.1.0.0/16", "cluster-cidr", "clusterCIDR",
			"at most two",
		},
		"negative burst":          {"--kube-api-burst=-1", "clientConnection: {burst: -1}", "kube-api-burst", "clientConnection.burst", "not be negative"},
		"negative resync":         {"--min-resync-period=-1s", "minResyncPeriod: -1s", "min-resync-period", "minResyncPeriod", "not be negative"},
		"zero drain":              {"--drain-timeout=0s", "drainTimeout: 0s", "drain-timeout", "drainTimeout", "longer than 0"},
		"port beyond range":       {"--secure-port=65536", "serving: {securePort: 65536}", "secure-port", "serving.securePort", "between 0 and 65535"},
		"certificate without key": {"--tls-cert-file=a.crt", "serving: {certFile: a.crt}", "tls-cert-file", "serving.certFile", "together"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := complete(strings.Fields(c.args))
			checkSentence(t, "on the command line", err, "--"+c.flag+" ("+c.field+"): ", c.why)

			prefixed := strings.ReplaceAll(c.args, "--", "--ccm-")
			_, err = complete(strings.Fields(prefixed), options.WithPrefix("ccm-"))
			checkSentence(t, "with a prefix", err, "--ccm-"+c.flag+" ("+c.field+"): ", c.why)

			file := writeFile(t, header+c.yaml)
			_, err = complete([]string{"--config=" + file})
			checkSentence(t, "in a file", err, "configuration file "+file+" ("+c.field+"): ", c.why)

			cfg, err := options.Decode([]byte(header + c.yaml))
			if err != nil {
				t.Fatalf("Decode validates: %v", err)
			}
			checkSentence(t, "without flags", cfg.Validate(), "ccm: configuration: "+c.field+": ",
				c.why)
		})
	}
}

func checkSentence(t *testing.T, where string, err error, prefix, why string) {
	t.Helper()
	if err == nil || !strings.HasPrefix(err.Error(), prefix) ||
		!strings.Contains(err.Error(), why) || strings.Contains(err.Error(), "\n") {
		t.Errorf("%s: got  %v\nwant one sentence %s…%s…", where, err, prefix, why)
	}
	var invalid *ccm.ConfigError
	if !errors.As(err, &invalid) {
		t.Errorf("%s: %v is not a *ccm.ConfigError", where, err)
	}
}

func TestBadValue_FlagOverridesTheFile_FlagIsNamed(t *testing.T) {
	t.Parallel()
	file := writeFile(t, header+"node: {concurrentSyncs: 4}\nservice: {concurrentSyncs: 0}\n")
	_, err := complete([]string{"--config=" + file, "--concurrent-node-syncs=0"})
	want := []string{
		"--concurrent-node-syncs (node.concurrentSyncs): ",
		"configuration file " + file + " (service.concurrentSyncs): ",
	}
	if err == nil {
		t.Fatal("the values were accepted")
	}
	lines := strings.Split(err.Error(), "\n")
	if len(lines) != 2 || !strings.HasPrefix(lines[0], want[0]) ||
		!strings.HasPrefix(lines[1], want[1]) {
		t.Errorf("got  %q\nwant %q", lines, want)
	}
}

func TestBadSyntax_PflagNamesTheFlag(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{
		"--concurrent-node-syncs=many", "--kube-api-burst=3000000000", "--kube-api-qps=fast",
		"--leader-elect=perhaps",
		"--min-resync-period=12", "--bind-address=localhost", "--tls-sni-cert-key=one-file-only",
		"--tls-sni-cert-key=a,b:",
		"--tls-curve-preferences=P256", "--webhook-bind-address=nowhere",
	} {
		name, _, _ := strings.Cut(arg, "=")
		if _, err := complete([]string{arg}); err == nil || !strings.Contains(err.Error(), name) ||
			strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	if _, err := complete([]string{"--no-such-flag"}); err == nil ||
		!strings.Contains(err.Error(), "no-such-flag") {
		t.Errorf("an unknown flag: %v", err)
	}
}

func TestConfigFile_MissingOrInvalid_ErrorNamesIt(t *testing.T) {
	t.Parallel()
	if _, err := complete([]string{"--config=/does/not/exist.yaml"}); err == nil ||
		!strings.Contains(err.Error(), "/does/not/exist.yaml") {
		t.Errorf("a missing file: %v", err)
	}
	file := writeFile(t, header+"node: {concurrentSync: 1}")
	if _, err := complete([]string{"--config=" + file}); err == nil ||
		!strings.HasPrefix(err.Error(),
			"configuration file "+file+`: line 3: unknown field "node.concurrentSync"`) {
		t.Errorf("an unknown field: %v", err)
	}
}
