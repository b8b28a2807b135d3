package openstack_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestLoadBalancer_InErrorAtItsCreation_IsMadeAnew(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "error-1")
	s.Provision(openstacktest.ProvisioningRule{Times: 1, Fail: true})
	serving(t, s)
	service := served(t, "error")
	s.waitShape(service, s.usual(service, machines...))
	if made := s.since(0, operations("loadbalancer_create")); len(made) != 2 ||
		len(s.LoadBalancers()) != 1 || len(s.FloatingIPs()) != 1 {
		t.Errorf("%d load balancers were made, there are %d with %d floating IPs", len(made),
			len(s.LoadBalancers()), len(s.FloatingIPs()))
	}
	deleteService(t, shared.Client(t), "error")
	s.wantNothingLeft()
}

// Octavia never comes to an end. That is told once, and holds nobody up.
func TestLoadBalancer_PendingForEver_IsToldOnceAndHoldsNobodyUp(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "stuck-1")
	s.Provision(
		openstacktest.ProvisioningRule{LoadBalancer: balancerName("stuck"), Times: 1, Never: true})
	serving(t, s, haste(1), func(l *launch) { l.Config.Service.ConcurrentSyncs = 1 })
	service := createService(t, shared.Client(t), "stuck")
	waitServiceEvent(t, service, corev1.EventTypeNormal, "LoadBalancerWaiting", "PENDING_CREATE")
	for _, name := range []string{"lucky-1", "lucky-2"} {
		lucky := served(t, name)
		s.waitShape(lucky, s.usual(lucky, machines...))
	}
	before := s.mark()
	s.waitCalls(before, 4, operations("loadbalancer_list"), "load balancers are looked at")
	wantToldOnce(t, service)
	lb, err := s.LoadBalancer(balancerName("stuck"))
	s.must(err)
	s.must(s.SetProvisioningStatus(lb.ID, openstacktest.StatusActive))
	service = waitServed(t, shared.Client(t), "stuck")
	s.waitShape(service, s.usual(service, machines...))
	wantNoWarnings(t, service)
	wantToldOnce(t, service)
}

func TestLoadBalancer_BadValues_AreToldOnceByNameAndValue(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	machines := s.addNodes(shared.Client(t), "bad-1")
	serving(t, s, balancing(s, drifting))
	told := func(service *corev1.Service, name, value string) {
		t.Helper()
		e := waitServiceEvent(t, service, corev1.EventTypeWarning, name, value)
		if e.Count > 1 {
			t.Errorf("it was told %d times: %s", e.Count, e.Message)
		}
	}
	t.Run("with a default", func(t *testing.T) {
		s := s.in(t)
		service := served(t, "bad-default", annotated(annotation+"connection-limit", "many"))
		s.waitShape(service, s.usual(service, machines...))
		told(service, annotation+"connection-limit", "many")
		service = annotateService(t, service.Name, annotation+"timeout-client-data", "7000")
		s.waitBalancer(service.Annotations[annotationID], "the next change is done",
			func(lb openstacktest.LoadBalancer) error {
				if got := lb.Listeners[0].TimeoutClientData; got != 7000 {
					return fmt.Errorf("the timeout is %d", got)
				}
				return nil
			})
		service = annotateService(t, service.Name, annotation+"connection-limit", "lots")
		told(service, annotation+"connection-limit", "lots")
		told(service, annotation+"connection-limit", "many")
		wantNoWarnings(t, service, "connection-limit")
	})
	t.Run("refused", func(t *testing.T) {
		const refused = annotation + "floating-network-id"
		s := s.in(t)
		service := createService(t, shared.Client(t), "bad-refused", annotated(refused, "nowhere"))
		told(service, refused, "nowhere")
		annotateService(t, service.Name, "example.org/touched", "yes")
		neighbour := served(t, "bad-neighbour")
		s.waitShape(neighbour, s.usual(neighbour, machines...))
		told(service, refused, "nowhere")
		wantNoWarnings(t, service, refused)
		if _, err := s.LoadBalancer(balancerName(service.Name)); err == nil {
			t.Error("a load balancer was made all the same")
		}
		annotateService(t, service.Name, refused, s.public)
		waitServed(t, shared.Client(t), service.Name)
	})
}

func TestLoadBalancer_WhateverTheCloudAnswersForAWhile_IsServedInTheEnd(t *testing.T) {
	besideOthers(t)
	octavia := openstacktest.ServiceLoadBalancer
	for name, fault := range map[string]openstacktest.Fault{
		"octavia-down":        {Service: octavia, Status: http.StatusServiceUnavailable, Times: 3},
		"octavia-fails":       {Service: octavia, Status: http.StatusInternalServerError, Times: 2},
		"octavia-limits":      {Service: octavia, Status: http.StatusTooManyRequests, RetryAfter: time.Second, Times: 3},
		"octavia-hangs":       {Service: octavia, Hang: true, Times: 2},
		"octavia-drops":       {Service: octavia, Drop: true, Times: 3},
		"create-unanswered":   {Operation: "loadbalancer_create", Drop: true, AfterEffect: true, Times: 1},
		"create-failed-late":  {Operation: "loadbalancer_create", Status: http.StatusGatewayTimeout, AfterEffect: true, Times: 1},
		"floating-unanswered": {Operation: "floating_ip_create", Drop: true, AfterEffect: true, Times: 1},
		"floating-fails":      {Operation: "floating_ip_create", Status: http.StatusConflict, Times: 2},
		"neutron-down":        {Service: openstacktest.ServiceNetwork, Status: http.StatusServiceUnavailable, Times: 3},
		"lists-are-cut":       {Operation: "loadbalancer_list", Truncate: 40, Times: 2},
		"group-unanswered":    {Operation: "security_group_create", Drop: true, AfterEffect: true, Times: 1},
		"group-rule-fails":    {Operation: "security_group_rule_create", Status: http.StatusInternalServerError, Times: 1},
		"port-stale":          {Operation: "port_update", Status: http.StatusPreconditionFailed, Times: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBalancedSite(t)
			machines := s.addNodes(shared.Client(t), name)
			s.Inject(fault)
			r := serving(t, s,
				balancing(s, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true }),
				configured(func(c *cloudconf.Config) {
					c.Client.MaxRetries, c.Metadata.RequestTimeout = 1, 2*time.Second
				}))
			service := served(t, name)
			s.waitShape(service, s.usual(service, machines...))
			s.waitGroup(service, machines...)
			if a, b, c := len(s.LoadBalancers()), len(s.FloatingIPs()),
				len(s.groups()); a != 1 || b != 1 || c != 1 {
				t.Errorf(
					"there are %d load balancers, %d floating IPs and %d security groups, want one of each", a, b, c)
			}
			if faulty := s.since(0, func(c openstacktest.Call) bool {
				return c.Status == fault.Status || fault.Truncate > 0
			}); len(faulty) == 0 {
				t.Error("there was no trouble at all")
			}
			s.RemoveFaults()
			deleteService(t, shared.Client(t), name)
			s.wantNothingLeft()
			r.unbroken()
		})
	}
}

func TestLoadBalancer_DeletionInTrouble_LeavesNothingInTheEnd(t *testing.T) {
	besideOthers(t)
	for name, fault := range map[string]openstacktest.Fault{
		"delete-fails":             {Operation: "loadbalancer_delete", Status: http.StatusInternalServerError, Times: 1},
		"delete-unanswered":        {Operation: "loadbalancer_delete", Drop: true, AfterEffect: true, Times: 1},
		"delete-floating-fails":    {Operation: "floating_ip_delete", Status: http.StatusConflict, Times: 1},
		"delete-group-in-use":      {Operation: "security_group_delete", Status: http.StatusConflict, Times: 1},
		"delete-port-update-fails": {Operation: "port_update", Status: http.StatusServiceUnavailable, Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			s := newBalancedSite(t)
			s.addNodes(shared.Client(t), name)
			serving(t, s,
				balancing(s, func(c *cloudconf.LoadBalancer) { c.ManageSecurityGroups = true }),
				configured(func(c *cloudconf.Config) { c.Client.MaxRetries = 0 }))
			served(t, name)
			s.Inject(fault)
			deleteService(t, shared.Client(t), name)
			s.wantNothingLeft()
		})
	}
}

// Whatever is wrong, no secret is told in an event or a log: newSite and the replicas see to it.
// Here the certificate cannot be read.
func TestLoadBalancer_CertificateThatIsNotThere_IsToldOnce(t *testing.T) {
	besideOthers(t)
	s := newBalancedSite(t)
	s.addNodes(shared.Client(t), "certificate-1")
	serving(t, s, balancing(s, drifting))
	ref := s.AddContainer(openstacktest.Container{Name: "gone"})
	missing := ref[:strings.LastIndex(ref, "/")+1] + "33333333-3333-4333-8333-333333333333"
	service := createService(t, shared.Client(t), "certificate",
		annotated(annotation+"default-tls-container-ref", missing))
	e := waitServiceEvent(t, service, corev1.EventTypeWarning, missing)
	if e.Count > 1 {
		t.Errorf("it was told %d times", e.Count)
	}
	if made := s.since(0, operations("loadbalancer_create")); len(made) > 0 {
		t.Errorf("a load balancer was made:\n%s", describe(made))
	}
	annotateService(t, "certificate", annotation+"default-tls-container-ref", ref)
	service = waitServed(t, shared.Client(t), "certificate")
	if got := s.balancerOf(service).Listeners[0]; got.Protocol != "TERMINATED_HTTPS" ||
		got.DefaultTLSContainerRef != ref {
		t.Errorf("the listener is %s with %s", got.Protocol, got.DefaultTLSContainerRef)
	}
	wantNoWarnings(t, service, missing)
}
