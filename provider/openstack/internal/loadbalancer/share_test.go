package loadbalancer

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/internal/waittest"
	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// sharing is a cluster whose Services share load balancers as "web".
type sharing struct {
	*cluster
	node *v1.Node
}

// newSharing changes the site before the cluster begins; change may be nil.
func newSharing(t *testing.T, change func(*site), options ...openstacktest.Option) *sharing {
	t.Helper()
	s := newSite(t, options...)
	if change != nil {
		change(s)
	}
	return &sharing{s.begin("cluster-1", s.kube), s.addNode("a")}
}

// add creates a Service with the port, and changes it.
func (c *sharing) add(name string, port int32, changes ...func(*v1.Service)) *v1.Service {
	c.site.t.Helper()
	return c.addIn("default", name, port, changes...)
}

func (c *sharing) addIn(
	namespace, name string, port int32, changes ...func(*v1.Service),
) *v1.Service {
	c.site.t.Helper()
	service := c.site.addServiceIn(namespace, name, port)
	c.change(service, append([]func(*v1.Service){annotations("share-as", "web")}, changes...)...)
	return service
}

func (c *sharing) change(service *v1.Service, changes ...func(*v1.Service)) {
	c.site.t.Helper()
	now := c.site.now(service)
	for _, change := range changes {
		change(now)
	}
	c.site.update(now)
}

// serve reconciles until all are served, one after the other.
func (c *sharing) serve(services ...*v1.Service) {
	c.site.t.Helper()
	for _, service := range services {
		c.ensure(service, c.node)
	}
}

func internal(service *v1.Service) {
	service.Annotations["service.beta.kubernetes.io/openstack-internal-load-balancer"] = "true"
}

func alone(service *v1.Service) { delete(service.Annotations, settings.AnnotationShareAs) }

func alsoPort(port int32) func(*v1.Service) {
	return func(service *v1.Service) {
		service.Spec.Ports = append(service.Spec.Ports, v1.ServicePort{
			Name: fmt.Sprintf("p%d", port), Protocol: v1.ProtocolTCP, Port: port,
			NodePort: 30000 + port,
		})
	}
}

// balancer returns the only load balancer whose tags have the Service.
func (c *sharing) balancer(service *v1.Service) openstacktest.LoadBalancer {
	c.site.t.Helper()
	var found []openstacktest.LoadBalancer
	for _, lb := range c.site.LoadBalancers() {
		if slices.Contains(lb.Tags, "fxccm-service="+string(service.UID)) {
			found = append(found, lb)
		}
	}
	if len(found) != 1 {
		c.site.t.Fatalf("%s has %d load balancers, want 1: %s", service.Name, len(found),
			c.site.picture())
	}
	return found[0]
}

// wantPorts checks the ports of the load balancer of a Service.
func (c *sharing) wantPorts(when string, service *v1.Service, want ...int) {
	c.site.t.Helper()
	var got []int
	for _, l := range c.balancer(service).Listeners {
		got = append(got, l.ProtocolPort)
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		c.site.t.Errorf("%s: the load balancer of %s has the ports %v, want %v", when,
			service.Name, got, want)
	}
}

// wantQuiet checks that no Service needs a change.
func (c *sharing) wantQuiet(services ...*v1.Service) {
	c.site.t.Helper()
	mark := c.site.mark()
	c.serve(services...)
	if writes := c.site.writes(mark); len(writes) > 0 {
		c.site.t.Errorf("without a change the requests are %q", writes)
	}
}

// end removes the Services in this order, and checks that nothing is left.
func (c *sharing) end(services ...*v1.Service) {
	c.site.t.Helper()
	for _, service := range services {
		c.remove(service)
	}
	lbs, ips := c.site.LoadBalancers(), c.site.FloatingIPs()
	if len(lbs)+len(ips) > 0 {
		c.site.t.Errorf("without Services %d load balancers and the floating IPs %+v are left:\n%s",
			len(lbs), ips, c.site.picture())
	}
}

func (c *sharing) addresses(services ...*v1.Service) (all []string) {
	c.site.t.Helper()
	for _, service := range services {
		for _, ingress := range c.site.now(service).Status.LoadBalancer.Ingress {
			all = append(all, ingress.IP)
		}
	}
	return all
}

// The class of the Services shares by default.
func TestShareAs_NameIsOfTheClass_ServicesShareUntilOneSharesNone(t *testing.T) {
	t.Parallel()
	c := newSharing(t, func(s *site) {
		s.defaults.Classes = map[string]cloudconf.LoadBalancerClass{"shared": {ShareAs: "all"}}
	})
	class := annotations("class", "shared")
	first, second := c.add("first", 80, alone, class), c.add("second", 81, alone, class)
	c.serve(first, second)
	c.wantPorts("both are served", first, 80, 81)
	c.change(second, annotations("share-as", ""))
	c.serve(second)
	c.wantPorts("the second shares none", first, 80)
	c.wantPorts("the second shares none", second, 81)
}

// A Service that shares needs no load balancer and no floating IP of its own.
func TestShareAs_QuotaIsUsed_ServiceJoins(t *testing.T) {
	t.Parallel()
	c := newSharing(t, func(s *site) {
		s.SetLoadBalancerQuota(openstacktest.QuotaLoadBalancer, 1)
		s.SetNetworkQuota("floatingip", 1)
	})
	first, second := c.add("first", 80), c.add("second", 81)
	c.serve(first, second)
	c.wantPorts("both are served", first, 80, 81)
}

func TestShareAs_PortsDiffer_ServicesShareOneLoadBalancerToTheEnd(t *testing.T) {
	t.Parallel()
	for name, order := range map[string][]int{
		"owner leaves first": {0, 1, 2}, "owner leaves last": {2, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newSharing(t, nil)
			all := []*v1.Service{c.add("a", 80), c.add("b", 443), c.add("c", 8080)}
			c.serve(all...)
			c.wantPorts("all are served", all[0], 80, 443, 8080)
			addresses := c.addresses(all...)
			if len(c.site.LoadBalancers()) != 1 || len(c.site.FloatingIPs()) != 1 ||
				len(addresses) != 3 || len(slices.Compact(addresses)) != 1 {
				t.Errorf("the addresses are %q, and the cloud has\n%s", addresses, c.site.picture())
			}
			c.wantQuiet(all...)
			restarted := &sharing{c.site.begin("cluster-1", c.site.kube), c.node}
			restarted.wantQuiet(all...)
			var services []*v1.Service
			for _, i := range order {
				services = append(services, all[i])
			}
			restarted.end(services...)
		})
	}
}

// Both see no load balancer. The second one must wait for that of the first.
func TestShareAs_ServicesAreCreatedAtOnce_TheyShareOneLoadBalancer(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil, openstacktest.WithCreationTime(50*time.Millisecond))
	var all []*v1.Service
	for i := range 5 {
		all = append(all, c.add(fmt.Sprint("s", i), int32(80+i)))
	}
	var wait sync.WaitGroup
	for _, service := range all {
		wait.Go(func() {
			for err := error(errBusy); err != nil; {
				_, err = c.EnsureLoadBalancer(t.Context(), "kubernetes", c.site.now(service),
					[]*v1.Node{c.node})
				if err != nil && !isWait(err) {
					t.Errorf("ensure %s: %v", service.Name, err)
					return
				}
				if err := c.forgetList(service.UID); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wait.Wait()
	c.wantPorts("all are served", all[0], 80, 81, 82, 83, 84)
}

// A request that hangs ends after a minute. A call that waits for it would take a worker.
func TestShareAs_RequestOfAServiceHangs_CallsForOthersReturn(t *testing.T) {
	t.Parallel()
	for name, operation := range map[string]string{
		"creation": "loadbalancer_create", "change": "loadbalancer_listener_create",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newSharing(t, nil)
			first, second := c.add("first", 80), c.add("second", 443)
			if name == "change" {
				c.serve(first, second)
				c.change(first, alsoPort(81))
			}
			before := c.Reports()
			repair := c.site.Inject(openstacktest.Fault{Operation: operation, Hang: true})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			ended := make(chan error, 1)
			go func() {
				_, err := c.EnsureLoadBalancer(ctx, "kubernetes", c.site.now(first),
					[]*v1.Node{c.node})
				ended <- err
			}()
			// The second lock is that of the load balancer, or of the name.
			waittest.Until(t, "the first Service has its locks", func() error {
				select {
				case err := <-ended:
					t.Fatalf("the call that hangs has ended: %v", err)
				default:
				}
				if n := c.locks.Held(); n < 2 {
					return fmt.Errorf("%d locks are held", n)
				}
				return nil
			})
			limited, stop := waittest.Limited(t)
			defer stop()
			_, err := c.EnsureLoadBalancer(limited, "kubernetes", c.site.now(second),
				[]*v1.Node{c.node})
			if !errors.Is(err, errBusy) {
				t.Errorf("the call for the second Service returns %v", err)
			}
			for _, report := range c.Reports() {
				was := slices.IndexFunc(before, func(r Report) bool {
					return r.Name == report.Name
				})
				switch {
				case report.Name != second.Name:
				case was < 0 && report.State != Waiting:
					t.Errorf("the new Service is %s: %s", report.State, report.Message)
				case was >= 0 && report.State != before[was].State:
					t.Errorf("the Service was %s and is %s", before[was].State, report.State)
				}
			}
			cancel()
			<-ended
			repair()
			c.serve(first, second)
		})
	}
}

func TestShareAs_RequestOfTheLoadBalancerDiffers_GetsAnotherOneAndAnEvent(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*site) func(*v1.Service){
		"internal": func(*site) func(*v1.Service) { return internal },
		"network": func(s *site) func(*v1.Service) {
			return annotations("network-id", s.network)
		},
		"subnet": func(s *site) func(*v1.Service) { return annotations("subnet-id", s.subnet) },
		"floating network": func(s *site) func(*v1.Service) {
			return annotations("floating-network-id", s.external)
		},
		"floating subnet": func(s *site) func(*v1.Service) {
			return annotations("floating-subnet-id", s.floating)
		},
		"provider": func(*site) func(*v1.Service) { return annotations("lb-provider", "") },
		"kept floating IP": func(*site) func(*v1.Service) {
			return annotations("keep-floatingip", "true")
		},
		"address": func(s *site) func(*v1.Service) {
			s.AddFloatingIP(openstacktest.FloatingIP{NetworkID: s.external})
			return annotations("address", s.FloatingIPs()[0].Address)
		},
		"class": func(*site) func(*v1.Service) { return annotations("class", "fast") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newSharing(t, func(s *site) {
				s.defaults.Classes = map[string]cloudconf.LoadBalancerClass{"fast": {}}
			})
			differs := change(c.site)
			plain, other := c.add("plain", 80), c.add("other", 443, differs)
			c.serve(plain, other)
			c.wantPorts("apart", plain, 80)
			c.wantPorts("apart", other, 443)
			id := c.balancer(plain).ID
			said := c.site.said("load balancer " + id)
			if len(said) != 1 || !strings.HasPrefix(said[0], "Normal LoadBalancerNotShared: ") {
				t.Errorf("the events about the other load balancer are %q, want one", said)
			}
			// Services that agree find their own.
			alike, likeOther := c.add("alike", 81), c.add("like-other", 444, differs)
			c.serve(alike, likeOther)
			c.wantPorts("with those that agree", plain, 80, 81)
			c.wantPorts("with those that agree", other, 443, 444)
			c.wantQuiet(plain, other, alike, likeOther)
		})
	}
}

func TestShareAs_PortIsUsed_GetsAnotherLoadBalancerOfTheName(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	first, second, third := c.add("first", 80), c.add("second", 80), c.add("third", 443)
	udp := c.add("udp", 80, func(s *v1.Service) { s.Spec.Ports[0].Protocol = v1.ProtocolUDP })
	c.serve(first, second, third, udp)
	c.wantPorts("all are served", first, 80, 80, 443)
	c.wantPorts("all are served", second, 80)
	if said := c.site.said("another listener has port 80/TCP there"); len(said) != 1 {
		t.Errorf("the events are %q, want one", said)
	}
	fourth := c.add("fourth", 443)
	c.serve(fourth)
	c.wantPorts("the second load balancer of the name is joined, too", second, 80, 443)
	c.end(first, second, third, udp, fourth)
}

// Only listeners are limited: max-shared-lb, here 2, counts Services that join by ID.
func TestShareAs_LimitIsReached_GetsAnotherLoadBalancer(t *testing.T) {
	t.Parallel()
	c := newSharing(t, func(s *site) { s.defaults.LoadBalancer.MaxSharedListeners = 3 })
	var all []*v1.Service
	for i := range 6 {
		all = append(all, c.add(fmt.Sprint("s", i), int32(80+i)))
	}
	big := c.add("big", 1000, alsoPort(1001), alsoPort(1002), alsoPort(1003))
	c.serve(append(all, big)...)
	for i, service := range all {
		c.wantPorts("all are served", service, [][]int{{80, 81, 82}, {83, 84, 85}}[i/3]...)
	}
	c.wantPorts("more than the limit", big, 1000, 1001, 1002, 1003)
	// The last load balancer that is full is in the event.
	if said := c.site.said("max-shared-listeners"); len(said) != 2 {
		t.Errorf("the events are %q, want one for each Service that creates another one", said)
	}
}

func TestShareAs_OfAnotherNamespace_IsJoinedOnlyIfTheClassAllows(t *testing.T) {
	t.Parallel()
	classes := func(s *site) {
		s.defaults.Classes = map[string]cloudconf.LoadBalancerClass{
			"narrow": {},
			"wide":   {ShareAcrossNamespaces: true, Namespaces: []string{"default", "shop"}},
		}
	}
	for class, together := range map[string]bool{"": false, "narrow": false, "wide": true} {
		t.Run("class "+class, func(t *testing.T) {
			t.Parallel()
			c := newSharing(t, classes)
			mine := c.add("web", 80, annotations("class", class))
			theirs := c.addIn("shop", "web", 443, annotations("class", class))
			c.serve(mine, theirs)
			if got := c.balancer(mine).ID == c.balancer(theirs).ID; got != together {
				t.Errorf("they share a load balancer: %t, want %t", got, together)
			}
			c.end(mine, theirs)
		})
	}
	t.Run("namespace not of the class", func(t *testing.T) {
		t.Parallel()
		c := newSharing(t, classes)
		mine := c.add("web", 80, annotations("class", "wide"))
		c.serve(mine)
		thief := c.addIn("thief", "web", 443, annotations("class", "wide"))
		c.wantRefused(events.InvalidAnnotation, c.site.now(thief), c.node)
		c.wantPorts("after the attempt", mine, 80)
	})
}

// The ID of a load balancer is no secret: events and annotations have it.
func TestShareAs_LoadBalancerIsNamedByAStranger_IsRefused(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	mine, guest := c.add("web", 80), c.add("guest", 81)
	c.serve(mine, guest)
	lb := c.balancer(mine)
	names := annotations("load-balancer-id", lb.ID)
	elsewhere := c.site.another()
	other := &sharing{elsewhere.begin("cluster-2", elsewhere.kube), c.node}
	for name, test := range map[string]struct {
		in      *sharing
		service *v1.Service
	}{
		"another namespace, same name": {c, c.addIn("thief", "web", 443, names)},
		"another namespace, no name":   {c, c.addIn("thief", "plain", 444, names, alone)},
		"another name":                 {c, c.add("other", 445, names, annotations("share-as", "api"))},
		"another request":              {c, c.add("internal", 446, names, internal)},
		"another cluster":              {other, other.add("web", 447, names)},
	} {
		mark := c.site.mark()
		test.in.wantRefused(events.NotAllowed, test.in.site.now(test.service), c.node)
		if writes := c.site.writes(mark); len(writes) > 0 {
			t.Errorf("%s: the requests are %q", name, writes)
		}
	}
	friend := c.add("friend", 448, names)
	c.serve(friend)
	c.wantPorts("after the attempts", mine, 80, 81, 448)
}

func TestShareAs_NoAnnotationThatNamesObjectsIsAllowed_ServicesShare(t *testing.T) {
	t.Parallel()
	c := newSharing(t, func(s *site) { s.defaults.LoadBalancer.AllowedAnnotations = "none" })
	a, b := c.add("a", 80), c.add("b", 443)
	c.serve(a, b)
	c.wantPorts("both are served", a, 80, 443)
	c.wantQuiet(a, b)
	c.end(a, b)
}

func TestShareAs_ServiceNoLongerShares_ItLeavesAndTheOthersStay(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*v1.Service){
		"no name":         alone,
		"another name":    annotations("share-as", "api"),
		"another request": internal,
	} {
		for who, leaver := range map[string]int{"owner": 0, "guest": 1} {
			t.Run(name+", "+who, func(t *testing.T) {
				t.Parallel()
				c := newSharing(t, nil)
				all := []*v1.Service{c.add("a", 80), c.add("b", 443)}
				c.serve(all...)
				before, address := c.balancer(all[0]).ID, c.addresses(all[0])
				leaves, stays := all[leaver], all[1-leaver]
				c.change(leaves, change)
				c.serve(leaves, stays)
				if c.balancer(leaves).ID == before || c.balancer(stays).ID != before {
					t.Errorf("the load balancers are\n%s", c.site.picture())
				}
				for _, service := range all {
					c.wantPorts("apart", service, int(service.Spec.Ports[0].Port))
				}
				if got := c.addresses(stays); !slices.Equal(got, address) {
					t.Errorf("the address of the one that stays is %q, want %q", got, address)
				}
				if got := c.addresses(leaves); len(got) != 1 || slices.Equal(got, address) {
					t.Errorf("the address of the one that leaves is %q, as before", got)
				}
				if said := c.site.said("leaves load balancer " + before); len(said) != 1 {
					t.Errorf("the events are %q, want one", said)
				}
				c.wantQuiet(leaves, stays)
				c.end(leaves, stays)
			})
		}
	}
}

func TestShareAs_ServiceNeedsAPortOfAnother_ItMovesAndTheOtherStays(t *testing.T) {
	t.Parallel()
	for who, mover := range map[string]int{"owner": 0, "guest": 1} {
		t.Run(who, func(t *testing.T) {
			t.Parallel()
			c := newSharing(t, nil)
			all := []*v1.Service{c.add("a", 80), c.add("b", 443)}
			c.serve(all...)
			before := c.balancer(all[0]).ID
			moves, stays := all[mover], all[1-mover]
			c.change(moves, alsoPort(stays.Spec.Ports[0].Port))
			c.serve(moves, stays)
			c.wantPorts("apart", moves, 80, 443)
			c.wantPorts("apart", stays, int(stays.Spec.Ports[0].Port))
			if c.balancer(stays).ID != before {
				t.Errorf("the load balancers are\n%s", c.site.picture())
			}
			c.wantQuiet(moves, stays)
			c.end(stays, moves)
		})
	}
}

func TestShareAs_LeavingIsInterrupted_NextPassCompletesIt(t *testing.T) {
	t.Parallel()
	for _, carriedOut := range []bool{false, true} {
		for i := range 9 {
			for leaver := range 2 {
				what := fmt.Sprintf("write %d, carried out: %t, leaver %d", i+1, carriedOut, leaver)
				c := newSharing(t, nil)
				all := []*v1.Service{c.add("a", 80), c.add("b", 443)}
				c.serve(all...)
				c.change(all[leaver], alone)
				remove := c.site.Inject(openstacktest.Fault{
					Match: func(call openstacktest.Call) bool {
						return call.Method != http.MethodGet &&
							call.Service != openstacktest.ServiceIdentity
					},
					Skip: i, Times: 1, Status: http.StatusBadRequest, AfterEffect: carriedOut,
				})
				c.persist(all[leaver], []*v1.Node{c.node})
				c.persist(all[1-leaver], []*v1.Node{c.node})
				remove()
				for _, service := range all {
					c.wantPorts(what, service, int(service.Spec.Ports[0].Port))
				}
				if n := len(c.site.LoadBalancers()); n != 2 {
					t.Errorf("%s: %d load balancers, want 2", what, n)
				}
				c.end(all...)
			}
		}
	}
}

// A new default concerns all Services alike.
func TestShareAs_OperatorChangesADefault_ServicesStayTogether(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	a, b := c.add("a", 80), c.add("b", 443)
	c.serve(a, b)
	before := c.balancer(a).ID
	c.site.defaults.LoadBalancer.InternalLB = true
	c.site.defaults.LoadBalancer.FlavorID = "11111111-1111-4111-8111-111111111111"
	c = &sharing{c.site.begin("cluster-1", c.site.kube), c.node}
	c.serve(a, b)
	if c.balancer(a).ID != before || c.balancer(b).ID != before {
		t.Errorf("the load balancers are\n%s", c.site.picture())
	}
	if ips := c.site.FloatingIPs(); len(ips) > 0 {
		t.Errorf("cloud.conf says internal-lb, and the floating IPs are %+v", ips)
	}
}

func TestShareAs_ServiceIsAlone_ItsTagsFollowTheAnnotation(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	owner := c.site.addService("owner", 80)
	c.serve(owner)
	before := c.balancer(owner).ID
	wantShared := func(when string, want bool) {
		t.Helper()
		c.serve(owner)
		lb := c.balancer(owner)
		if got := len(desired.ShareTags(lb.Tags)) > 0; got != want || lb.ID != before {
			t.Errorf("%s: load balancer %s has the tags %q, want some to share it: %t", when, lb.ID,
				lb.Tags, want)
		}
	}
	wantShared("no annotation", false)
	c.change(owner, annotations("share-as", "web"))
	wantShared("a name", true)
	c.change(owner, alone)
	wantShared("no name again", false)
	// It does not have what the Service requests, so others that request it must not join.
	subnet := c.site.AddSubnet(
		openstacktest.Subnet{NetworkID: c.site.network, CIDR: "10.1.0.0/16"})
	c.change(owner, annotations("share-as", "web", "subnet-id", subnet))
	wantShared("an immutable difference", false)
	c.change(owner, func(s *v1.Service) { delete(s.Annotations, settings.Prefix+"subnet-id") })
	wantShared("none any more", true)
	guest := c.add("guest", 443)
	c.serve(guest)
	c.wantPorts("joined", owner, 80, 443)
	c.end(owner, guest)
}

// A guest by ID does not have the name, so the load balancer does not become one of the name.
func TestShareAs_LoadBalancerHasGuestsByID_ItIsNotSharedByName(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	owner := c.site.addService("owner", 80)
	c.serve(owner)
	guest := c.site.addGuest(c.balancer(owner).ID, "guest", 443)
	c.serve(guest)
	c.change(owner, annotations("share-as", "web"))
	c.serve(owner)
	other := c.add("other", 8080)
	c.serve(other)
	c.wantPorts("the guest by ID stays", owner, 80, 443)
	c.wantPorts("the other has its own", other, 8080)
	c.wantQuiet(owner, guest, other)
}

func TestShareAs_Preview_ShowsJoiningAndLeavingAndChangesNothing(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	owner, guest := c.add("owner", 80), c.add("guest", 443)
	c.serve(owner)
	id := c.balancer(owner).ID
	preview := func(service *v1.Service) Preview {
		t.Helper()
		mark := c.site.mark()
		p, err := c.Preview(t.Context(), "kubernetes", c.site.now(service), []*v1.Node{c.node}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if writes := c.site.writes(mark); len(writes) > 0 {
			t.Errorf("the preview sends %q", writes)
		}
		return p
	}
	joins := preview(guest)
	if joins.LoadBalancer == nil || joins.LoadBalancer.ID != id || joins.Role != plan.Guest ||
		!strings.Contains(joins.Plan.String(), "create listener") {
		t.Errorf("the preview of joining is %+v", joins)
	}
	c.serve(guest)
	c.change(guest, alone)
	leaves := preview(guest)
	text := strings.Join(leaves.Notices, "\n") + leaves.Plan.String()
	if leaves.Refused || !strings.Contains(text, "leaves load balancer "+id) ||
		!strings.Contains(text, "delete listener") ||
		!strings.Contains(text, "the Service gets another load balancer") {
		t.Errorf("the preview of leaving is refused: %t\n%s", leaves.Refused, text)
	}
	c.wantPorts("after the previews", owner, 80, 443)
}

// Other Services need the lock while this one goes on.
func TestLockFound_LoadBalancerIsGone_ItsLockIsReleased(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	service := c.add("a", 80)
	c.serve(service)
	lb := c.balancer(service)
	if err := c.site.DeleteLoadBalancer(lb.ID); err != nil {
		t.Fatal(err)
	}
	r, err := c.begin(t.Context(), request{cluster: "kubernetes", service: c.site.now(service)},
		true)
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	if err := r.identify(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.readSettings()
	r.found.balancer = &octavia.LoadBalancer{ID: lb.ID}
	if err := r.lockFound(t.Context(), time.Time{}); err != nil {
		t.Fatal(err)
	}
	if n := c.locks.Held(); r.found.balancer != nil || n != 1 {
		t.Errorf("load balancer %v is found, and %d locks are held, want only that of the Service",
			r.found.balancer, n)
	}
}

// The annotation would bind the Service to a load balancer that may yet fail.
func TestShareAs_LoadBalancerIsStillCreated_IsNotNamedBeforeItIsJoined(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil, openstacktest.WithProvisioning(time.Hour))
	owner, guest := c.add("owner", 80), c.add("guest", 443)
	for _, service := range []*v1.Service{owner, guest} {
		if _, err := c.EnsureLoadBalancer(t.Context(), "kubernetes", c.site.now(service),
			[]*v1.Node{c.node}); !isWait(err) {
			t.Fatalf("%s does not wait: %v", service.Name, err)
		}
	}
	if n := len(c.site.LoadBalancers()); n != 1 {
		t.Errorf("%d load balancers are created, want 1", n)
	}
	if id := c.site.now(guest).Annotations[settings.AnnotationLoadBalancerID]; id != "" {
		t.Errorf("the Service that waits names load balancer %s", id)
	}
}

// The informer may show the removed annotation for a while.
func TestShareAs_AnnotationOfTheLeftLoadBalancerIsStale_ItIsIgnored(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	owner, guest := c.add("owner", 80), c.add("guest", 443)
	c.serve(owner, guest)
	c.change(guest, alone)
	stale := c.site.now(guest)
	err := errors.New("not called")
	for i := 0; i < 50 && err != nil; i++ {
		_, err = c.EnsureLoadBalancer(t.Context(), "kubernetes", stale, []*v1.Node{c.node})
	}
	if err != nil {
		t.Errorf("the Service is not served: %v", err)
	}
	c.wantPorts("the guest has its own", guest, 443)
	c.wantPorts("the guest has left", owner, 80)
}

// fxccm has written the ID, so it must not refuse the Service when its type changes back.
func TestShareAs_TypeChangesAndBack_ServiceIsServedAgain(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil)
	owner, guest := c.add("owner", 80), c.add("guest", 443)
	c.serve(owner, guest)
	c.change(guest, func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeClusterIP })
	for range 50 {
		err := c.EnsureLoadBalancerDeleted(t.Context(), "kubernetes", c.site.now(guest))
		if err == nil {
			break
		}
		if !isWait(err) {
			t.Fatal(err)
		}
	}
	if id := c.site.now(guest).Annotations[settings.AnnotationLoadBalancerID]; id != "" {
		t.Errorf("the Service still names load balancer %s", id)
	}
	c.wantPorts("the guest has left", owner, 80)
	c.change(guest, func(s *v1.Service) { s.Spec.Type = v1.ServiceTypeLoadBalancer })
	c.serve(guest)
	c.wantPorts("the guest is back", owner, 80, 443)
}

func TestShareAs_OctaviaWithoutTags_WarnsAndServesAlone(t *testing.T) {
	t.Parallel()
	c := newSharing(t, nil, openstacktest.WithLoadBalancerVersion(4))
	c.serve(c.add("a", 80), c.add("b", 443))
	if said := c.site.said("Warning LoadBalancerNotShared: "); len(said) != 2 ||
		len(c.site.LoadBalancers()) != 2 {
		t.Errorf("the events are %q, want one for each Service, and\n%s", said, c.site.picture())
	}
}
