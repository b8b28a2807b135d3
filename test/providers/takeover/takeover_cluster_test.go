package takeover_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// clusterCIDR is the range of pod addresses.
var clusterCIDR = netip.MustParsePrefix("10.244.0.0/16")

// newOCCM is a project of OCCM's, without anything in it but the network of the nodes.
func newOCCM(t *testing.T, clusterName string) *occm {
	t.Helper()
	cluster := shared.Take(t)
	p := project.New(t, project.OnSimulator(openstacktest.WithProvisioning(50*time.Millisecond)))
	return &occm{
		Project: p, t: t, cluster: cluster,
		settings: settings{
			clusterName: clusterName, nodeSubnetID: p.Subnets[4], nodeSubnetCIDR: "10.0.0.0/16",
			floatingNetworkID: p.Public,
		},
	}
}

// cloudConf is OCCM's. [BlockStorage] has been nothing to it since v1.24, but its Helm chart still
// writes it.
func (o *occm) cloudConf(more string) string {
	c := o.Config().Global
	conf := fmt.Sprintf(
		"[Global]\nauth-url = %s\nusername = %s\npassword = %q\ntenant-name = %s\ndomain-name = %s\nregion = %s\n",
		c.AuthURL, c.Username, string(c.Password), c.TenantName, c.DomainName, c.Region)
	conf += "[LoadBalancer]\nfloating-network-id = " + o.floatingNetworkID + "\n"
	if o.subnetID != "" {
		conf += "subnet-id = " + o.subnetID + "\n"
	}
	if o.manageSecurityGroups {
		conf += "manage-security-groups = true\n"
	}
	for name, subnet := range o.classes {
		conf += fmt.Sprintf("[LoadBalancerClass %q]\nsubnet-id = %s\n", name, subnet)
	}
	return conf + "[Route]\nrouter-id = " + o.Router + "\n" + more
}

func (o *occm) writeConf(more string) (path string) {
	o.t.Helper()
	path = filepath.Join(o.t.TempDir(), "cloud.conf")
	if err := os.WriteFile(path, []byte(o.cloudConf(more)), 0o600); err != nil {
		o.t.Fatal(err)
	}
	return path
}

// hasty is what fxccm is given beside OCCM's cloud.conf, so that what it does every few minutes is
// done every few seconds.
const hasty = "[LoadBalancer]\ndrift-period = 1s\n[Client]\nrequest-rate = 1000\nrequest-burst = 1000\n[Instances]\nmetadata-max-age = 1s\n"

// run runs fxccm with OCCM's cloud.conf until stop is called, or the test ends.
func (o *occm) run() (stop func()) {
	o.t.Helper()
	log := logr.Discard()
	cfg := ccmtest.Config()
	cfg.ClusterName, cfg.ClusterCIDR = o.clusterName, clusterCIDR.String()
	cfg.CloudProvider.ConfigFile = o.writeConf(hasty)
	cfg.Node.StatusUpdateFrequency = metav1.Duration{Duration: time.Second}
	elector := ccmtest.NewManualElector()
	elector.Lead()
	m, err := ccm.New(ccm.Params{
		Config: cfg, RESTConfig: o.cluster.Identity, Elector: elector, Logger: &log,
		Providers: []ccm.Provider{o.Provider()},
	})
	if err != nil {
		o.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() { result <- m.Run(ctx) }()
	var stopped bool
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		select {
		case err := <-result:
			if err != nil {
				o.t.Errorf("the Manager did not stop in order: %v", err)
			}
		case <-time.After(ccmtest.WaitLimit):
			o.t.Errorf("Run has not returned; status: %+v", m.Status())
		}
	}
	o.t.Cleanup(stop)
	ccmtest.Eventually(o.t, "the Manager is ready", ccmtest.Ready(m))
	return stop
}

// services are those of the cluster of type LoadBalancer.
func (o *occm) services() []*corev1.Service {
	o.t.Helper()
	list, err := o.cluster.Admin.CoreV1().Services(metav1.NamespaceAll).List(o.t.Context(),
		metav1.ListOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	var found []*corev1.Service
	for _, s := range list.Items {
		if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
			found = append(found, &s)
		}
	}
	return found
}

func (o *occm) nodes() []*corev1.Node {
	o.t.Helper()
	list, err := o.cluster.Admin.CoreV1().Nodes().List(o.t.Context(), metav1.ListOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	var found []*corev1.Node
	for i := range list.Items {
		found = append(found, &list.Items[i])
	}
	return found
}

// edit changes a Service as its owner.
func (o *occm) edit(name string, change func(*corev1.Service)) {
	o.t.Helper()
	services := o.cluster.Admin.CoreV1().Services(metav1.NamespaceDefault)
	o.Wait("Service "+name+" is changed", func() error {
		service, err := services.Get(o.t.Context(), name, metav1.GetOptions{})
		if err == nil {
			change(service)
			_, err = services.Update(o.t.Context(), service, metav1.UpdateOptions{})
		}
		return err
	})
}

// clusterUID is what tells this cluster from others of its name.
func (o *occm) clusterUID() string {
	o.t.Helper()
	namespace, err := o.cluster.Admin.CoreV1().Namespaces().Get(o.t.Context(),
		metav1.NamespaceSystem, metav1.GetOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	return string(namespace.UID)
}

// untagged are load balancers, listeners, floating IPs and security groups that were made for the
// Services, and by whose tags fxccm would not know them.
func (o *occm) untagged(cloud project.Inventory, services []*corev1.Service) (missing []string) {
	cluster := "fxccm-cluster=" + o.clusterUID()
	check := func(kind string, service *corev1.Service, is func(project.Object) bool) {
		for _, object := range cloud.Of(kind) {
			tags := texts(object["tags"])
			if is(object) &&
				(!slices.Contains(tags, cluster) ||
					!slices.Contains(tags, "fxccm-service="+string(service.UID))) {
				missing = append(missing,
					fmt.Sprintf("%s %s %q of Service %s has the tags %q", kind, project.ID(object),
						project.Text(object, "name"), service.Name, tags))
			}
		}
	}
	for _, service := range services {
		name := o.of(service).name
		tagged := func(object project.Object) bool {
			return slices.Contains(texts(object["tags"]), name)
		}
		check("load balancer", service, tagged)
		check("listener", service, tagged)
		check("floating IP", service, func(f project.Object) bool {
			return project.Text(f, "description") == o.floatingDescription(service)
		})
		check("security group", service, func(g project.Object) bool {
			return project.Text(g, "name") == groupName(service)
		})
	}
	return missing
}

// waitTagged waits until fxccm has made known as the Services' all that is theirs.
func (o *occm) waitTagged() {
	o.t.Helper()
	o.Wait("all bears fxccm's tags", func() error {
		if missing := o.untagged(o.inventory(), o.services()); len(missing) > 0 {
			return errors.New(strings.Join(missing, "\n"))
		}
		return nil
	})
}

// unordered are attributes whose lists have no order.
var unordered = []string{
	"allowed_cidrs", "listeners", "pools", "members", "security_groups",
	"allowed_address_pairs", "routes", "security_group_rules",
}

// inventory is all that the project has; lists that have no order are sorted. OCCM names the
// monitor of a guest after the Service when it serves the Service, and after the load balancer when
// the nodes change (ensureOctaviaHealthMonitor, its two callers). Both are the same here.
func (o *occm) inventory() project.Inventory {
	o.t.Helper()
	all := o.Inventory()
	for _, pool := range all.Of("pool") {
		monitor := all["health monitor "+project.Text(pool, "healthmonitor_id")]
		lb := all["load balancer "+strings.Join(references(pool["loadbalancers"]), "")]
		of, _ := strings.CutPrefix(project.Text(pool, "name"), "pool_")
		index, _, _ := strings.Cut(of, "_")
		if monitor["name"] == "monitor_"+index+"_"+project.Text(lb, "name") {
			monitor["name"] = "monitor_" + of
		}
	}
	for _, object := range all {
		for _, name := range unordered {
			if list, is := object[name].([]any); is {
				slices.SortFunc(list,
					func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	}
	return all
}

// waitLooked waits until fxccm has looked for changes some times after the moment.
func (o *occm) waitLooked(mark int) {
	o.t.Helper()
	o.Wait("it has looked for changes", func() error {
		lists := o.Wire.Since(mark, func(c project.Call) bool {
			return strings.HasSuffix(c.Path, "/lbaas/loadbalancers")
		})
		if len(lists) < 4 {
			return fmt.Errorf("load balancers have been listed %d times", len(lists))
		}
		return nil
	})
}

// waitCompared waits until fxccm has read, after the moment, all members of all pools, which it
// does when it compares to the last field.
func (o *occm) waitCompared(mark int) {
	o.t.Helper()
	pools := o.inventory().Of("pool")
	o.Wait("all is compared to the last field", func() error {
		calls := o.Wire.Since(mark, nil)
		for _, pool := range pools {
			if !slices.ContainsFunc(calls, func(c project.Call) bool {
				return strings.HasSuffix(c.Path, "/pools/"+project.ID(pool)+"/members")
			}) {
				return fmt.Errorf("the members of pool %q have not been read",
					project.Text(pool, "name"))
			}
		}
		return nil
	})
}

// beyondTags are calls that may have changed something else than tags. A call that sends the value
// from before is no change: Octavia takes of a listener's attributes those that are sent.
func beyondTags(before project.Inventory, calls []project.Call) []project.Call {
	return slices.DeleteFunc(slices.Clone(calls), func(c project.Call) bool {
		switch {
		case c.Method != http.MethodPut:
			return false
		case strings.HasSuffix(c.Route, "/floatingips/{id}/tags"),
			strings.HasSuffix(c.Route, "/security-groups/{id}/tags"):
			return true
		case strings.HasSuffix(c.Route, "/lbaas/loadbalancers/{id}"):
			return onlyTags(c, "loadbalancer", before["load balancer "+filepath.Base(c.Path)])
		case strings.HasSuffix(c.Route, "/lbaas/listeners/{id}"):
			return onlyTags(c, "listener", before["listener "+filepath.Base(c.Path)])
		}
		return false
	})
}

func onlyTags(c project.Call, key string, before project.Object) bool {
	var body map[string]project.Object
	if json.Unmarshal([]byte(c.RequestBody), &body) != nil || len(body[key]) == 0 {
		return false
	}
	for name, value := range body[key] {
		if name != "tags" && !equal(value, before[name]) {
			return false
		}
	}
	return true
}

// equal compares texts in lists in any order: Octavia keeps none.
func equal(a, b any) bool {
	if _, is := a.([]any); is {
		return slices.Equal(slices.Sorted(slices.Values(texts(a))),
			slices.Sorted(slices.Values(texts(b))))
	}
	return reflect.DeepEqual(a, b)
}

func describe(calls []project.Call) string {
	var lines []string
	for _, c := range calls {
		lines = append(lines,
			fmt.Sprintf("%s %s %s %s -> %d", c.Time.Format("15:04:05.000"), c.Method, c.Path,
				c.RequestBody, c.Status))
	}
	return strings.Join(lines, "\n")
}

// spoken are the parts of Services and nodes that a CCM writes, as lines, sorted.
func spoken(services []*corev1.Service, nodes []*corev1.Node) (lines []string) {
	show := func(parts ...any) {
		text, err := json.Marshal(parts)
		if err != nil {
			text = []byte(err.Error())
		}
		lines = append(lines, string(text))
	}
	for _, s := range services {
		show("Service "+s.Name, s.Annotations, s.Finalizers, s.Status)
	}
	for _, n := range nodes {
		show("Node "+n.Name, n.Labels, n.Spec, n.Status.Addresses)
	}
	slices.Sort(lines)
	return lines
}

func (o *occm) service(name string) *corev1.Service {
	o.t.Helper()
	service, err := o.cluster.Admin.CoreV1().Services(metav1.NamespaceDefault).Get(o.t.Context(),
		name, metav1.GetOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	return service
}

// namespace makes one.
func (o *occm) namespace(name string) string {
	o.t.Helper()
	_, err := o.cluster.Admin.CoreV1().Namespaces().Create(o.t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if err != nil {
		o.t.Fatal(err)
	}
	return name
}

func (o *occm) kubeconfig(cfg *rest.Config) (path string) {
	o.t.Helper()
	path = filepath.Join(o.t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(path, cfg); err != nil {
		o.t.Fatal(err)
	}
	return path
}
