package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// addCloudNode adds a node to a cluster, and its server at 10.0.0.10 to the cloud.
func addCloudNode(t *testing.T, w *world, cloud *openstacktest.Cloud) {
	t.Helper()
	network := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	server := cloud.AddServer(openstacktest.Server{Name: "a"})
	cloud.AddPort(openstacktest.Port{
		NetworkID: network, DeviceID: server,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: subnet, Address: "10.0.0.10"}},
	})
	node := ccmtest.CreateNode(t, w.client,
		ccmtest.ReadyNode("a", ccmtest.NodeProviderID("openstack:///"+server)))
	node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "10.0.0.10"}}
	if _, err := w.client.CoreV1().Nodes().UpdateStatus(t.Context(), node,
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
}

func TestDescribe_ServedThenRefused_ShowsTheReportOfEachSource(t *testing.T) {
	w := newWorld(t)
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	addCloudNode(t, w, cloud)
	conf := writeFile(t, "cloud.conf", cloud.CloudConf("password"))
	p := launch(t, "--cloud-provider=openstack", "--cloud-config="+conf, w.args[0])
	internal := ccmtest.LoadBalancerService("web")
	internal.Annotations = map[string]string{
		"service.beta.kubernetes.io/openstack-internal-load-balancer": "true",
	}
	ccmtest.CreateService(t, w.client, internal)
	args := []string{
		"describe", "service", "web", "-n=default", "--kubeconfig=" + w.admin(t),
		"--cloud-config=" + conf, "--insecure-skip-tls-verify",
		fmt.Sprintf("--server=https://127.0.0.1:%d", p.port),
	}
	described := func(state string) (text string) {
		t.Helper()
		p.eventually("the running process reports "+state, func() (string, bool) {
			code, stdout, stderr := runSubcommand(args...)
			text = stdout
			return fmt.Sprint(code, stdout, stderr), code == exitClean &&
				strings.Contains(stdout, "  "+state+" for ")
		})
		return text
	}
	want := func(text string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !strings.Contains(text, part) {
				t.Errorf("it lacks %q:\n%s", part, text)
			}
		}
	}

	served := described("ready")
	listener := "listener listener_0_kube_service_kubernetes_default_web (TCP, port 80)"
	_, desired, _ := strings.Cut(served, "\nDesired in OpenStack\n")
	desired, observed, _ := strings.Cut(desired, "\nObserved in OpenStack\n")
	want(served, "leads in term 1\n", "  compared ", "last requests to the cloud, newest first\n",
		" ago: POST /load-balancer/v2.0/lbaas/loadbalancers: 201 in ",
		"\nNo changes: the load balancer is up to date.\n")
	want(desired, listener, "member a 10.0.0.10 port ")
	lb := cloud.LoadBalancers()[0]
	want(observed, "load balancer kube_service_kubernetes_default_web ("+lb.ID+
		"), ACTIVE ONLINE", listener+", ACTIVE", "member a 10.0.0.10 port ", "Difference")

	// The process compares later; the command compares at once.
	if err := cloud.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
		lb.Pools[0].Members[0].Weight = 7
	}); err != nil {
		t.Fatal(err)
	}
	want(described("ready"), ", weight 7\n", "\nSteps: 1\n", "weight 7 -> 1")

	if _, err := w.client.CoreV1().Services("default").Patch(t.Context(), "web",
		types.MergePatchType,
		[]byte(`{"metadata": {"annotations": {"loadbalancer.openstack.org/class": "gold"}}}`),
		metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	want(described("refused"), "Service default/web, type LoadBalancer, ", "\nEvents: ",
		": InvalidAnnotation: loadbalancer.openstack.org/class: ",
		"\nDesired in OpenStack\n  none\n", "  "+listener,
		"No changes: the Service is refused: InvalidAnnotation: ", "gold")

	// Without cloud.conf, and with the kubeconfig from the environment, as kubectl reads it.
	t.Setenv("KUBECONFIG", w.admin(t))
	code, stdout, stderr := runSubcommand("describe", "service", "web",
		"--insecure-skip-tls-verify", args[len(args)-1])
	want(stdout, "Service default/web, type LoadBalancer, ", "\nEvents: ", "leads in term 1\n",
		"  refused for ", "\nDesired and observed objects in OpenStack: give --cloud-config\n")
	if code != exitClean || stderr != "" {
		t.Errorf("without cloud.conf: exit code %d: %s", code, stderr)
	}

	// A Service that the CCM does not serve is not compared.
	code, stdout, stderr = runSubcommand(append(args, "--default-load-balancer=false")...)
	want(stdout, "Desired and observed objects in OpenStack: not compared\n"+
		"  The Service has no load balancer class, and --default-load-balancer is false.\n")
	if code != exitClean || stderr != "" {
		t.Errorf("a Service that is not served: exit code %d: %s", code, stderr)
	}

	// Without the process, and without the cloud, the rest is printed.
	args[len(args)-1] = "--server=https://127.0.0.1:1"
	cloud.Close()
	code, stdout, stderr = runSubcommand(args...)
	if code != exitFailed || stderr == "" || !strings.Contains(stdout, "\nEvents: ") ||
		!strings.Contains(stdout, "The running CCM: no replica leads: https://127.0.0.1:1: ") {
		t.Errorf("without process and cloud: exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestDescribeService_Condition_IsPrintedWithItsAge(t *testing.T) {
	now := time.Now()
	service := ccmtest.LoadBalancerService("web")
	service.Generation = 3
	service.Status.LoadBalancer.Ingress = []v1.LoadBalancerIngress{{IP: "203.0.113.7"}}
	service.Status.Conditions = []metav1.Condition{{
		Type: "fxccm.dev/LoadBalancerReady", Status: metav1.ConditionFalse,
		ObservedGeneration: 2, LastTransitionTime: metav1.NewTime(now.Add(-time.Hour)),
		Reason: "QuotaExceeded", Message: "no floating IP is left",
	}}
	var out strings.Builder
	describeService(&out, service, now)
	const want = "\nAddresses: 203.0.113.7\n" +
		"Condition fxccm.dev/LoadBalancerReady: False for 60m " +
		"(of an older version of the Service): QuotaExceeded: no floating IP is left\n"
	if !strings.HasSuffix(out.String(), want) {
		t.Errorf("it is %q, want %q", &out, want)
	}
}

func TestDescribe_BadInput_IsAnError(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	for want, c := range map[string]struct {
		code int
		args []string
	}{
		"want a Service as service/NAME": {cli.ExitUsage, []string{"web"}},
		"one Service":                    {cli.ExitUsage, []string{"node", "a"}},
		"service/NAME or service NAME":   {cli.ExitUsage, []string{"service"}},
		"read KUBECONFIG":                {exitFailed, []string{"service", "web"}},
		"--node-selector=a=b=c":          {cli.ExitUsage, []string{"service", "web", "--node-selector=a=b=c"}},
		"another namespace":              {cli.ExitUsage, []string{"service", "a/web", "-n=b"}},
		"not the name":                   {cli.ExitUsage, []string{"service", "a/web/b"}},
		"read --kubeconfig":              {exitFailed, []string{"service/web", "--kubeconfig=nowhere"}},
	} {
		code, stdout, stderr := runSubcommand(append([]string{"describe"}, c.args...)...)
		if code != c.code || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q, %q", c.args, code, stdout, stderr)
		}
	}
}

func TestServiceName_EachForm_IsThatOfKubectl(t *testing.T) {
	for form, want := range map[string]string{
		"web":                "/web",
		"service web":        "/web",
		"svc/web":            "/web",
		"services/web":       "/web",
		"shop/web":           "shop/web",
		"service shop/web":   "shop/web",
		"service/shop/web":   "shop/web",
		"Service/web":        "/web",
		"service/service":    "/service",
		"service service":    "/service",
		"kube-system/proxy":  "kube-system/proxy",
		"service a/b/c":      "error",
		"/web":               "error",
		"web/":               "error",
		"service/":           "error",
		"service/service/":   "error",
		"deployment web":     "error",
		"service web proxy":  "error",
		"deployment/web/two": "error",
	} {
		namespace, name, err := serviceName(strings.Fields(form), "")
		got := namespace + "/" + name
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%s: %s, %v, want %s", form, got, err, want)
		}
	}
}
