package initfunc

import (
	"io"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/diff"
	"k8s.io/cloud-provider/app"
	cpconfig "k8s.io/cloud-provider/config"
	cpoptions "k8s.io/cloud-provider/options"

	"github.com/fxccm/fxccm/options"
)

// An InitFunc must get the same configuration from upstream and from the adapter for the same
// command line.
func TestComponentConfig_SameFlags_EqualsUpstreams(t *testing.T) {
	changed := []string{
		"--cloud-provider=mycloud", "--cloud-config=/etc/cloud.conf", "--cluster-name=blue",
		"--cluster-cidr=10.0.0.0/8",
		"--configure-cloud-routes=false", "--use-service-account-credentials",
		"--allow-untagged-cloud", "--route-reconciliation-period=17s",
		"--controllers=*,-service-lb-controller", "--min-resync-period=5h",
		"--controller-start-interval=3s",
		"--kubeconfig=/etc/kube.conf",
		"--kube-api-content-type=application/json", "--kube-api-qps=33", "--kube-api-burst=44",
		"--leader-elect=false", "--leader-elect-lease-duration=25s",
		"--leader-elect-renew-deadline=20s", "--leader-elect-retry-period=4s",
		"--leader-elect-resource-name=lock", "--leader-elect-resource-namespace=locks",
		"--node-status-update-frequency=7m", "--node-monitor-period=9s",
		"--concurrent-node-lifecycle-syncs=5", "--concurrent-service-syncs=6",
	}
	cases := map[string][]string{
		"status updates derived": append([]string{"--concurrent-node-syncs=3"}, changed...),
		"status updates given": append([]string{
			"--concurrent-node-syncs=3",
			"--concurrent-node-status-updates=2",
		}, changed...),
	}
	for name, args := range cases {
		t.Run(name, func(t *testing.T) {
			ours, theirs := readByUs(t, args), readByUpstream(t, args)
			if d := diff.Diff(theirs, ours); d != "" {
				t.Errorf("differences from upstream (-) to the adapter (+):\n%s", d)
			}
		})
	}
}

// Without flags the two differ only in fxccm's own defaults.
func TestComponentConfig_WithoutFlags_DiffersOnlyInChangedDefaults(t *testing.T) {
	args := []string{"--cloud-provider=mycloud"}
	ours, theirs := readByUs(t, args), readByUpstream(t, args)
	theirs.NodeController.ConcurrentNodeSyncs, theirs.NodeController.ConcurrentNodeStatusUpdates =
		32, 32
	theirs.NodeLifecycleController.ConcurrentNodeLifecycleSyncs = 16
	theirs.ServiceController.ConcurrentServiceSyncs = 16
	theirs.Generic.ClientConnection.QPS = -1 // no limit
	if d := diff.Diff(theirs, ours); d != "" {
		t.Errorf("differences from upstream (-) to the adapter (+):\n%s", d)
	}
}

func TestComponentConfig_WithoutAName_NamesTheOnlyProvider(t *testing.T) {
	c, err := componentConfig(newStubTerm(t).cfg, "only")
	if err != nil {
		t.Fatal(err)
	}
	if got := c.KubeCloudShared.CloudProvider.Name; got != "only" {
		t.Errorf("the provider's name is %q, want the only provider's",
			got)
	}
}

func readByUs(t *testing.T, args []string) cpconfig.CloudControllerManagerConfiguration {
	t.Helper()
	fs := pflag.NewFlagSet("ours", pflag.ContinueOnError)
	fs.SetOutput(io.Discard) // warnings about deprecated flags
	o := options.New()
	if err := o.AddFlags(fs); err != nil {
		t.Fatal(err)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	completed, err := o.Complete()
	if err != nil {
		t.Fatal(err)
	}
	c, err := componentConfig(completed.Config, completed.Config.CloudProvider.Name)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func readByUpstream(t *testing.T, args []string) cpconfig.CloudControllerManagerConfiguration {
	t.Helper()
	o, err := cpoptions.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatal(err)
	}
	all := app.ControllerNames(app.DefaultInitFuncConstructors)
	fs := pflag.NewFlagSet("upstream", pflag.ContinueOnError)
	fs.SetOutput(io.Discard)
	for _, set := range o.Flags(all, nil, nil, nil, nil).FlagSets {
		fs.AddFlagSet(set)
	}
	if err := fs.Parse(args); err != nil {
		t.Fatal(err)
	}
	// Upstream does this with these parts of its options when it starts (options.ApplyTo), and also
	// opens a listener and makes clients.
	var c cpconfig.CloudControllerManagerConfiguration
	for _, apply := range []func() error{
		func() error { return o.Generic.ApplyTo(&c.Generic, all, nil, nil) },
		func() error { return o.KubeCloudShared.ApplyTo(&c.KubeCloudShared) },
		func() error { return o.ServiceController.ApplyTo(&c.ServiceController) },
		func() error { return o.NodeController.ApplyTo(&c.NodeController) },
		func() error { return o.NodeLifecycleController.ApplyTo(&c.NodeLifecycleController) },
	} {
		if err := apply(); err != nil {
			t.Fatal(err)
		}
	}
	c.Generic.Debugging.EnableProfiling = false // a Manager serves no profiles
	c.NodeStatusUpdateFrequency = o.NodeStatusUpdateFrequency
	return c
}
