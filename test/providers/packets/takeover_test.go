//go:build linux

package packets_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	servicehelpers "k8s.io/cloud-provider/service/helpers"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/test/internal/project"
)

// annotation is the prefix of fxccm's and OCCM's annotations.
const annotation = "loadbalancer.openstack.org/"

// The load balancer and its Service are as openstack-cloud-controller-manager leaves them, after
// its source, v1.36. Its own Manager is not there.
func TestTakeover_OfOCCMsLoadBalancer_NoRequestFails(t *testing.T) {
	t.Parallel()
	c := newCluster(t, "node-1", "node-2")
	client := c.addClients("client")[0]
	// The operator admits the node ports, as most do who let OCCM alone with its load balancers.
	c.User().Create(project.Network, "/security-group-rules", "security_group_rule", project.Object{
		"security_group_id": c.group, "direction": "ingress", "ethertype": "IPv4",
		"protocol": "tcp", "port_range_min": 30000, "port_range_max": 32767,
	})
	service, id, target := c.leaveAsOCCM("web")
	c.waitProvider(len(c.nodes))
	c.waitAnswers("the nodes answer", client, target, "node-1", "node-2")

	finish := client.load(t, target)
	time.Sleep(3 * time.Second)
	mode := func(cfg *cloudconf.Config) {
		cfg.LoadBalancer.ManageSecurityGroups, cfg.LoadBalancer.InternalLB = false, true
	}
	for _, what := range []string{"fxccm has taken over", "the next fxccm leads"} {
		mark := c.Wire.Mark()
		manager := c.start(mode)
		c.Wait(what, func() error {
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
		c.tell("%s", what)
		time.Sleep(5 * time.Second)
		manager.Stop()
		c.tell("it is stopped")
	}
	time.Sleep(3 * time.Second)
	report := finish()
	c.wantAllAnswered("the takeover", report, 200)
	if all := c.User().List(project.LoadBalancer, "/lbaas/loadbalancers",
		"loadbalancers"); len(all) != 1 || project.ID(all[0]) != id {
		t.Errorf("load balancers: %v, want only %s", all, id)
	}
	c.note("fxccm took over a load balancer with the names and tags of OCCM, stopped, and another "+
		"fxccm took over: of %d requests, 20 a second, none failed", report.Sent)
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
			"name": lbName, "provider": "ovn", "vip_subnet_id": c.Subnets[4],
			"description": "Kubernetes external service default/" + name +
				" from cluster kubernetes",
			"tags": []string{lbName},
			"listeners": []project.Object{{
				"name": "listener_0_" + lbName, "protocol": "TCP", "protocol_port": 80,
				"connection_limit": -1, "tags": []string{lbName},
				"default_pool": project.Object{
					"name": "pool_0_" + lbName, "protocol": "TCP", "lb_algorithm": "SOURCE_IP_PORT",
					"members": members,
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
