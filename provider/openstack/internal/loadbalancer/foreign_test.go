package loadbalancer

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// wantRefused reconciles the Service as it is given, until an event has the reason.
func (c *cluster) wantRefused(reason events.Reason, service *v1.Service, nodes ...*v1.Node) {
	c.site.t.Helper()
	c.site.update(service)
	before := len(c.site.said("Warning " + string(reason)))
	var err error
	for range 50 {
		_, err = c.EnsureLoadBalancer(c.site.t.Context(), "kubernetes", c.site.now(service), nodes)
		if len(c.site.said("Warning "+string(reason))) > before {
			return
		}
	}
	c.site.t.Errorf("service %s is not refused with %s; the last error is %v", service.Name, reason,
		err)
}

// serverPort adds a server with a port and, at the port, a floating IP.
func (s *site) serverPort() (port string, ip openstacktest.FloatingIP) {
	s.t.Helper()
	server := s.AddServer(openstacktest.Server{Name: "another's"})
	port = s.AddPort(openstacktest.Port{
		NetworkID: s.network, DeviceID: server, DeviceOwner: openstacktest.OwnerCompute,
		FixedIPs: []openstacktest.FixedIP{{SubnetID: s.subnet, Address: "10.0.9.9"}},
	})
	s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external, PortID: port})
	return port, s.FloatingIPs()[0]
}

func TestEnsure_PortOfAnother_IsRefusedAndNothingIsChanged(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	ofServer, _ := s.serverPort()
	c.ensure(s.addService("other", 80), node)
	ofRouter := s.AddPort(openstacktest.Port{
		NetworkID: s.network, DeviceOwner: "network:router_interface",
		FixedIPs: []openstacktest.FixedIP{{SubnetID: s.subnet, Address: "10.0.9.10"}},
	})
	named := s.AddPort(openstacktest.Port{
		NetworkID: s.network,
		FixedIPs:  []openstacktest.FixedIP{{SubnetID: s.subnet, Address: "10.0.9.11"}},
	})
	user := s.addService("user", 80)
	user.Annotations[settings.Prefix+"port-id"] = named
	s.update(user)
	c.ensure(user, node)
	before := s.FloatingIPs()
	for name, port := range map[string]string{
		"server": ofServer, "router": ofRouter, "load balancer": s.LoadBalancers()[0].VIPPortID,
		"user's load balancer": named,
		"none":                 "99999999-9999-4999-8999-999999999999",
	} {
		for _, internal := range []string{"true", "false"} {
			service := s.addService(strings.ReplaceAll(name[:4], " ", "")+internal, 80)
			service.Annotations[settings.Prefix+"port-id"] = port
			service.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = internal
			mark := s.mark()
			reason := events.NotAllowed
			if name == "none" {
				reason = events.SettingRefused
			}
			c.wantRefused(reason, service, node)
			if writes := s.writes(mark); len(writes) > 0 {
				t.Errorf("%s: these requests change something: %q", name, writes)
			}
		}
	}
	if after := s.FloatingIPs(); !reflect.DeepEqual(after, before) {
		t.Errorf("the floating IPs are %+v, were %+v", after, before)
	}
}

func TestEnsure_RequestedAddressIsAnothers_IsRefusedWithoutThePortsID(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	port, ip := s.serverPort()
	service := s.addService("web", 80)
	service.Spec.LoadBalancerIP = ip.Address
	mark := s.mark()
	c.wantRefused(events.FloatingIPUnavailable, service, node)
	said := s.said(string(events.FloatingIPUnavailable))
	if len(said) == 0 || strings.Contains(strings.Join(said, " "), port) {
		t.Errorf("the events are %q, want one without the ID of the port", said)
	}
	for _, write := range s.writes(mark) {
		if strings.Contains(write, "floating") {
			t.Errorf("this request changes a floating IP: %s", write)
		}
	}
}

// forgedSite is a site whose cluster reports the UIDs of cluster and Service of another one.
func forgedSite(s *site, as *v1.Service, owner string) (*site, *v1.Service) {
	forger := s.another()
	forger.owner = owner
	service := forger.addService(as.Name, 80)
	service.UID = types.UID(string(as.UID))
	return forger, service
}

func TestEnsure_UIDsOfAnotherCluster_ItsObjectsStay(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		owner    string
		required bool
	}{
		"its mark":                    {owner: ownerOne},
		"no mark, and it is required": {required: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.defaults.LoadBalancer.ManageSecurityGroups, s.owner = true, test.owner
			victim, node := s.begin("cluster-1", s.kube), s.addNode("a")
			service := s.addService("web", 80)
			victim.ensure(service, node)
			lbs, ips, groups := s.LoadBalancers(), s.FloatingIPs(), s.SecurityGroups()
			forger, forged := forgedSite(s, service, ownerTwo)
			forger.requireOwnerMark = test.required
			var other *cluster
			mark := s.mark()
			for _, named := range []string{"", lbs[0].ID} {
				forged.Annotations[settings.AnnotationLoadBalancerID] = named
				other = forger.begin("cluster-1", forger.kube) // it writes each event once
				other.wantRefused(events.OfOtherCluster, forged, forger.addNode("b"))
			}
			if err := other.EnsureLoadBalancerDeleted(t.Context(), "kubernetes",
				forged); err != nil {
				t.Error(err)
			}
			if writes := s.writes(mark); len(writes) > 0 {
				t.Errorf("these requests change something: %q", writes)
			}
			if !reflect.DeepEqual(s.FloatingIPs(), ips) || len(s.LoadBalancers()) != len(lbs) ||
				len(s.SecurityGroups()) != len(groups) {
				t.Error("an object of the other cluster has changed")
			}
		})
	}
}

func TestEnsure_OwnerMarkIsRequired_OwnObjectsAreChangedAndDeleted(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.ManageSecurityGroups, s.owner = true, ownerOne
	s.requireOwnerMark = true
	node, service := s.addNode("a"), s.addService("web", 80)
	reserved := s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
	asking := s.requests(s.addService("asking", 80), "floating-ip-id", reserved)
	c := s.begin("cluster-1", s.kube)
	c.ensure(service, node)
	c.ensure(asking, node)
	users, guest := c.addUsers()
	c.ensure(guest, node)
	// Another client has taken the tags of fxccm.
	for _, lb := range s.LoadBalancers() {
		if err := s.ChangeLoadBalancer(lb.ID, func(lb *openstacktest.LoadBalancer) {
			if lb.ID != users {
				lb.Listeners[0].Tags = []string{lb.Name}
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	c = s.begin("cluster-1", s.kube)
	c.ensure(service, node)
	c.ensure(asking, node)
	mark := s.mark()
	for _, each := range []*v1.Service{service, asking, guest} {
		c.ensure(each, node)
	}
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("these requests change something: %q", writes)
	}
	service = s.now(service)
	service.Spec.Ports[0].Port = 8080
	s.update(service)
	c.ensure(service, node, s.addNode("b"))
	for _, each := range []*v1.Service{service, asking, guest} {
		c.remove(each)
	}
	lbs, ips := s.LoadBalancers(), s.FloatingIPs()
	if len(lbs) != 1 || lbs[0].ID != users || len(lbs[0].Listeners) > 0 || len(ips) != 1 {
		t.Errorf("%v and %v remain, want the user's load balancer and the reserved floating IP",
			lbs, ips)
	}
}

func TestEnsure_OwnerMarkIsRequired_LoadBalancerOfOCCMIsNotTakenOver(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	node, service := s.addNode("a"), s.addService("web", 80)
	occms := s.addOCCMs(webName, s.subnet, node.Status.Addresses[0].Address)
	before := s.leftAlone(occms)
	s.owner, s.requireOwnerMark = ownerOne, true
	c := s.begin("cluster-1", s.kube)
	c.ensure(service, node)
	c.remove(service)
	if after := s.leftAlone(occms); !reflect.DeepEqual(after, before) {
		t.Errorf("the load balancer and its floating IP are %v, were %v", after, before)
	}
}

func TestEnsure_OwnerMarkIsRequiredWithoutTagsInOctavia_IsRefused(t *testing.T) {
	t.Parallel()
	s := newSite(t, openstacktest.WithLoadBalancerVersion(4))
	s.owner, s.requireOwnerMark = ownerOne, true
	mark := s.mark()
	s.begin("cluster-1", s.kube).wantRefused(events.Unsupported, s.addService("web", 80),
		s.addNode("a"))
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("these requests change something: %q", writes)
	}
}

func TestCleanUp_UIDOfAnotherCluster_DeletesNothing(t *testing.T) {
	t.Parallel()
	for name, theirs := range map[string]string{
		"marked": ownerOne, "without a mark": "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			s.defaults.LoadBalancer.ManageSecurityGroups, s.owner = true, theirs
			s.begin("cluster-1", s.kube).ensure(s.addService("web", 80), s.addNode("a"))
			forger := s.another()
			for _, owner := range []string{ownerTwo, ""} {
				forger.owner = owner
				mark := s.mark()
				left, err := forger.successor().CleanUp(t.Context(), "cluster-1")
				if writes := s.writes(mark); len(writes) > 0 {
					t.Errorf("owner %q: these requests change something: %q", owner, writes)
				}
				if owner == "" && err == nil {
					t.Error("without an owner there is no proof, and no error")
				}
				if owner != "" && (err != nil || len(left) != 2) {
					t.Errorf("left are %q (%v), want a load balancer and a security group", left,
						err)
				}
			}
		})
	}
}

// A Manager of an earlier version has left no marks.
func TestEnsure_ObjectsWithoutMark_GetItWithFewRequests(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	s.defaults.LoadBalancer.ManageSecurityGroups = true
	node, service := s.addNode("a"), s.addService("web", 80, 443)
	s.begin("cluster-1", s.kube).ensure(service, node)
	s.owner = ownerOne
	mark := s.mark()
	s.begin("cluster-1", s.kube).ensure(service, node)
	writes := s.writes(mark)
	if len(writes) > 5 {
		t.Errorf("%d requests write the marks: %q", len(writes), writes)
	}
	s.successor().cleanUp("cluster-1")
	if lbs := s.LoadBalancers(); len(lbs) > 0 {
		t.Errorf("%v remain", lbs)
	}
	if groups := s.SecurityGroups(); slices.ContainsFunc(groups, isOfAService) {
		t.Errorf("%v remain", groups)
	}
}

func TestEnsure_SharingIsNotAllowed_IsRefusedAndTheGuestCanBeDeleted(t *testing.T) {
	t.Parallel()
	c := newTwoClusters(t)
	c.second.ensure(c.guest, c.nodes[1])
	s := c.second.site
	s.defaults.LoadBalancer.AllowedAnnotations = "none"
	strict := s.begin("cluster-2", s.kube)
	mark := s.mark()
	strict.wantRefused(events.NotAllowed, s.now(c.guest), c.nodes[1])
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("these requests change something: %q", writes)
	}
	// A load balancer of the Service's own is named by the same annotation.
	strict.ensure(s.addService("own", 80), c.nodes[1])
	strict.remove(c.guest)
	c.want(t, "without the guest", ownersPort, c.ownerTags()...)
}

func TestEnsure_NoAnnotationIsAllowed_LoadBalancerWithoutMarksIsNotJoined(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	node := s.addNode("a")
	stranger := s.AddLoadBalancer(openstacktest.LoadBalancer{VIPSubnetID: s.subnet})
	guest := s.addGuest(stranger, "guest", 80)
	s.defaults.LoadBalancer.AllowedAnnotations = "none"
	mark := s.mark()
	s.begin("cluster-1", s.kube).wantRefused(events.NotAllowed, guest, node)
	if writes := s.writes(mark); len(writes) > 0 {
		t.Errorf("these requests change something: %q", writes)
	}
	// The default joins it, as OCCM does.
	s.defaults.LoadBalancer.AllowedAnnotations = cloudconf.Default().LoadBalancer.AllowedAnnotations
	s.begin("cluster-1", s.kube).ensure(guest, node)
	if lb, err := s.LoadBalancer(stranger); err != nil || len(lb.Listeners) != 1 {
		t.Errorf("by default the load balancer is %+v, %v, want the listener of the Service", lb, err)
	}
}

func TestClusterUID_APIServerReportsNone_IsAnError(t *testing.T) {
	for _, uid := range []string{
		"", "a b", "a,fxccm-owner=x", strings.Repeat("a", 41), "a\n", "ä",
	} {
		kube := newKube()
		if _, err := kube.CoreV1().Namespaces().Create(t.Context(), &v1.Namespace{
			ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(uid)},
		}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		read := readClusterUID(func() (kubernetes.Interface, error) { return kube, nil })
		if got, err := read(t.Context()); err == nil {
			t.Errorf("%q is accepted as %q", uid, got)
		}
	}
}
