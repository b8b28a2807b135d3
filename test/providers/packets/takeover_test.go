//go:build linux

package packets_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/occmprogram"
	"github.com/fxccm/fxccm/test/internal/project"
	"github.com/fxccm/fxccm/test/internal/replica"
)

// annotation is the prefix of fxccm's and OCCM's annotations.
const annotation = "loadbalancer.openstack.org/"

// The load balancer and its Service are as openstack-cloud-controller-manager leaves them, after
// its source, v1.36. Its own Manager is not there.
func TestTakeover_OfOCCMsLoadBalancer_NoRequestFails(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.admitNodePorts()
		service, id, target := c.leaveAsOCCM("web")
		c.waitProvider(len(c.nodes))
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")

		finish := client.load(t, target)
		time.Sleep(3 * time.Second)
		c.takeOver(service, id)
		c.takeOver(service, id)
		time.Sleep(3 * time.Second)
		report := finish()
		c.wantAllAnswered("the takeover", report, 200)
		if all := c.User().List(project.LoadBalancer, "/lbaas/loadbalancers",
			"loadbalancers"); len(all) != 1 || project.ID(all[0]) != id {
			t.Errorf("load balancers: %v, want only %s", all, id)
		}
		c.note("fxccm took over a load balancer with the names and tags of OCCM, stopped, and another "+
			"fxccm took over: of %d requests, 20 a second, none failed", report.Sent)
	})
}

// OCCM's own program makes the load balancer, and serves it again after fxccm.
func TestTakeover_FromTheProgramOfOCCMAndBack_NoRequestFails(t *testing.T) {
	onEach(t, func(t *testing.T, c *cluster) {
		client := c.addClients("client")[0]
		c.admitNodePorts()
		occmprogram.Grant(t, c.plane)
		conf := c.writeOCCMConf()
		begin := func() *replica.Process {
			t.Helper()
			return occmprogram.Start(t, c.plane, patientLease(), conf, "--cluster-name=kubernetes",
				"--configure-cloud-routes=false")
		}
		waitEnsured := func(p *replica.Process) {
			t.Helper()
			c.Wait("OCCM has ensured the load balancer", func() error {
				text, err := os.ReadFile(p.Log)
				if err == nil && occmprogram.Ensured(strings.Split(string(text), "\n"),
					metav1.NamespaceDefault, "web") < 0 {
					err = errors.New("not yet")
				}
				return errors.Join(err, p.Trouble())
			})
			c.tell("OCCM has ensured the load balancer")
		}
		end := func(p *replica.Process) {
			t.Helper()
			if err := p.End(endLimit); err != nil {
				t.Error(err)
			}
		}

		program := begin()
		c.join(slices.Collect(maps.Keys(c.nodes)))
		service, target := c.expose("web", ccmtest.ServiceAnnotation(
			"service.beta.kubernetes.io/openstack-internal-load-balancer", "true"))
		waitEnsured(program)
		c.waitProvider(len(c.nodes))
		c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")
		id := project.ID(c.Inventory().Of("load balancer")[0])

		finish := client.load(t, target)
		time.Sleep(3 * time.Second)
		for range 2 {
			end(program)
			c.takeOver(service, id)
			program = begin()
			waitEnsured(program)
			time.Sleep(5 * time.Second)
		}
		end(program)
		c.takeOver(service, id)
		report := finish()
		c.wantAllAnswered("the changes between OCCM and fxccm", report, 400)
		if all := c.Inventory().Of("load balancer"); len(all) != 1 || project.ID(all[0]) != id {
			t.Errorf("load balancers: %v, want only %s", all, id)
		}
		c.note("OCCM's own program served a load balancer, and fxccm and OCCM took it over from each "+
			"other five times: of %d requests, 20 a second, none failed", report.Sent)
	})
}

// takeOver runs fxccm until it serves the load balancer of the Service.
func (c *cluster) takeOver(service *corev1.Service, id string) {
	c.t.Helper()
	mark := c.Wire.Mark()
	manager := c.start(func(cfg *cloudconf.Config) {
		cfg.LoadBalancer.ManageSecurityGroups, cfg.LoadBalancer.InternalLB = false, true
	})
	c.Wait("fxccm serves the load balancer", func() error {
		lb := c.User().Get(project.LoadBalancer, "/lbaas/loadbalancers/"+id, "loadbalancer")
		tags, _ := lb["tags"].([]any)
		if !slices.Contains(tags, any("fxccm-service="+string(service.UID))) {
			return errors.New("the load balancer has no tag of fxccm's")
		}
		if len(c.Wire.Since(mark, nil)) < 5 {
			return errors.New("the Manager has hardly looked")
		}
		return nil
	})
	c.tell("fxccm serves the load balancer")
	time.Sleep(5 * time.Second)
	manager.Stop()
	c.tell("fxccm is stopped")
}

// admitNodePorts lets everyone reach the node ports, as most operators do who let OCCM alone with
// its load balancers, and returns the ID of the rule.
func (c *cluster) admitNodePorts() (rule string) {
	c.t.Helper()
	return project.ID(c.User().Create(project.Network, "/security-group-rules",
		"security_group_rule", project.Object{
			"security_group_id": c.group, "direction": "ingress", "ethertype": "IPv4",
			"protocol": "tcp", "port_range_min": 30000, "port_range_max": 32767,
		}))
}

// writeOCCMConf writes a cloud.conf that OCCM reads.
func (c *cluster) writeOCCMConf() (path string) {
	c.t.Helper()
	g := c.Config().Global
	path = filepath.Join(c.t.TempDir(), "cloud.conf")
	text := fmt.Sprintf("[Global]\nauth-url = %s\nusername = %s\npassword = %q\n"+
		"tenant-name = %s\ndomain-name = %s\nregion = %s\n[LoadBalancer]\nsubnet-id = %s\n"+
		"lb-provider = %s\nlb-method = %s\n", g.AuthURL, g.Username, string(g.Password),
		g.TenantName, g.DomainName, g.Region, c.Subnets[4], c.balancer.provider, c.balancer.method)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// wantAllAnswered checks the report of a load: it has at least so many requests, and two nodes
// answered all of them.
func (c *cluster) wantAllAnswered(during string, report Report, atLeast int) {
	c.t.Helper()
	c.tell("of %d requests at 20 a second %d failed; answered by %v", report.Sent, report.Failed,
		report.By)
	if report.Failed > 0 || report.Sent < atLeast || len(report.By) != 2 {
		c.t.Errorf("requests during %s: %+v, want at least %d, all answered, by two nodes", during,
			report, atLeast)
	}
}

// leaveAsOCCM leaves the nodes, a Service and its load balancer.
func (c *cluster) leaveAsOCCM(name string) (service *corev1.Service, id, target string) {
	c.t.Helper()
	var members []project.Object
	service = ccmtest.LoadBalancerService(name, ccmtest.ServiceAnnotation(
		"service.beta.kubernetes.io/openstack-internal-load-balancer", "true"))
	service.Finalizers = append(service.Finalizers, servicehelpers.LoadBalancerCleanupFinalizer)
	service = ccmtest.CreateService(c.t, c.kube, service)
	port := service.Spec.Ports[0].NodePort
	for name, m := range c.nodes {
		node := ccmtest.ReadyNode(name, ccmtest.NodeProviderID(c.servers[name].ProviderID()))
		node.Status.Addresses = []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: m.address},
			{Type: corev1.NodeHostName, Address: name},
		}
		ccmtest.CreateNode(c.t, c.kube, node)
		m.listen(c.t, port)
		members = append(members, project.Object{
			"name": name, "address": m.address, "protocol_port": port, "subnet_id": c.Subnets[4],
		})
	}
	lbName := "kube_service_kubernetes_default_" + name
	lb := c.User().Create(project.LoadBalancer, "/lbaas/loadbalancers", "loadbalancer",
		project.Object{
			"name": lbName, "provider": c.balancer.provider, "vip_subnet_id": c.Subnets[4],
			"description": "Kubernetes external service default/" + name +
				" from cluster kubernetes",
			"tags": []string{lbName},
			"listeners": []project.Object{{
				"name": "listener_0_" + lbName, "protocol": "TCP", "protocol_port": 80,
				"connection_limit": -1, "tags": []string{lbName},
				"default_pool": project.Object{
					"name": "pool_0_" + lbName, "protocol": "TCP",
					"lb_algorithm": c.balancer.method, "members": members,
				},
			}},
		})
	id, address := project.ID(lb), project.Text(lb, "vip_address")
	services := c.kube.CoreV1().Services(metav1.NamespaceDefault)
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, annotation+"load-balancer-id", id)
	metav1.SetMetaDataAnnotation(&service.ObjectMeta, annotation+"load-balancer-address", address)
	service, err := services.Update(c.t.Context(), service, metav1.UpdateOptions{})
	if err == nil {
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: address}}
		service, err = services.UpdateStatus(c.t.Context(), service, metav1.UpdateOptions{})
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return service, id, address + ":80"
}
