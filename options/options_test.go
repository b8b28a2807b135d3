package options_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/options"
)

const header = "apiVersion: fxccm.dev/v1alpha1\nkind: CloudControllerManagerConfiguration\n"

// complete binds, parses and completes the flags, as a program does.
func complete(args []string, opts ...options.FlagOption) (options.Completed, error) {
	o := options.New()
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	if err := o.AddFlags(fs, opts...); err != nil {
		return options.Completed{}, err
	}
	if err := fs.Parse(args); err != nil {
		return options.Completed{}, err
	}
	return o.Complete()
}

func mustComplete(t *testing.T, args []string, opts ...options.FlagOption) options.Completed {
	t.Helper()
	got, err := complete(args, opts...)
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return got
}

func writeFile(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ccm.yaml")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestComplete_WithoutFlags_IsDefaultConfig(t *testing.T) {
	t.Parallel()
	got := mustComplete(t, nil)
	if want := options.DefaultConfiguration(); !equal(got.Configuration, want) {
		t.Errorf("got %+v, want %+v", got.Configuration, want)
	}
	if len(got.Warnings) > 0 || len(got.FeatureGates) > 0 {
		t.Errorf("warnings %q and feature gates %v without any flag", got.Warnings,
			got.FeatureGates)
	}
}

func TestFlags_Given_SetTheirFields(t *testing.T) {
	t.Parallel()
	got := mustComplete(t, []string{
		"--controllers=*,-route", "--cluster-cidr=10.0.0.0/16,fd00::/48", "--kube-api-qps=7.5",
		"--kube-api-burst=9",
		"--leader-elect=false", "--node-monitor-period=7s", "--bind-address=::1", "--secure-port=0",
		"--tls-sni-cert-key=a.crt,a.key",
		"--tls-sni-cert-key=b.crt, b.key:*.example.com, example.com",
		"--tls-curve-preferences=29,23", "--master=https://api:6443",
		"--use-service-account-credentials",
		"--concurrent-node-syncs=5", "--drain-timeout=3s", "--leader-elect-identity=me",
	}).Configuration

	want := options.DefaultConfiguration()
	want.Config.Controllers = []string{"*", "-route"}
	want.Config.ClusterCIDR = "10.0.0.0/16,fd00::/48"
	want.Config.ClientConnection.QPS, want.Config.ClientConnection.Burst = 7.5, 9
	want.Config.ClientConnection.Master = "https://api:6443"
	want.Config.LeaderElection.LeaderElect, want.Config.LeaderElection.Identity = false, "me"
	want.Config.NodeLifecycle.MonitorPeriod.Duration = 7 * time.Second
	want.Serving.BindAddress, want.Serving.SecurePort = "::1", 0
	want.Serving.SNICertKeys = []string{"a.crt,a.key", "b.crt,b.key:*.example.com,example.com"}
	want.Serving.CurvePreferences = []int32{29, 23}
	want.Config.UseServiceAccountCredentials = true
	want.Config.Node.ConcurrentSyncs = 5
	want.Config.DrainTimeout.Duration = 3 * time.Second
	if !equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestComplete_FlagWinsOverFile_FileOverHost_HostOverDefault(t *testing.T) {
	t.Parallel()
	o := options.New()
	o.Config.ClusterName = "host"
	o.Config.Node.ConcurrentSyncs = 2
	o.Config.Service.ConcurrentSyncs = 2
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	if err := o.AddFlags(fs, options.WithPrefix("ccm-")); err != nil {
		t.Fatal(err)
	}
	file := writeFile(t,
		header+"node: {concurrentSyncs: 3}\nservice: {concurrentSyncs: 3}\ncontrollers: [route]\n")
	if err := fs.Parse([]string{
		"--ccm-concurrent-service-syncs=4", "--ccm-config", file,
		"--ccm-controllers=service",
	}); err != nil {
		t.Fatal(err)
	}
	got, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	cfg := got.Config
	if cfg.Service.ConcurrentSyncs != 4 || !slices.Equal(cfg.Controllers, []string{"service"}) {
		t.Errorf("the flags were given 4 and [service], got %d and %q", cfg.Service.ConcurrentSyncs,
			cfg.Controllers)
	}
	if cfg.Node.ConcurrentSyncs != 3 {
		t.Errorf("the file gives 3 node syncs, got %d", cfg.Node.ConcurrentSyncs)
	}
	if cfg.ClusterName != "host" {
		t.Errorf("the host's default was not used: cluster name %q", cfg.ClusterName)
	}
	if want := ccm.DefaultConfig().NodeLifecycle; cfg.NodeLifecycle != want {
		t.Errorf("no source sets node lifecycle, got %+v", cfg.NodeLifecycle)
	}
	if again, err := o.Complete(); err != nil || !equal(again.Configuration, got.Configuration) {
		t.Errorf("a second Complete differs: %+v, %v", again.Configuration, err)
	}
}

func TestComplete_FlagGivenItsDefault_StillWinsOverFile(t *testing.T) {
	t.Parallel()
	file := writeFile(t, header+"service: {concurrentSyncs: 3}\n")
	got := mustComplete(t, []string{"--concurrent-service-syncs=16", "--config=" + file})
	if got.Config.Service.ConcurrentSyncs != 16 {
		t.Errorf("--concurrent-service-syncs=16 was given, got %d",
			got.Config.Service.ConcurrentSyncs)
	}
}

func TestWithPrefix_EachFlag_HasItInNameAndHelp(t *testing.T) {
	t.Parallel()
	o := options.New()
	fs := pflag.NewFlagSet("host", pflag.ContinueOnError)
	own := fs.Bool("leader-elect", false, "the host's own")
	if err := o.AddFlags(fs, options.WithPrefix("ccm-")); err != nil {
		t.Fatal(err)
	}
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Name != "leader-elect" && !strings.HasPrefix(f.Name, "ccm-") {
			t.Errorf("--%s has no prefix", f.Name)
		}
		if strings.Contains(strings.ReplaceAll(f.Usage, "--ccm-", ""), "--") {
			t.Errorf("the help of --%s names a flag without prefix: %s", f.Name, f.Usage)
		}
	})
	if err := fs.Parse([]string{"--leader-elect", "--ccm-leader-elect=false"}); err != nil {
		t.Fatal(err)
	}
	got, err := o.Complete()
	if err != nil || got.Config.LeaderElection.LeaderElect || !*own {
		t.Errorf("the host's --leader-elect is %t and the Manager's %t (%v), want true and false", *own,
			got.Config.LeaderElection.LeaderElect, err)
	}
}

func TestAddFlags_TwoManagersInOneProcess_KeepTheirValuesApart(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("host", pflag.ContinueOnError)
	east, west := options.New(), options.New()
	for prefix, o := range map[string]*options.Options{"east-": east, "west-": west} {
		if err := o.AddFlags(fs, options.WithPrefix(prefix)); err != nil {
			t.Fatal(err)
		}
	}
	if err := fs.Parse([]string{"--east-cluster-name=e", "--west-cluster-name=w"}); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]*options.Options{"e": east, "w": west} {
		if got, err := o.Complete(); err != nil || got.Config.ClusterName != name {
			t.Errorf("cluster name is %q (%v), want %q", got.Config.ClusterName, err, name)
		}
	}
}

func TestAddFlags_HostHasOneOfTheFlags_ErrorNamesItAndNoneIsAdded(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("my-control-plane", pflag.ContinueOnError)
	fs.String("kubeconfig", "", "")
	fs.Bool("leader-elect", true, "")
	err := options.New().AddFlags(fs)
	if err == nil {
		t.Fatal("AddFlags returned no error for a name in use")
	}
	for _, word := range []string{
		"my-control-plane", "--kubeconfig, --leader-elect",
		"WithPrefix",
	} {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("%q does not say %q", err, word)
		}
	}
	if fs.Lookup("cluster-name") != nil {
		t.Error("some flags were added although a name is in use")
	}
}

func TestAddFlags_HostNormalizesNames_NameInUseIsFound(t *testing.T) {
	t.Parallel()
	fs := pflag.NewFlagSet("host", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.Bool("leader_elect", true, "")
	if err := options.New().AddFlags(fs); err == nil ||
		!strings.Contains(err.Error(), "--leader-elect") {
		t.Errorf("leader_elect and leader-elect are the same name in this set, but the error is %v", err)
	}
}

func TestFlags_PrintedInGroups_AreSections(t *testing.T) {
	t.Parallel()
	var help bytes.Buffer
	cliflag.PrintSections(&help, options.New().Flags(options.WithControllers("my-controller")), 0)
	for _, want := range []string{
		"Leader-migration flags:", "Generic flags:", "Secure serving flags:", "Misc flags:",
		"service-lb-controller, node-route-controller, my-controller",
		"CloudControllerManagerWatchBasedRoutesReconciliation",
	} {
		if !strings.Contains(help.String(), want) {
			t.Errorf("the help does not say %q", want)
		}
	}
}

func TestComplete_FlagWithoutEffect_WarningNamesIt(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{
		"--allocate-node-cidrs=true",
		"--external-cloud-volume-plugin=openstack", "--node-sync-period=10s",
	} {
		name, _, _ := strings.Cut(arg, "=")
		got := mustComplete(t, []string{arg})
		if len(got.Warnings) != 1 || !strings.HasPrefix(got.Warnings[0], name+" has no effect: ") {
			t.Errorf("%s: warnings are %q", arg, got.Warnings)
		}
	}
	got := mustComplete(t, []string{"--ccm-node-sync-period=10s"}, options.WithPrefix("ccm-"))
	if len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0], "see --ccm-node-monitor-period") {
		t.Errorf("with a prefix, the warnings are %q", got.Warnings)
	}
	got = mustComplete(t,
		[]string{"--allocate-node-cidrs", "--controllers=*,node-ipam-controller"})
	if len(got.Warnings) != 0 {
		t.Errorf("with node-ipam-controller, the warnings are %q", got.Warnings)
	}
	got = mustComplete(t,
		[]string{"--feature-gates=ControllerManagerReleaseLeaderElectionLockOnExit=true"})
	if len(got.Warnings) != 1 ||
		!strings.Contains(got.Warnings[0],
			"ControllerManagerReleaseLeaderElectionLockOnExit has no effect") {
		t.Errorf("a gate without effect: warnings are %q", got.Warnings)
	}
}

func TestComplete_UnsupportedValue_ErrorNamesTheFlag(t *testing.T) {
	t.Parallel()
	for _, arg := range []string{
		"--enable-leader-migration=true", "--leader-migration-config=/etc/migration.yaml",
		"--leader-elect-resource-lock=endpoints", "--webhooks=*",
		"--webhook-secure-port=9443",
		"--webhook-bind-address=127.0.0.1", "--webhook-disable-http2-serving=true",
		"--webhook-cert-dir=/c",
		"--webhook-tls-cert-file=c", "--webhook-tls-private-key-file=k",
		"--webhook-tls-cipher-suites=TLS_AES_128_GCM_SHA256",
		"--webhook-tls-curve-preferences=29", "--webhook-tls-min-version=VersionTLS13",
		"--webhook-tls-sni-cert-key=c,k",
	} {
		name, _, _ := strings.Cut(arg, "=")
		_, err := complete([]string{arg})
		if err == nil || !strings.HasPrefix(err.Error(), name+"=") ||
			!strings.Contains(err.Error(), "is not supported: ") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	// The same flags are accepted with values that change nothing.
	mustComplete(t, []string{
		"--enable-leader-migration=false", "--leader-migration-config=",
		"--leader-elect-resource-lock=leases", "--leader-elect-resource-lock=endpointsleases",
		"--webhook-secure-port=0", "--webhook-bind-address=0.0.0.0",
		"--webhook-disable-http2-serving=false",
	})
}

func TestFeatureGates_RepeatedFlag_AddsGates(t *testing.T) {
	t.Parallel()
	const routes = "CloudControllerManagerWatchBasedRoutesReconciliation"
	got := mustComplete(t,
		[]string{
			"--feature-gates", " " + routes + " = true ,",
			"--feature-gates=CloudControllerManagerWebhook=false",
		})
	if !got.FeatureGates[routes] || len(got.FeatureGates) != 2 || len(got.Warnings) > 0 {
		t.Errorf("feature gates are %v, warnings %q", got.FeatureGates, got.Warnings)
	}
	got.FeatureGates[routes] = false
	if again := mustComplete(t,
		[]string{"--feature-gates=" + routes + "=true"}); !again.FeatureGates[routes] {
		t.Error("two command lines share their feature gates")
	}
}

// Gates that are always on were removed, and a command line may have gates of other components.
func TestFeatureGates_OtherReleaseOrComponent_IsAWarning(t *testing.T) {
	t.Parallel()
	got := mustComplete(t, []string{
		"--feature-gates=CloudDualStackNodeIPs=true,LegacyNodeRoleBehavior=false",
		"--feature-gates=InPlacePodVerticalScaling=true,LegacyNodeRoleBehavior=false",
	})
	if len(got.Warnings) != 3 || len(got.FeatureGates) > 0 {
		t.Fatalf("feature gates are %v, warnings %q", got.FeatureGates, got.Warnings)
	}
	for i, name := range []string{
		"CloudDualStackNodeIPs", "InPlacePodVerticalScaling", "LegacyNodeRoleBehavior",
	} {
		if !strings.HasPrefix(got.Warnings[i], "feature gate "+name+" has no effect: ") {
			t.Errorf("warnings are %q, want one for %s", got.Warnings, name)
		}
	}
}

func TestFeatureGates_InvalidValue_OneSentenceSaysWhy(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"CloudControllerManagerWebhok=true":   `unknown feature gate "CloudControllerManagerWebhok": did you mean CloudControllerManagerWebhook?`,
		"NoSuchGate=maybe":                    `NoSuchGate is set to "maybe": write true or false`,
		"CloudControllerManagerWebhook=true":  "CloudControllerManagerWebhook cannot be enabled: webhooks are not served",
		"CloudControllerManagerWebhook=maybe": `CloudControllerManagerWebhook is set to "maybe": write true or false`,
		"CloudControllerManagerWebhook":       `"CloudControllerManagerWebhook" has no value`,
		"=true":                               `unknown feature gate ""`,
	} {
		_, err := complete([]string{"--ccm-feature-gates=" + value}, options.WithPrefix("ccm-"))
		if err == nil || !strings.Contains(err.Error(), want) ||
			!strings.Contains(err.Error(), "--ccm-feature-gates") {
			t.Errorf("%q: %v", value, err)
		}
	}
}

// openstack-cloud-controller-manager also reads each flag as one text, and does not split it.
func TestUserAgentFlag_Repeated_EachIsOneText(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"no flag", nil, nil},
		{"one", []string{"--user-agent=acme/1"}, []string{"acme/1"}},
		{"several", []string{"--user-agent", "acme/1", "--user-agent", "site/2"}, []string{"acme/1", "site/2"}},
		{"with a space", []string{"--user-agent", "acme/1 (east)"}, []string{"acme/1 (east)"}},
		{"with a comma", []string{"--user-agent=acme/1,2"}, []string{"acme/1,2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := mustComplete(t, c.args).Config.CloudProvider.UserAgents; !slices.Equal(got,
				c.want) {
				t.Errorf("%q is %q, want %q", c.args, got, c.want)
			}
		})
	}
	if got, err := complete([]string{"--user-agent"}); err == nil {
		t.Errorf("a flag without a text is %q", got.Config.CloudProvider.UserAgents)
	}
}

func TestConfigStrict_Default_IsTrue(t *testing.T) {
	t.Parallel()
	if !mustComplete(t, nil).Config.CloudProvider.ConfigStrict {
		t.Error("the default is false")
	}
	if mustComplete(t, []string{"--cloud-config-strict=false"}).Config.CloudProvider.ConfigStrict {
		t.Error("the flag has no effect")
	}
	path := writeFile(t, header+"cloudProvider:\n  configStrict: false\n")
	if mustComplete(t, []string{"--config=" + path}).Config.CloudProvider.ConfigStrict {
		t.Error("the file has no effect")
	}
}
