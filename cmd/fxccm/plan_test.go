package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelper "k8s.io/cloud-provider/service/helpers"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/members"
	"github.com/fxccm/fxccm/internal/servicelb"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

const aService = `apiVersion: v1
kind: Service
metadata: {name: web, uid: c0ffee00-0000-4000-8000-000000000001}
spec:
  type: LoadBalancer
  ipFamilies: [IPv4]
  ports:
  - {name: http, protocol: TCP, port: 80, nodePort: 30080}
`

// nodeList is in the form of "kubectl get nodes -o yaml".
const nodeList = `apiVersion: v1
kind: List
items:
- apiVersion: v1
  kind: Node
  metadata: {name: a}
  spec: {providerID: "openstack:///%s"}
  status: {addresses: [{type: InternalIP, address: 10.0.0.10}]}
`

// planned runs "fxccm plan" for files with these contents.
func planned(
	t *testing.T, cloud *openstacktest.Cloud, service, nodes string, more ...string,
) (code int, stdout, stderr string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	args := append([]string{
		"plan", "--cloud-config=" + file("cloud.conf", cloud.CloudConf("password")),
		"--cluster-uid=cluster-1",
		"--service-file=" + file("service.yaml", service),
		"--node-file=" + file("nodes.yaml", nodes),
	}, more...)
	var out, err bytes.Buffer
	code = run(args, &out, &err)
	return code, out.String(), err.String()
}

func TestPlan_Files_PrintsStepsAndSendsNone(t *testing.T) {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	network := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	external := cloud.AddNetwork(openstacktest.Network{Name: "public", External: true})
	cloud.AddSubnet(openstacktest.Subnet{NetworkID: external, CIDR: "203.0.113.0/24"})
	server := cloud.AddServer(openstacktest.Server{Name: "a"})
	cloud.AddPort(openstacktest.Port{
		NetworkID: network, DeviceID: server,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: subnet, Address: "10.0.0.10"}},
	})

	code, stdout, stderr := planned(t, cloud, aService, fmt.Sprintf(nodeList, server))
	if code != exitClean {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	for _, want := range []string{
		"Service default/web, 1 nodes\nLoad balancer: none\nSteps: 2\n",
		"1. create load balancer kube_service_kubernetes_default_web", "10.0.0.10 port 30080",
		"2. create a floating IP in network " + external,
	} {
		if !strings.Contains(stdout, want) {
			t.Errorf("it lacks %q:\n%s", want, stdout)
		}
	}
	for _, call := range cloud.Calls() {
		if call.Method != http.MethodGet && call.Service != openstacktest.ServiceIdentity {
			t.Errorf("it sent the request %s %s", call.Method, call.Path)
		}
	}
	if lbs := cloud.LoadBalancers(); len(lbs) > 0 {
		t.Errorf("it created %v", lbs)
	}

	clusterIP := strings.ReplaceAll(aService, "LoadBalancer", "ClusterIP")
	if code, stdout, stderr := planned(t, cloud, clusterIP,
		fmt.Sprintf(nodeList, server)); code != exitClean ||
		stdout != "Service default/web is not of type LoadBalancer.\n" {
		t.Errorf("a Service without a load balancer: exit code %d, %q, %q", code, stdout, stderr)
	}
	bad := strings.ReplaceAll(aService, "uid:",
		`annotations: {loadbalancer.openstack.org/class: gold}, uid:`)
	if code, stdout, stderr := planned(t, cloud, bad,
		fmt.Sprintf(nodeList, server)); code != exitClean ||
		!strings.Contains(stdout, "the Service is refused") || !strings.Contains(stdout, "gold") {
		t.Errorf("a Service that is refused: exit code %d, %q, %q", code, stdout, stderr)
	}
}

// The rows are those of the table in docs/explanation/openstack-load-balancers.md.
func TestPlan_EachStateOfANode_PrintsTheWeightOfThePage(t *testing.T) {
	content, err := os.ReadFile("../../provider/openstack/internal/loadbalancer/desired/" +
		"testdata/weights.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		State       string
		Node        *v1.Node
		Weight, OVN *int
	}
	if err := yaml.Unmarshal(content, &rows); err != nil || len(rows) == 0 {
		t.Fatalf("%d rows: %v", len(rows), err)
	}
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	network := cloud.AddNetwork(openstacktest.Network{Name: "nodes"})
	subnet := cloud.AddSubnet(openstacktest.Subnet{NetworkID: network, CIDR: "10.0.0.0/24"})
	document := func(node v1.Node, name, address string) string {
		server := cloud.AddServer(openstacktest.Server{Name: name})
		cloud.AddPort(openstacktest.Port{
			NetworkID: network, DeviceID: server,
			FixedIPs: []openstacktest.FixedIP{{SubnetID: subnet, Address: address}},
		})
		node.APIVersion, node.Kind, node.Name = "v1", "Node", name
		node.Spec.ProviderID = "openstack:///" + server
		node.Status.Addresses = []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address}}
		text, err := yaml.Marshal(node)
		if err != nil {
			t.Fatal(err)
		}
		return "---\n" + string(text)
	}
	other := document(v1.Node{}, "other", "10.0.0.9")
	const common = "[Instances]\nremoval-taints = example.com/leaving\n" +
		"[LoadBalancer]\ninternal-lb = true\n"
	amphora := writeFile(t, "amphora.conf", cloud.CloudConf("password")+common)
	ovn := writeFile(t, "ovn.conf", cloud.CloudConf("password")+common+
		"lb-provider = ovn\nlb-method = SOURCE_IP_PORT\n")
	for i, row := range rows {
		t.Run(row.State, func(t *testing.T) {
			nodes, address := other, fmt.Sprintf("10.0.0.%d", 10+i)
			if row.Node != nil {
				nodes += document(*row.Node, fmt.Sprint("node-", i), address)
			}
			for config, weight := range map[string]*int{amphora: row.Weight, ovn: row.OVN} {
				code, stdout, stderr := planned(t, cloud, aService, nodes,
					"--cloud-config="+config)
				_, member, isMember := strings.Cut(stdout, address+" port 30080")
				member, _, _ = strings.Cut(member, "\n")
				switch _, printed, hasWeight := strings.Cut(member, ", weight "); {
				case code != exitClean || !strings.Contains(stdout, "10.0.0.9 port 30080"):
					t.Errorf("exit code %d, it prints\n%s%s", code, stdout, stderr)
				case isMember != (weight != nil):
					t.Errorf("the node is a member: %t\n%s", isMember, stdout)
				case isMember && hasWeight != (*weight == 0), hasWeight && printed != "0":
					t.Errorf("the member is %q, want weight %d", member, *weight)
				}
				const warning = "Notice: LoadBalancerNodesNotReady: nodes are not ready"
				isWarned := weight != nil && *weight == 1 && members.IsNotReady(row.Node)
				if strings.Contains(stdout, warning) != isWarned {
					t.Errorf("want the warning about a node that is not ready: %t\n%s", isWarned,
						stdout)
				}
			}
		})
	}
}

// Objects that are in no file are read from the cluster, which is not changed.
func TestPlan_OfACluster(t *testing.T) {
	w := newWorld(t)
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	addCloudNode(t, w, cloud)
	service := ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("planned"))
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("second",
		func(s *v1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"10.0.0.0/8", "fd00::/8"}
		}))
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("others",
		func(s *v1.Service) { s.Spec.LoadBalancerClass = ptr.To("example.com/other") }))
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("left",
		func(s *v1.Service) {
			s.Spec.Type = v1.ServiceTypeClusterIP
			s.Finalizers = []string{servicehelper.LoadBalancerCleanupFinalizer}
			s.Annotations = map[string]string{servicelb.ServedClass: "example.com/other"}
		}))
	system, err := w.client.CoreV1().Namespaces().Get(t.Context(), metav1.NamespaceSystem,
		metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, w.cp.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	var stdout, stderr bytes.Buffer
	code := run([]string{
		"plan",
		"--cloud-config=" + writeFile(t, "cloud.conf", cloud.CloudConf("password")),
		"--kubeconfig=" + kubeconfig, "default/planned",
	}, &stdout, &stderr)
	for _, want := range []string{
		"Service default/planned, 1 nodes", "member a 10.0.0.10",
		"fxccm-cluster=" + string(system.UID), "fxccm-service=" + string(service.UID),
	} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("exit code %d, it lacks %q:\n%s%s", code, want, &stdout, &stderr)
		}
	}
	if stdout := planAll(t, cloud, kubeconfig); !strings.Contains(stdout,
		"default/planned   none            changes\n") ||
		!strings.Contains(stdout, "- create load balancer") ||
		!strings.Contains(stdout, "LoadBalancerSourceRangesLeftOut: source ranges fd00::/8 have "+
			"no effect") ||
		!strings.Contains(stdout, "2 Services: 2 changes.") {
		t.Errorf("--all prints\n%s", stdout)
	}
	var plans []struct {
		Service, Outcome string
		Steps            []string
	}
	if err := json.Unmarshal([]byte(planAll(t, cloud, kubeconfig, "-ojson")), &plans); err != nil ||
		len(plans) != 2 || plans[0].Service != "default/planned" || len(plans[0].Steps) == 0 {
		t.Errorf("--all -ojson: %v, %+v", err, plans)
	}
	classes := "--load-balancer-classes=example.com/other"
	if stdout := planAll(t, cloud, kubeconfig, classes); !strings.Contains(stdout,
		"default/others    none            changes\n") {
		t.Errorf("--all %s prints\n%s", classes, stdout)
	}
	for _, c := range []struct{ service, flag, want string }{
		{"others", "--cloud-config-strict", "is not in --load-balancer-classes"},
		{"others", classes, "create load balancer"},
		{"left", "--cloud-config-strict", "its load balancer was not of a served class"},
		{"left", classes, "is not of type LoadBalancer.\n"},
		{"planned", "--default-load-balancer=false", "--default-load-balancer is false"},
	} {
		stdout.Reset()
		if code := run([]string{
			"plan", "--kubeconfig=" + kubeconfig, c.flag, "default/" + c.service,
			"--cloud-config=" + writeFile(t, "cloud.conf", cloud.CloudConf("password")),
		}, &stdout, &stderr); code != exitClean || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("%s %s: exit code %d, it prints\n%s%s", c.service, c.flag, code, &stdout,
				&stderr)
		}
	}
	if _, err := w.client.CoreV1().Namespaces().Create(t.Context(),
		&v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}},
		metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("third",
		func(s *v1.Service) { s.Namespace = "shop" }))
	if stdout := planAll(t, cloud, kubeconfig, "--namespace=shop"); !strings.Contains(stdout,
		"shop/third") || !strings.Contains(stdout, "1 Services: 1 changes.") {
		t.Errorf("--all -n shop prints\n%s", stdout)
	}
	now, err := w.client.CoreV1().Services("default").Get(t.Context(), "planned",
		metav1.GetOptions{})
	if err != nil || now.ResourceVersion != service.ResourceVersion ||
		len(cloud.LoadBalancers()) > 0 {
		t.Errorf("the Service was changed, or there are load balancers: %v", err)
	}
	stdout.Reset()
	stderr.Reset()
	if code := run([]string{
		"plan",
		"--cloud-config=" + writeFile(t, "cloud.conf", cloud.CloudConf("password")),
		"--kubeconfig=" + kubeconfig, "nowhere",
	}, &stdout, &stderr); code != exitFailed ||
		!strings.Contains(stderr.String(), `"nowhere" not found`) {
		t.Errorf("a Service that does not exist: exit code %d, %q, %q", code, &stdout, &stderr)
	}
}

// planAll runs "fxccm plan --all", and fails the test if it logs in for each Service.
func planAll(t *testing.T, cloud *openstacktest.Cloud, kubeconfig string, more ...string) string {
	t.Helper()
	calls := len(cloud.Calls())
	var stdout, stderr bytes.Buffer
	code := run(append([]string{
		"plan", "--all", "--kubeconfig=" + kubeconfig,
		"--cloud-config=" + writeFile(t, "cloud.conf", cloud.CloudConf("password")),
	}, more...), &stdout, &stderr)
	if code != exitClean {
		t.Fatalf("exit code %d: %s", code, &stderr)
	}
	logins := 0
	for _, call := range cloud.Calls()[calls:] {
		if call.Service == openstacktest.ServiceIdentity && call.Method == http.MethodPost {
			logins++
		} else if call.Method != http.MethodGet {
			t.Errorf("it has sent %s %s", call.Method, call.Path)
		}
	}
	if logins != 1 {
		t.Errorf("it has logged in %d times, want once", logins)
	}
	return stdout.String()
}

// cloudFailure is a failure of OpenStack, and the end of the sentence that a command prints.
type cloudFailure struct {
	fault openstacktest.Fault
	want  string
}

func cloudFailures() map[string]cloudFailure {
	return map[string]cloudFailure{
		"a wrong password": {
			openstacktest.Fault{Service: openstacktest.ServiceIdentity, Status: 401},
			"; correct auth-url and the credentials in cloud.conf\n",
		},
		"Octavia fails": {
			openstacktest.Fault{Service: openstacktest.ServiceLoadBalancer, Status: 503},
			"Octavia: 503 Service Unavailable; run the command again later\n",
		},
		"a policy denies": {
			openstacktest.Fault{
				Operation: "loadbalancer_list", Status: 403,
				Message: "Policy does not allow this request to be performed.",
			},
			"Octavia: 403 Policy does not allow this request to be performed; " +
				"give the user of cloud.conf the role for loadbalancer_list\n",
		},
		"a connection breaks": {
			openstacktest.Fault{Service: openstacktest.ServiceLoadBalancer, Drop: true},
			"Octavia: EOF; run the command again later\n",
		},
	}
}

// The error of a command has the service, the status and the cause, and what to do. It has no URL.
func TestPlan_CloudFails_PrintsOneSentence(t *testing.T) {
	for name, test := range cloudFailures() {
		t.Run(name, func(t *testing.T) {
			cloud := openstacktest.NewCloud()
			defer cloud.Close()
			cloud.Inject(test.fault)
			code, _, stderr := planned(t, cloud, aService, fmt.Sprintf(nodeList, "1234"))
			if code != exitFailed || !strings.HasPrefix(stderr, "fxccm plan: ") ||
				strings.Count(stderr, test.want) != 1 || strings.Count(stderr, "\n") != 1 ||
				strings.Contains(stderr, cloud.AuthURL()) {
				t.Errorf("exit code %d, %q, want one sentence with %q", code, stderr, test.want)
			}
		})
	}
}

func TestPlanAllAndDescribe_CloudFails_PrintOneSentence(t *testing.T) {
	w := newWorld(t)
	ccmtest.CreateService(t, w.client, ccmtest.LoadBalancerService("web"))
	kubeconfig := "--kubeconfig=" + w.admin(t)
	for name, test := range cloudFailures() {
		cloud := openstacktest.NewCloud()
		t.Cleanup(cloud.Close)
		cloud.Inject(test.fault)
		conf := "--cloud-config=" + writeFile(t, "cloud.conf",
			cloud.CloudConf("password")+"[Client]\nmax-retries = 0\n")
		code, stdout, stderr := runSubcommand("plan", "--all", kubeconfig, conf)
		_, details, _ := strings.Cut(stdout, "\ndefault/web: failed\n  - ")
		if code != exitFailed || stderr != "" || strings.Count(details, test.want) != 1 ||
			strings.Contains(stdout, cloud.AuthURL()) {
			t.Errorf("%s: plan --all has exit code %d and prints\n%s%s\nwant one sentence with %q",
				name, code, stdout, stderr, test.want)
		}
		code, stdout, stderr = runSubcommand("describe", "service/web", "-n=default", kubeconfig,
			conf, "--insecure-skip-tls-verify", "--server=https://127.0.0.1:1")
		if code != exitFailed || !strings.HasPrefix(stderr, "fxccm describe: ") ||
			strings.Count(stderr, test.want) != 1 || strings.Count(stderr, "\n") != 1 ||
			strings.Contains(stdout+stderr, cloud.AuthURL()) {
			t.Errorf("%s: describe has exit code %d and prints\n%s%s\nwant one sentence with %q",
				name, code, stdout, stderr, test.want)
		}
	}
}

func TestPlan_BadInput_IsAnError(t *testing.T) {
	t.Setenv("KUBECONFIG", filepath.Join(t.TempDir(), "none"))
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	elsewhere := strings.Replace(aService, "{name: web", "{namespace: b, name: web", 1)
	for name, test := range map[string]struct {
		service, nodes string
		more           []string
		want           string
		code           int
	}{
		"no YAML":           {"{", nodeList, nil, "service.yaml", exitFailed},
		"two Services":      {aService + "---\n" + aService, nodeList, nil, "2 Services, want one", exitFailed},
		"no Service":        {"---\n", nodeList, nil, "0 Services, want one", exitFailed},
		"another kind":      {nodeList, nodeList, nil, "Node, want Service", exitFailed},
		"nodes of a kind":   {aService, aService, nil, "Service, want Node", exitFailed},
		"both":              {aService, nodeList, []string{"default/web"}, "not both", cli.ExitUsage},
		"neither":           {"", nodeList, []string{"--service-file="}, "--service-file or --all", cli.ExitUsage},
		"another namespace": {"", nodeList, []string{"--service-file=", "-n=a", "b/web"}, "another namespace", cli.ExitUsage},
		"no name":           {"", nodeList, []string{"--service-file=", "service/"}, "not the name", cli.ExitUsage},
		"two names":         {aService, nodeList, []string{"a", "b"}, "not both", cli.ExitUsage},
		"an unknown flag":   {aService, nodeList, []string{"--nodes=3"}, "unknown flag", cli.ExitUsage},
		"no cloud.conf":     {aService, nodeList, []string{"--cloud-config="}, "--cloud-config must be given", cli.ExitUsage},
		"no cluster":        {aService, nodeList, []string{"--cluster-uid="}, "no such file", exitFailed},
		"no such file":      {aService, nodeList, []string{"--node-file=nowhere"}, "nowhere", exitFailed},
		"all and a name":    {aService, nodeList, []string{"--all", "default/web"}, "no files", cli.ExitUsage},
		"all, no cluster":   {"", "", []string{"--all", "--service-file=", "--node-file="}, "no such file", exitFailed},
		"a bad selector":    {aService, nodeList, []string{"--node-selector=a=b=c"}, "--node-selector=a=b=c is not", cli.ExitUsage},
		"a bad format":      {aService, nodeList, []string{"-oxml"}, "--output=xml", cli.ExitUsage},
		"file elsewhere":    {elsewhere, nodeList, []string{"-n=a"}, "is in namespace b", exitFailed},
		"a bad kubeconfig":  {aService, nodeList, []string{"--kubeconfig=nowhere"}, "--kubeconfig", exitFailed},
	} {
		code, stdout, stderr := planned(t, cloud, test.service, test.nodes, test.more...)
		if code != test.code || stdout != "" || !strings.Contains(stderr, test.want) ||
			!strings.HasPrefix(stderr, "fxccm plan: ") {
			t.Errorf("%s: exit code %d, it prints %q and %q, want %q", name, code, stdout, stderr,
				test.want)
		}
	}
	if calls := cloud.Calls(); len(calls) > 0 {
		t.Errorf("the cloud got requests: %v", calls)
	}
}
