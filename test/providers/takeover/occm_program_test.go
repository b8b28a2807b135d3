//go:build linux

package takeover_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/occmprogram"
	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// A programOfOCCM is OCCM itself, as a process.
type programOfOCCM struct {
	*replica.Process
	began time.Time
	// mark is the length of the simulator's record before the start.
	mark int
}

// startProgram starts OCCM.
func (o *occm) startProgram() *programOfOCCM {
	o.t.Helper()
	began, mark := time.Now(), len(o.calls())
	return &programOfOCCM{
		Process: occmprogram.Start(o.t, o.cluster, replica.QuickLease(), o.writeConf(""),
			"--cluster-name="+o.clusterName, "--cluster-cidr="+clusterCIDR.String(),
			"--route-reconciliation-period=1s"),
		began: began, mark: mark,
	}
}

// endProgram ends OCCM, which does not release its lease.
func (o *occm) endProgram(p *programOfOCCM) {
	o.t.Helper()
	if err := p.End(ccmtest.WaitLimit); err != nil {
		o.t.Error(err)
	}
}

// waitDone waits until OCCM has reconciled all Services and has listed the routes again after that.
func (o *occm) waitDone(p *programOfOCCM) {
	o.t.Helper()
	o.Wait("OCCM has reconciled everything", func() error {
		if err := p.Trouble(); err != nil {
			o.t.Fatal(err)
		}
		text, err := os.ReadFile(p.Log)
		if err != nil {
			return err
		}
		lines, last := strings.Split(string(text), "\n"), 0
		for _, service := range o.services() {
			i := occmprogram.Ensured(lines, service.Namespace, service.Name)
			if i < 0 || len(service.Status.LoadBalancer.Ingress) == 0 {
				return fmt.Errorf("Service %s is not reconciled; the end of the log:\n%s",
					service.Name, p.Tail(5))
			}
			last = max(last, i)
		}
		passes := 0
		for _, line := range lines[last:] {
			if strings.Contains(line, "ListRoutes(") {
				passes++
			}
		}
		if passes < 3 {
			return fmt.Errorf("after that the routes have been listed %d times", passes)
		}
		return nil
	})
}

// calls are the requests that have reached the simulator; none on a real OpenStack.
func (o *occm) calls() []openstacktest.Call {
	if o.Real() {
		return nil
	}
	return o.Simulator.Calls()
}

// writes returns OCCM's requests that may have changed something in OpenStack or in the cluster.
func (o *occm) writes(p *programOfOCCM) (lines []string) {
	o.t.Helper()
	for _, c := range o.calls()[p.mark:] {
		if c.Method != http.MethodGet && c.Service != openstacktest.ServiceIdentity &&
			strings.Contains(c.UserAgent, occmName) {
			lines = append(lines, fmt.Sprintf("%s %s %s -> %d", c.Method, c.Path, c.Body, c.Status))
		}
	}
	records, err := o.cluster.Audit().All(controlplane.ReceivedAfter(p.began),
		controlplane.ByUser(controlplane.ServiceAccountUser(metav1.NamespaceSystem, occmName)))
	if err != nil {
		o.t.Fatal(err)
	}
	if len(records) == 0 {
		o.t.Error("the audit log does not know OCCM")
	}
	for _, r := range records {
		if r.Decision == "forbid" {
			o.t.Errorf("the API server has refused %s", r)
		}
		if r.Mutating() && r.Resource != "leases" && r.Resource != "events" {
			lines = append(lines, r.String())
		}
	}
	return lines
}

// OCCM's own program makes what fxccm takes over, and takes back what fxccm has made and changed.
func TestTakeover_FromTheProgramOfOCCM_AndBack(t *testing.T) {
	t.Parallel()
	o := newOCCM(t, "prod_eu-1")
	o.manageSecurityGroups, o.subnetID = true, o.Subnets[4]
	edge := o.AddSubnet(o.AddNetwork("edge"), "10.1.0.0/24")
	o.Connect(o.Router, edge)
	o.classes = map[string]string{"edge": edge}
	occmprogram.Grant(t, o.cluster)
	for i, s := range o.AddServers([]string{"node-1", "node-2"}) {
		ccmtest.CreateNode(t, o.cluster.Admin, ccmtest.TaintedNode(s.Name,
			ccmtest.NodePodCIDRs(fmt.Sprintf("10.244.%d.0/24", i+1)),
			ccmtest.NodeLabel("pool", []string{"a", "b"}[i])))
	}
	reserved := o.User().Create(project.Network, "/floatingips", "floatingip",
		project.Object{"floating_network_id": o.Public, "description": "ours"})
	step := func(name string, check func(o *occm)) {
		t.Helper()
		if !t.Run(name, func(t *testing.T) { check(o.in(t)) }) {
			t.FailNow()
		}
	}

	program := o.startProgram()
	o.Wait("OCCM has initialized the nodes", func() error {
		for _, node := range o.nodes() {
			if node.Spec.ProviderID == "" || len(node.Spec.Taints) > 0 {
				return errors.Join(program.Trouble(), fmt.Errorf("%s: %+v", node.Name, node.Spec))
			}
		}
		return nil
	})
	wanted := features(project.Text(reserved, "floating_ip_address"))
	guest := slices.IndexFunc(wanted, func(f feature) bool { return f.name == "guest" })
	for i, f := range wanted {
		if i != guest {
			o.create(f.name, f.options...)
		}
	}
	o.Wait("the owner has a load balancer", func() error {
		if o.service("owner").Annotations[annotationID] == "" {
			return errors.Join(program.Trouble(), errors.New("not yet"))
		}
		return nil
	})
	o.create("guest", append(wanted[guest].options, ccmtest.ServiceAnnotation(annotationID,
		o.service("owner").Annotations[annotationID]))...)
	o.waitDone(program)
	o.endProgram(program)
	before, services := o.inventory(), o.services()
	told := spoken(services, o.nodes())

	step("what the tests believe of OCCM is so", func(o *occm) {
		o.wantDeeds(before)
		o.wantRequests(program)
		if len(o.writes(program)) == 0 {
			o.t.Error("the record of OCCM's requests lacks those that create something")
		}
	})
	var stop func()
	step("nothing but tags is changed", func(o *occm) {
		stop = o.in(t).run()
		o.waitTagged()
		o.waitCompared(0)
		o.waitLooked(o.Wire.Mark())
		o.wantOnlyTags(before)
	})
	step("Services and nodes are told nothing new", func(o *occm) {
		for i, now := range spoken(o.services(), o.nodes()) {
			now = strings.ReplaceAll(now, `"fxccm.dev/served-load-balancer-class":"",`, "")
			if now != told[i] {
				o.t.Errorf("it was\n%s\nand is\n%s", told[i], now)
			}
		}
		for _, service := range services {
			o.wantNoWarnings(service)
		}
	})
	// back has OCCM run again, which changes nothing. It keeps running.
	back := func(o *occm) {
		o.t.Helper()
		stop()
		then := o.inventory()
		program = o.in(t).startProgram()
		o.waitDone(program)
		// A changed monitor is a difference below, except for the name of a guest's.
		writes := slices.DeleteFunc(o.writes(program), func(line string) bool {
			return strings.HasPrefix(line, "PUT ") && strings.Contains(line, "/healthmonitors/")
		})
		if len(writes) > 0 {
			o.t.Errorf("OCCM has changed it by\n%s", strings.Join(writes, "\n"))
		}
		if lines := then.Differences(o.inventory()); len(lines) > 0 {
			o.t.Errorf("it is another:\n%s", strings.Join(lines, "\n"))
		}
	}
	step("OCCM comes back and changes nothing", back)
	step("fxccm changes it and makes more", func(o *occm) {
		o.endProgram(program)
		all := o.in(t)
		stop = all.run()
		o.edit("web", func(s *corev1.Service) {
			s.Spec.Ports = append(s.Spec.Ports, corev1.ServicePort{
				Name: "more", Protocol: corev1.ProtocolTCP, Port: 8080,
				TargetPort: intstr.FromInt32(8080),
			})
		})
		o.edit("sticky", func(s *corev1.Service) {
			s.Spec.LoadBalancerSourceRanges = []string{"198.51.100.0/24"}
		})
		o.edit("local", ccmtest.ServiceAnnotation(prefix+"health-monitor-delay", "20"))
		s := all.AddServer("node-3")
		ccmtest.CreateNode(t, o.cluster.Admin, ccmtest.TaintedNode(s.Name,
			ccmtest.NodePodCIDRs("10.244.3.0/24"), ccmtest.NodeLabel("pool", "a")))
		all.create("own", ccmtest.ServicePorts(80, 443), monitored)
		all.create("own-internal", internal, monitored, local)
		all.create("own-affine", ccmtest.ServicePorts(5000), affine,
			ccmtest.ServiceAnnotation(prefix+"proxy-protocol", "v2"))
		o.waitServed()
		all.create("own-guest", ccmtest.ServicePorts(9000), monitored,
			ccmtest.ServiceAnnotation(annotationID, o.service("own").Annotations[annotationID]))
		o.waitServed()
		o.waitLikeOCCM()
	})
	step("OCCM comes back to that and changes nothing", back)
	step("OCCM deletes what both have made", func(o *occm) {
		kept := o.service("kept").Annotations[annotationAddress]
		for _, service := range o.services() {
			if err := o.cluster.Admin.CoreV1().Services(service.Namespace).Delete(o.t.Context(),
				service.Name, metav1.DeleteOptions{}); err != nil {
				o.t.Fatal(err)
			}
		}
		o.Wait("all Services are gone", func() error {
			if left := o.services(); len(left) > 0 {
				return errors.Join(program.Trouble(),
					fmt.Errorf("%d are left, %s is the first", len(left), left[0].Name))
			}
			return nil
		})
		now := o.inventory()
		for key, object := range now {
			address := project.Text(object, "floating_ip_address")
			made := address != "" && address != kept && project.ID(object) != project.ID(reserved)
			for _, kind := range []string{
				"load balancer", "listener", "pool", "member", "health monitor",
			} {
				made = made || strings.HasPrefix(key, kind+" ")
			}
			if made || strings.HasPrefix(project.Text(object, "name"), "lb-sg-") {
				o.t.Errorf("there is still %s: %v", key, object)
			}
		}
		if !slices.ContainsFunc(now.Of("floating IP"), func(f project.Object) bool {
			return project.Text(f, "floating_ip_address") == kept
		}) {
			o.t.Errorf("floating IP %s is not kept", kept)
		}
		o.endProgram(program)
	})
}

// wantRequests fails the test if OCCM has created a load balancer by another request than the tests
// that imitate it. Nothing records the requests to a real OpenStack.
func (o *occm) wantRequests(p *programOfOCCM) {
	o.t.Helper()
	if o.Real() {
		return
	}
	made := map[string]project.Object{}
	for _, c := range o.calls()[p.mark:] {
		if c.Operation != "loadbalancer_create" {
			continue
		}
		var body struct{ LoadBalancer project.Object }
		if err := json.Unmarshal([]byte(c.Body), &body); err != nil {
			o.t.Fatal(err)
		}
		made[project.Text(body.LoadBalancer, "name")] = body.LoadBalancer
	}
	for _, service := range o.services() {
		w := o.of(service)
		if service.Name == "guest" {
			continue
		}
		want, is := ordered(o, o.loadBalancer(w, o.nodes())), ordered(o, made[w.name])
		if want != is {
			o.t.Errorf("Service %s: OCCM has sent\n%s\nwant\n%s", service.Name, is, want)
		}
	}
}

// ordered is the JSON of a load balancer. Members and ranges, which have no order, are sorted.
func ordered(o *occm, loadBalancer project.Object) string {
	o.t.Helper()
	text, err := json.Marshal(loadBalancer)
	if err != nil {
		o.t.Fatal(err)
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		o.t.Fatal(err)
	}
	sortLists(value)
	if text, err = json.MarshalIndent(value, "", " "); err != nil {
		o.t.Fatal(err)
	}
	return string(text)
}

func sortLists(value any) {
	switch v := value.(type) {
	case map[string]any:
		for name, inner := range v {
			sortLists(inner)
			if list, is := inner.([]any); is && slices.Contains(unordered, name) {
				slices.SortFunc(list,
					func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			}
		}
	case []any:
		for _, inner := range v {
			sortLists(inner)
		}
	}
}
