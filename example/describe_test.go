package main

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestDescribe_RefusedService_ShowsTheReasonOfEachSource(t *testing.T) {
	w := newWorld(t)
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	network := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	conf := writeFile(t, "cloud.conf", cloud.CloudConf(openstacktest.PasswordAuth))
	p := launch(t, "--cloud-provider=openstack", "--cloud-config="+conf, w.args[0])
	refused := ccmtest.LoadBalancerService("web")
	refused.Annotations = map[string]string{"loadbalancer.openstack.org/class": "gold"}
	ccmtest.CreateService(t, w.client, refused)
	args := []string{
		"describe", "service", "default/web", "--kubeconfig=" + w.admin(t),
		"--cloud-config=" + conf, "--insecure-skip-tls-verify",
		fmt.Sprintf("--server=https://127.0.0.1:%d", p.port),
	}
	var last string
	p.eventually("the running process reports that it refuses the Service", func() (string, bool) {
		code, stdout, stderr := runSubcommand(args...)
		last = stdout
		return fmt.Sprint(code, stdout, stderr), code == exitClean &&
			strings.Contains(stdout, "  refused for ")
	})
	for _, want := range []string{
		"Service default/web, type LoadBalancer, ", "\nAddresses: none\n", "\nEvents: ",
		"leads in term 1\n", ": InvalidAnnotation: loadbalancer.openstack.org/class: ",
		"\nIn OpenStack, with 0 nodes\nLoad balancer: none\n",
		"No changes: the Service is refused.", "gold",
	} {
		if !strings.Contains(last, want) {
			t.Errorf("it lacks %q:\n%s", want, last)
		}
	}

	if strings.Contains(last, "compared") {
		t.Errorf("a Service without a load balancer cannot have been compared:\n%s", last)
	}

	// Without the process, and without the cloud, the rest is printed.
	args[len(args)-1] = "--server=https://127.0.0.1:1"
	cloud.Close()
	code, stdout, stderr := runSubcommand(args...)
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
	for want, args := range map[string][]string{
		"want the word service": {"node", "a"},
		"the name of one":       {"service"},
		"must be given":         {"service", "web", "--kubeconfig=x"},
		"read --kubeconfig":     {"service", "web", "--kubeconfig=nowhere", "--cloud-config=x"},
	} {
		code, stdout, stderr := runSubcommand(append([]string{"describe"}, args...)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
		}
	}
}
