package openstack_test

import (
	"context"
	"fmt"
	"net/http"

	"go.uber.org/fx"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// In an fx app, with the cloud.conf that --cloud-config names.
func ExampleModule() {
	cfg := ccm.DefaultConfig()
	cfg.CloudProvider.ConfigFile = "/etc/kubernetes/cloud.conf"
	_ = fx.Options(
		ccm.Module,
		openstack.Module,
		fx.Supply(cfg),
	)
}

// Without a file: the configuration is data, here that of a simulated cloud.
func ExampleWithConfig() {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	login := cloud.Credentials()

	cfg := cloudconf.Default()
	cfg.Global.AuthURL = login.AuthURL
	cfg.Global.Region = login.Region
	cfg.Global.ApplicationCredentialID = login.ApplicationCredentialID
	cfg.Global.ApplicationCredentialSecret = cloudconf.Secret(login.ApplicationCredentialSecret)

	provider := openstack.Provider(openstack.WithConfig(cfg))
	fmt.Println(provider.Name, cfg.Global.ApplicationCredentialSecret)
	// Output: openstack [redacted]
}

// Module takes options of the provider from the app, here fewer connections to a small cloud.
func ExampleConfigure() {
	_ = fx.Options(
		ccm.Module,
		openstack.Module,
		openstack.Configure(openstack.WithTransport(func(t *http.Transport) http.RoundTripper {
			t.MaxConnsPerHost = 4
			return t
		})),
		fx.Supply(ccm.DefaultConfig()),
	)
}

// A host that rotates credentials replaces them during a term, without a new login of all clients
// if nothing has changed.
func ExampleNewLiveConfig() {
	cfg := cloudconf.Default()
	cfg.Global.AuthURL = "https://identity.example.com/v3"
	cfg.Global.Region = "RegionOne"
	cfg.Global.ApplicationCredentialID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	cfg.Global.ApplicationCredentialSecret = "old"
	live := openstack.NewLiveConfig(cfg)
	provider := openstack.Provider(openstack.WithLiveConfig(live))

	cfg.Global.ApplicationCredentialSecret = "new"
	isKept, err := live.Replace(context.Background(), cfg)
	fmt.Println(provider.Name, isKept, err)
	// Output: openstack true <nil>
}

// A program checks credentials before it starts a Manager.
func ExampleCheckAccess() {
	cloud := openstacktest.NewCloud() // a program reads its cloud.conf
	defer cloud.Close()
	loaded, err := cloudconf.Read([]byte(cloud.CloudConf("password")), cloudconf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	services, err := openstack.CheckAccess(context.Background(), loaded.Config)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range services {
		fmt.Println(s.Service, s.Err)
	}
	// Output:
	// Nova <nil>
	// Neutron <nil>
	// Octavia <nil>
}

// A program shows what the provider would do for a Service; nothing is changed.
func ExampleNewPreviewer() {
	cloud := openstacktest.NewCloud() // a program reads its cloud.conf
	defer cloud.Close()
	loaded, err := cloudconf.Read([]byte(cloud.CloudConf("password")), cloudconf.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	previewer, err := openstack.NewPreviewer(openstack.PreviewerConfig{
		Config: loaded.Config, ClusterName: "kubernetes",
		ClusterUID: "6f1c2b3a-4d5e-4f60-8a7b-9c0d1e2f3a4b", // of the namespace kube-system
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer previewer.Close()
	service := &v1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "1"},
		Spec:       v1.ServiceSpec{Type: v1.ServiceTypeClusterIP}, // needs no load balancer
	}
	preview, err := previewer.Preview(context.Background(), service, nil)
	fmt.Println(preview.LoadBalancer, len(preview.Steps), err)
	// Output: none 0 <nil>
}

// The Managers of clusters in one project share logins, lists, and the budget of requests.
func ExampleNewShared() {
	project := cloudconf.Default()
	project.Global.AuthURL = "https://identity.example.com/v3"
	project.Global.Region = "RegionOne"
	project.Global.ApplicationCredentialID = "0a1b2c3d4e5f60718293a4b5c6d7e8f9"
	project.Global.ApplicationCredentialSecret = "secret"
	shared := openstack.NewShared(openstack.SharedConfig{RequestRate: 10})
	for _, cluster := range []string{"east", "west"} {
		cfg := ccm.DefaultConfig()
		cfg.ClusterName = cluster
		m, err := ccm.New(ccm.Params{
			Name: cluster, Config: cfg,
			Providers: []ccm.Provider{
				openstack.Provider(openstack.WithConfig(project), openstack.WithShared(shared)),
			},
			RESTConfig: &rest.Config{Host: "https://" + cluster + ".internal:6443"},
		})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(m.Config().ClusterName, m.Status().Provider)
	}
	// Output:
	// east openstack
	// west openstack
}
