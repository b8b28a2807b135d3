package openstack_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/test/internal/project"
)

// routing is the provider's routes, with the project's router.
type routing struct {
	*project.Project
	t      *testing.T
	cloud  *project.Cloud
	routes cloudprovider.Routes
	// ports are the nodes' ports, by the node's name.
	ports map[string]string
}

func newRouting(t *testing.T, p *project.Project, change ...func(*ccm.ProviderEnv)) *routing {
	t.Helper()
	cfg := p.Config()
	cfg.Route.RouterID = p.Router
	r := &routing{Project: p, t: t, ports: map[string]string{}}
	r.cloud = p.OpenWith(t, []openstack.Option{openstack.WithConfig(cfg)},
		func(env *ccm.ProviderEnv) {
			for _, c := range change {
				c(env)
			}
		})
	var ok bool
	if r.routes, ok = r.cloud.Routes(); !ok {
		t.Fatal("the provider has no routes")
	}
	return r
}

// onEachRouter runs a test with single routes that are added and removed by name, and with whole
// lists, as it is where the network service has no extension extraroute-atomic: on the wire it is
// taken away.
func onEachRouter(t *testing.T, test func(*testing.T, *project.Project), opts ...project.Option) {
	t.Helper()
	t.Run("atomic", func(t *testing.T) {
		t.Parallel()
		test(t, project.New(t, opts...))
	})
	t.Run("plain", func(t *testing.T) {
		t.Parallel()
		p := project.New(t, opts...)
		withoutAtomicRoutes(t, p)
		test(t, p)
	})
}

func withoutAtomicRoutes(t *testing.T, p *project.Project) {
	t.Helper()
	has := p.User().List(project.Network, "/extensions", "extensions")
	left := slices.DeleteFunc(has,
		func(e project.Object) bool { return e["alias"] == "extraroute-atomic" })
	if len(left) == 0 {
		t.Fatal("the network service has no extensions")
	}
	body, err := json.Marshal(project.Object{"extensions": left})
	if err != nil {
		t.Fatal(err)
	}
	p.Wire.Break(project.Fault{
		Matches: project.On(http.MethodGet, "/extensions"), Status: http.StatusOK,
		Body: string(body), Header: http.Header{"Content-Type": {"application/json"}},
	})
	p.Wire.Break(project.Fault{
		Matches: func(r *http.Request) bool {
			return strings.HasSuffix(r.URL.Path, "_extraroutes")
		},
		Status: http.StatusNotFound,
		Body:   `{"NeutronError":{"type":"HTTPNotFound","message":"The resource could not be found.","detail":""}}`,
	})
}

// addNode adds a node with these addresses to the cluster.
func (r *routing) addNode(name string, addresses []string, podCIDRs ...string) {
	r.t.Helper()
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Spec.PodCIDRs = podCIDRs
	for _, a := range addresses {
		node.Status.Addresses = append(node.Status.Addresses,
			v1.NodeAddress{Type: v1.NodeInternalIP, Address: a})
	}
	nodes := r.cloud.Kube.CoreV1().Nodes()
	_, err := nodes.Create(r.t.Context(), node, metav1.CreateOptions{})
	if err != nil {
		if _, err = nodes.Update(r.t.Context(), node, metav1.UpdateOptions{}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// addServer adds a node with its server.
func (r *routing) addServer(name string, podCIDRs ...string) project.Server {
	r.t.Helper()
	s := r.AddServer(name)
	r.ports[name] = s.Port
	r.addNode(name, []string{s.Addresses[4], s.Addresses[6]}, podCIDRs...)
	return s
}

func (r *routing) addPort(device string, security bool, addresses ...string) (id string) {
	r.t.Helper()
	var fixed []project.Object
	for _, a := range addresses {
		subnet := r.Subnets[4]
		if strings.Contains(a, ":") {
			subnet = r.Subnets[6]
		}
		fixed = append(fixed, project.Object{"subnet_id": subnet, "ip_address": a})
	}
	attributes := project.Object{"network_id": r.Network, "device_id": device, "fixed_ips": fixed}
	if !security {
		attributes["port_security_enabled"], attributes["security_groups"] = false, []string{}
	}
	return project.ID(r.User().Create(project.Network, "/ports", "port", attributes))
}

// addRoute adds a route as another client does.
func (r *routing) addRoute(destination, nextHop string) {
	r.t.Helper()
	r.User().Update(project.Network, "/routers/"+r.Router+"/add_extraroutes", "router",
		project.Object{
			"routes": []project.Object{{"destination": destination, "nexthop": nextHop}},
		})
}

// inRouter are the routes in the router, as "destination via next hop".
func (r *routing) inRouter() []string {
	r.t.Helper()
	all := []string{}
	list, _ := r.User().Get(project.Network, "/routers/"+r.Router, "router")["routes"].([]any)
	for _, item := range list {
		route, _ := item.(project.Object)
		all = append(all, project.Text(route, "destination")+" via "+project.Text(route, "nexthop"))
	}
	slices.Sort(all)
	return all
}

func (r *routing) wantRoutes(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	if got := r.inRouter(); !slices.Equal(got, want) {
		r.t.Errorf("the router has\n%s\nwant\n%s", strings.Join(got, "\n"),
			strings.Join(want, "\n"))
	}
}

func (r *routing) wantPairs(node string, want ...string) {
	r.t.Helper()
	got := []string{}
	list, _ := r.User().Get(project.Network, "/ports/"+r.ports[node],
		"port")["allowed_address_pairs"].([]any)
	for _, item := range list {
		pair, _ := item.(project.Object)
		got = append(got, project.Text(pair, "ip_address"))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		r.t.Errorf("the port of %s has the pairs %q, want %q", node, got, want)
	}
}

// list returns the provider's routes by name. Node and pod CIDRs come from the informer, so the
// test must wait for changes in the cluster.
func (r *routing) list() map[string]*cloudprovider.Route {
	r.t.Helper()
	var all []*cloudprovider.Route
	err := patiently(func() (err error) {
		all, err = r.routes.ListRoutes(r.t.Context(), "kubernetes")
		return err
	})
	if err != nil {
		r.t.Fatal(err)
	}
	named := map[string]*cloudprovider.Route{}
	for _, one := range all {
		named[one.Name] = one
	}
	return named
}

// told describes the listed routes in lines: name, and node or "blackhole".
func (r *routing) told() []string {
	r.t.Helper()
	lines := []string{}
	for name, one := range r.list() {
		who := string(one.TargetNode)
		if one.Blackhole {
			who = "blackhole"
		}
		lines = append(lines, name+": "+who)
	}
	slices.Sort(lines)
	return lines
}

// waitTold waits until the provider lists these routes, because changes in the cluster come by an
// informer.
func (r *routing) waitTold(want ...string) {
	r.t.Helper()
	slices.Sort(want)
	r.Wait(fmt.Sprintf("the routes are %q", want), func() error {
		if got := r.told(); !slices.Equal(got, want) {
			return fmt.Errorf("they are %q", got)
		}
		return nil
	})
}

func (r *routing) create(node, cidr string) error {
	return r.createRoute(
		&cloudprovider.Route{TargetNode: types.NodeName(node), DestinationCIDR: cidr})
}

func (r *routing) createRoute(wanted *cloudprovider.Route) error {
	return patiently(func() error {
		return r.routes.CreateRoute(r.t.Context(), "kubernetes", "", wanted)
	})
}

// mustCreate waits for the informer, too.
func (r *routing) mustCreate(node, cidr string) {
	r.t.Helper()
	r.Wait("the route to "+cidr+" is created", func() error { return r.create(node, cidr) })
}

func (r *routing) delete(named *cloudprovider.Route) error {
	return patiently(func() error {
		return r.routes.DeleteRoute(r.t.Context(), "kubernetes", named)
	})
}

// patiently repeats do while the cloud is too slow to answer, like a lab on a busy machine.
func patiently(do func() error) error {
	const most = 10
	for n := 0; ; n++ {
		if err := do(); err == nil || !isSlow(err) || n == most {
			return err
		}
	}
}

// changes are calls that may have changed something.
func changes(c project.Call) bool { return c.Changes() }

func TestRoutes_LiveFromCreateToDelete(t *testing.T) {
	t.Parallel()
	onEachRouter(t, func(t *testing.T, p *project.Project) {
		r := newRouting(t, p)
		r.addPort("other's", true, "10.0.9.1")
		r.addRoute("10.99.0.0/24", "10.0.9.1")
		// No port has this next hop, like a virtual address.
		r.addRoute("10.244.9.0/24", "10.0.9.9")
		// Also to another client's: within the cluster's own CIDR, and on the far side of the
		// gateway.
		r.addRoute("10.244.8.0/24", "10.0.9.1")
		const foreign, within, virtual = "10.99.0.0/24 via 10.0.9.1", "10.244.8.0/24 via 10.0.9.1",
			"10.244.9.0/24 via 10.0.9.9"
		r.waitTold()

		a := r.addServer("a", "10.244.1.0/24", "fd00:244:1::/64")
		b := r.addServer("b", "10.244.2.0/24")
		r.addNode("lost", []string{"10.0.9.1"}, "10.244.99.0/24")
		r.mustCreate("a", "10.244.1.0/24")
		r.mustCreate("a", "fd00:244:1::/64")
		r.mustCreate("b", "10.244.2.0/24")
		a4, a6 := "10.244.1.0/24 via "+a.Addresses[4], "fd00:244:1::/64 via "+a.Addresses[6]
		b4 := "10.244.2.0/24 via " + b.Addresses[4]
		r.wantRoutes(a4, a6, b4, foreign, within, virtual)
		r.wantPairs("a", "10.244.1.0/24", "fd00:244:1::/64")
		r.wantPairs("b", "10.244.2.0/24")
		r.waitTold(a4+": a", a6+": a", b4+": b")
		listed := r.list()
		if one := listed[a6]; one.DestinationCIDR != "fd00:244:1::/64" ||
			!one.EnableNodeAddresses || len(one.TargetNodeAddresses) != 2 {
			t.Errorf("the route of IPv6: %+v", one)
		}

		// Existing routes are not written again, and refused ones leave nothing.
		mark := p.Wire.Mark()
		for _, one := range []struct{ node, cidr string }{
			{"a", "10.244.1.0/24"},
			{"a", "fd00:244:1::/64"},
			{"b", "10.244.2.0/24"},
		} {
			if err := r.create(one.node, one.cidr); err != nil {
				t.Error(err)
			}
		}
		var failed error
		r.Wait("the node is known", func() error {
			if failed = r.create("lost", "10.244.99.0/24"); failed == nil ||
				strings.Contains(failed.Error(), "not found") {
				return fmt.Errorf("the error is %w", failed)
			}
			return nil
		})
		if !strings.Contains(failed.Error(), "no server matches the node") {
			t.Errorf("a node without a server: %v", failed)
		}
		if err := r.create("b", "10.244.8.0/24"); err == nil ||
			!strings.Contains(err.Error(), "does not belong to this cluster") {
			t.Errorf("a route to a destination that is another client's: %v", err)
		}
		if calls := p.Wire.Since(mark, changes); len(calls) != 0 {
			t.Errorf("what was there was written again: %+v", calls)
		}

		for _, name := range []string{a4, b4} {
			if err := r.delete(listed[name]); err != nil {
				t.Errorf("delete %s: %v", name, err)
			}
		}
		if err := r.delete(listed[a4]); err != nil {
			t.Errorf("delete what is gone: %v", err)
		}
		if err := r.delete(&cloudprovider.Route{
			Name: foreign, DestinationCIDR: "10.99.0.0/24",
			Blackhole: true,
		}); err == nil {
			t.Error("another client's route was deleted")
		}
		r.wantRoutes(a6, foreign, within, virtual)
		r.wantPairs("a", "fd00:244:1::/64")
		r.wantPairs("b")
		r.waitTold(a6 + ": a")
	}, project.WithIPv6())
}
