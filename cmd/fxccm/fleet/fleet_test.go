package fleet_test

import (
	"net/netip"
	"reflect"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	example "github.com/fxccm/fxccm/cmd/fxccm/fleet"
	"github.com/fxccm/fxccm/fleet"
)

func TestParams_LabelsAndCloudConfigOfACluster_OverrideTheFlags(t *testing.T) {
	kubeconfig := t.TempDir() + "/kubeconfig"
	if err := controlplane.WriteKubeconfig(kubeconfig,
		&rest.Config{Host: "https://management.invalid"}); err != nil {
		t.Fatal(err)
	}
	base := ccm.DefaultConfig()
	base.ClientConnection.Kubeconfig = kubeconfig
	base.CloudProvider.Name, base.CloudProvider.ConfigFile = "one", "/etc/cloud.conf"
	provider := func(name string) func(*fleet.Cluster) (ccm.Provider, error) {
		return func(of *fleet.Cluster) (ccm.Provider, error) {
			return ccm.Provider{Name: name + string(of.CloudConfig)}, nil
		}
	}
	var config example.Config
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	config.AddFlags(set)
	set.String("leader-elect-resource-name", "", "")
	if err := set.Parse([]string{
		"--name=f", "--lock=workload", "--leader-elect-resource-name=own", "--limit-object-bytes=5",
		"--cluster-metrics", "--clusters-allow-insecure-tls", "--require-owner-mark",
		"--clusters-refuse-ranges=10.1.0.0/16,fd00:1::/32",
	}); err != nil {
		t.Fatal(err)
	}
	if err := config.Check(set); err != nil {
		t.Errorf("the name of the Lease in the cluster: %v", err)
	}
	params, err := config.Params(base, example.Host{
		Providers: map[string]func(*fleet.Cluster) (ccm.Provider, error){
			"one": provider("one"), "two": provider("two"),
		},
		Registerer: prometheus.NewRegistry(),
	})
	if err != nil || params.Name != "f" || params.Management.Host != "https://management.invalid" {
		t.Fatalf("%v, %+v", err, params)
	}
	limits := fleet.DefaultParams().Limits
	limits.ObjectBytes = 5
	if params.Lock != fleet.LockWorkload || params.Limits != limits || !params.RequireOwnerMark {
		t.Errorf("lock %q, limits %+v, owner mark %t", params.Lock, params.Limits,
			params.RequireOwnerMark)
	}
	if access := (fleet.AccessRules{AllowInsecureTLS: true, RefusedRanges: []netip.Prefix{
		netip.MustParsePrefix("10.1.0.0/16"), netip.MustParsePrefix("fd00:1::/32"),
	}}); !reflect.DeepEqual(params.Access, access) {
		t.Errorf("the rules of access are %+v, want %+v", params.Access, access)
	}
	for _, test := range []struct {
		cluster                    fleet.Cluster
		name, config, file, opened string
	}{
		{fleet.Cluster{Name: "a"}, "a", "one", "/etc/cloud.conf", "one"},
		{fleet.Cluster{Name: "b", Labels: map[string]string{
			example.ProviderLabel: "two", example.NameLabel: "kubernetes",
		}, CloudConfig: []byte("!")}, "kubernetes", "two", "", "two!"},
	} {
		got, err := params.Manager(test.cluster)
		if err != nil {
			t.Fatal(err)
		}
		if got.Registerer == nil {
			t.Errorf("%s: --cluster-metrics has no effect", test.cluster.Name)
		}
		if c := got.Config; c.ClusterName != test.name || c.CloudProvider.Name != test.config ||
			c.CloudProvider.ConfigFile != test.file || got.Providers[0].Name != test.opened {
			t.Errorf("%s: name %q, cloud provider %+v, opened %q", test.cluster.Name,
				c.ClusterName, c.CloudProvider, got.Providers[0].Name)
		}
	}
}
