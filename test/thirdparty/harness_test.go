package thirdparty_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	// Registers "aws".
	_ "k8s.io/cloud-provider-aws/pkg/providers/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/test/thirdparty/awsstub"
)

// secretKey must not be logged.
const secretKey = "hunter2-is-not-for-logs"

// newCloud starts a stub of AWS for one test, which must not send requests that the stub does not
// support.
func newCloud(t *testing.T) *awsstub.Cloud {
	t.Helper()
	cloud := awsstub.Start()
	t.Cleanup(func() {
		cloud.Close()
		if unknown := cloud.Unknown(); len(unknown) > 0 {
			t.Errorf("the provider sent requests that the stub does not support: %v", unknown)
		}
	})
	return cloud
}

// signWith sets the key with which the providers of later terms sign.
func signWith(t *testing.T, accessKey string) {
	t.Helper()
	t.Setenv("AWS_ACCESS_KEY_ID", accessKey)
}

// launch adds the n-th instance to the cloud, and returns it.
func launch(cloud *awsstub.Cloud, n int) awsstub.Instance {
	i := awsstub.Instance{
		ID:             fmt.Sprintf("i-%017x", n),
		PrivateDNSName: fmt.Sprintf("ip-10-0-0-%d.ec2.internal", n),
		PrivateIP:      fmt.Sprintf("10.0.0.%d", n),
		PublicIP:       fmt.Sprintf("192.0.2.%d", n),
		Type:           "m5.large",
		Zone:           awsstub.Region + "b",
	}
	cloud.Launch(i)
	return i
}

func providerID(i awsstub.Instance) string { return "aws:///" + i.Zone + "/" + i.ID }

// newNode is the Node of an instance, as its kubelet registers it.
func newNode(t *testing.T, i awsstub.Instance, opts ...ccmtest.NodeOption) {
	t.Helper()
	ccmtest.CreateNode(t, shared.Admin, ccmtest.TaintedNode(i.PrivateDNSName, opts...))
}

// knownNode creates an initialized Node for an instance. Created before the CCM starts, it is in
// all load balancers from the beginning.
func knownNode(t *testing.T, i awsstub.Instance) {
	t.Helper()
	ccmtest.CreateNode(t, shared.Admin,
		ccmtest.ReadyNode(i.PrivateDNSName, ccmtest.NodeProviderID(providerID(i))))
}

// waitInitialized waits until the instance's Node is initialized.
func waitInitialized(t *testing.T, i awsstub.Instance) *corev1.Node {
	t.Helper()
	return ccmtest.Eventually(t, "the node is initialized",
		ccmtest.Initialized(shared.Admin, i.PrivateDNSName))
}

// configure changes the CCM's configuration to that of a cluster on the cloud, with its file in a
// directory of the test's.
func configure(
	t *testing.T, cloudConfig string, change ...func(*ccm.Config),
) (ccmtest.Option, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cloud.conf")
	writeFile(t, path, cloudConfig)
	return ccmtest.WithConfig(func(cfg *ccm.Config) {
		cfg.CloudProvider.ConfigFile = path
		// The stub has no route tables.
		cfg.Controllers = []string{"*", "-node-route-controller"}
		for _, f := range change {
			f(cfg)
		}
	}), path
}

func writeFile(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

// start runs a CCM with the registered provider on the cloud, until the test ends.
func start(t *testing.T, cloud *awsstub.Cloud, change ...func(*ccm.Config)) *ccmtest.CCM {
	t.Helper()
	return startHosted(t, cloud, registered.Provider("aws"), change...)
}

// startHosted runs a CCM with the provider on the cloud, until the test ends.
func startHosted(
	t *testing.T, cloud *awsstub.Cloud, provider ccm.Provider, change ...func(*ccm.Config),
) *ccmtest.CCM {
	t.Helper()
	config, _ := configure(t, cloud.Config(awsstub.ClusterID), append(change,
		func(cfg *ccm.Config) { cfg.ClusterName = awsstub.ClusterID })...)
	return ccmtest.StartManager(t, shared.ControlPlane, nil, config,
		ccmtest.WithProvider(provider))
}

// monitorRarely keeps the lifecycle controller from sending requests while a test counts them.
func monitorRarely(cfg *ccm.Config) {
	cfg.NodeLifecycle.MonitorPeriod = metav1.Duration{Duration: time.Hour}
}

// loadBalancerService is a Service with a load balancer in the stub's subnet.
func loadBalancerService(t *testing.T, name string) {
	t.Helper()
	ccmtest.CreateService(t, shared.Admin, ccmtest.LoadBalancerService(name,
		ccmtest.ServiceAnnotation("service.beta.kubernetes.io/aws-load-balancer-subnets",
			awsstub.Subnet)))
}

// waitBalancer waits until the Service's load balancer has the members.
func waitBalancer(
	t *testing.T, cloud *awsstub.Cloud, service string, members ...string,
) awsstub.Balancer {
	t.Helper()
	return ccmtest.Eventually(t, "the load balancer of "+service+" is complete",
		func(context.Context) (awsstub.Balancer, error) {
			b, ok := cloud.Balancers()["default/"+service]
			switch {
			case !ok:
				return b, fmt.Errorf("it does not exist; the cloud has %v", cloud.Balancers())
			case !slices.Equal(b.Members, members):
				return b, fmt.Errorf("its members are %v, want %v", b.Members, members)
			}
			return b, nil
		})
}

// waitRequests waits until the requests that have reached the cloud satisfy cond.
func waitRequests(t *testing.T, cloud *awsstub.Cloud, cond func([]awsstub.Request) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), ccmtest.WaitLimit)
	defer cancel()
	if err := cloud.WaitUntil(ctx, cond); err != nil {
		t.Fatal(err)
	}
}

func count(requests []awsstub.Request, cond func(awsstub.Request) bool) (n int) {
	for _, r := range requests {
		if cond(r) {
			n++
		}
	}
	return n
}
