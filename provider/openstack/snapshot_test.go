package openstack_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestDifferences_CreatedDeletedChanged_EachIsALine(t *testing.T) {
	before := openstack.Snapshot{
		"listener 1": {"name": "a", "port": 80.0}, "listener 2": {"name": "b"},
		"listener 3": {"name": "c"},
	}
	later := openstack.Snapshot{
		"listener 1": {"name": "a", "port": 81.0, "new": true}, "listener 3": {"name": "c"},
		"listener 4": {"name": "d"},
	}
	want := []string{
		"listener 1 (a): new was <nil> and is true", "listener 1 (a): port was 80 and is 81",
		"listener 2 (b) is deleted", "listener 4 (d) is created",
	}
	if got := before.Differences(later); !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := before.Differences(before); len(got) > 0 {
		t.Errorf("equal snapshots have the differences %q", got)
	}
}

// The error has the service, the status and the cause, and what to do, once.
func TestSnapshot_CloudFails_ErrorIsOneSentence(t *testing.T) {
	for want, fault := range map[string]openstacktest.Fault{
		`; correct auth-url and the credentials in cloud.conf`: {
			Service: openstacktest.ServiceIdentity, Status: http.StatusUnauthorized,
		},
		"Octavia: 503 Service Unavailable; run the command again later": {
			Service: openstacktest.ServiceLoadBalancer, Status: http.StatusServiceUnavailable,
		},
		"Neutron: EOF; run the command again later": {
			Service: openstacktest.ServiceNetwork, Drop: true,
		},
	} {
		cloud := openstacktest.NewCloud()
		t.Cleanup(cloud.Close)
		cloud.Inject(fault)
		loaded, err := cloudconf.Read(
			[]byte(cloud.CloudConf("password")+"[Client]\nmax-retries = 0\n"), cloudconf.Options{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := openstack.NewPreviewer(openstack.PreviewerConfig{
			Config: loaded.Config, ClusterName: "prod", ClusterUID: "1",
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.Close)
		_, err = p.Snapshot(t.Context(), openstack.SnapshotScope{})
		if err == nil || !strings.HasSuffix(err.Error(), want) ||
			strings.ContainsAny(err.Error(), "\n{") || strings.Contains(err.Error(), "://") {
			t.Errorf("the error is %v, want one sentence with %q", err, want)
		}
	}
}

// A snapshot holds the cluster's objects, and no load balancers of others.
func TestSnapshot_OtherClustersAndExceptions_AreLeftOut(t *testing.T) {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	network := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	ids := map[string]string{}
	for _, name := range []string{
		"kube_service_prod_default_web", "kube_service_prod_default_skipped",
		"kube_service_other_default_web", "by-id",
	} {
		ids[name] = cloud.AddLoadBalancer(openstacktest.LoadBalancer{
			OctaviaResource: openstacktest.OctaviaResource{Name: name, Tags: []string{"a"}},
			VIPSubnetID:     subnet,
		})
	}
	loaded, err := cloudconf.Read([]byte(cloud.CloudConf("password")),
		cloudconf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	p, err := openstack.NewPreviewer(openstack.PreviewerConfig{
		Config: loaded.Config, ClusterName: "prod", ClusterUID: "1",
	})
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	snapshot, err := p.Snapshot(t.Context(), openstack.SnapshotScope{
		LoadBalancers: []string{ids["by-id"]},
		ExceptServices: []*v1.Service{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "skipped"},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for key, object := range snapshot {
		if strings.HasPrefix(key, "load balancer ") {
			names = append(names, object["name"].(string))
		}
		for _, volatile := range []string{"tags", "updated_at", "provisioning_status"} {
			if _, has := object[volatile]; has {
				t.Errorf("%s has %s", key, volatile)
			}
		}
	}
	slices.Sort(names)
	if want := []string{"by-id", "kube_service_prod_default_web"}; !slices.Equal(names, want) {
		t.Errorf("the snapshot has %q, want %q", names, want)
	}
}
