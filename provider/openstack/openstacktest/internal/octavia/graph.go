package octavia

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/resource"
)

// One request can create a load balancer with all resources below it. A listener then contains its
// pool, or the pool's name (LoadBalancersController._graph_create).

// graphReader reads such a body.
type graphReader struct {
	*Service
	tree *tree
	// wanted are the names of the listeners' pools.
	wanted map[*Listener]string
}

// readTree reads the body of a creation. The IDs do not exist yet.
func (s *Service) readTree(given map[string]json.RawMessage) (*tree, error) {
	g := graphReader{s, &tree{}, map[*Listener]string{}}
	const path = "load_balancer.loadbalancer"
	if err := s.types.loadBalancer.Read(&g.tree.LoadBalancer, given, true, wsme(path), "listeners",
		"pools", "project_id", "tenant_id"); err != nil {
		return nil, err
	}
	listeners, errListeners := objects(given, "listeners")
	pools, errPools := objects(given, "pools")
	if err := cmp.Or(errListeners, errPools); err != nil {
		return nil, err
	}
	for _, pool := range pools {
		if err := g.readPool(pool, path+".pools"); err != nil {
			return nil, err
		}
	}
	for _, listener := range listeners {
		if err := g.readListener(listener, path+".listeners"); err != nil {
			return nil, err
		}
	}
	return g.tree, g.link()
}

func objects(
	given map[string]json.RawMessage, name string,
) (list []map[string]json.RawMessage, err error) {
	if raw, has := given[name]; has && json.Unmarshal(raw, &list) != nil {
		return nil, badInput(name, resource.Text(raw), "Value should be an array of objects.")
	}
	return list, nil
}

func child(
	given map[string]json.RawMessage, name string,
) (fields map[string]json.RawMessage, err error) {
	if raw, has := given[name]; has && json.Unmarshal(raw, &fields) != nil {
		return nil, badInput(name, resource.Text(raw), "Value should be an object.")
	}
	return fields, nil
}

func (g graphReader) readListener(given map[string]json.RawMessage, path string) error {
	l := &Listener{}
	g.types.listener.Complete(l)
	if err := g.types.listener.Read(l, given, true, wsme(path), "default_pool",
		"l7policies"); err != nil {
		return err
	}
	g.tree.listeners = append(g.tree.listeners, l)
	if l.DefaultPoolID != "" {
		// The body creates all pools, so none has an ID yet.
		return notFound("Pool", l.DefaultPoolID)
	}
	pool, err := child(given, "default_pool")
	if err != nil || pool == nil {
		return err
	}
	name := parentID(pool, "name")
	if name == "" {
		return invalid("Pools must be named when creating a fully populated loadbalancer.")
	}
	g.wanted[l] = name
	// A body with only the name, and attributes with a default, refers to another pool.
	for key := range pool {
		if !slices.Contains([]string{"name", "admin_state_up", "tls_enabled"}, key) {
			return g.readPool(pool, path+".default_pool")
		}
	}
	return nil
}

// readPool reads a pool of the load balancer or of a listener.
func (g graphReader) readPool(given map[string]json.RawMessage, path string) error {
	p := &poolTree{}
	// In a graph, WSME treats these as optional, because a pool can be a reference.
	for _, attribute := range []string{"protocol", "lb_algorithm"} {
		if !present(given, attribute) {
			return invalid("Pool definition for '%s' missing required attribute: %s",
				parentID(given, "name"), attribute)
		}
	}
	err := g.types.pool.Read(&p.Pool, given, true, wsme(path), "members", "healthmonitor")
	members, errMembers := objects(given, "members")
	monitor, errMonitor := child(given, "healthmonitor")
	if err := cmp.Or(err, errMembers, errMonitor); err != nil {
		return err
	}
	for _, member := range members {
		m, err := g.readMember(member, wsme(path+".members"))
		if err != nil {
			return err
		}
		p.members = append(p.members, m)
	}
	if monitor != nil {
		p.monitor = &HealthMonitor{}
		g.types.monitor.Complete(p.monitor)
		if err := g.types.monitor.Read(p.monitor, monitor, true,
			wsme(path+".healthmonitor")); err != nil {
			return err
		}
	}
	g.tree.pools = append(g.tree.pools, p)
	return nil
}

// link uses each pool's name as a temporary ID, and sets the listeners' default pools.
func (g graphReader) link() error {
	byName := map[string]*poolTree{}
	for _, p := range g.tree.pools {
		if byName[p.Name] != nil {
			return invalid(
				"Pool names must be unique when creating a fully populated loadbalancer.")
		}
		byName[p.Name] = p
		p.ID = p.Name
	}
	for l, name := range g.wanted {
		if byName[name] == nil {
			return invalid("Pool '%s' was referenced but no full definition was found.", name)
		}
		l.DefaultPoolID = name
	}
	return nil
}

// createTree checks the load balancer and all resources below it, and creates all of them or none.
// It generates missing IDs. The caller starts the work.
func (s *Service) createTree(c api.Caller, t *tree) error {
	if err := s.placeVIP(c, &t.LoadBalancer); err != nil {
		return err
	}
	if err := cmp.Or(s.chooseProvider(&t.LoadBalancer), s.admitQuotas(t)); err != nil {
		return err
	}
	if t.ID == "" {
		t.ID = s.NewID()
	}
	if err := s.makeVIP(t); err != nil {
		return err
	}
	// The rules compare CIDRs with the VIP, so the port comes first.
	if err := s.admitTree(t); err != nil {
		s.dropVIP(t)
		return err
	}
	for _, row := range t.resources() {
		if id := row.ID; id != "" {
			s.add(t, row)
			row.ID = id
		} else {
			s.add(t, row)
		}
	}
	t.doomed = s.lacksSubnet(t)
	s.trees = append(s.trees, t)
	return nil
}

// lacksSubnet reports whether the work fails because the subnet of a member does not exist. Octavia
// does not check the subnets of members when a request creates a whole load balancer.
func (s *Service) lacksSubnet(t *tree) bool {
	for _, p := range t.pools {
		for _, m := range p.members {
			if m.SubnetID == "" || m.ProvisioningStatus == StatusPendingDelete {
				continue
			}
			if _, err := s.network.Subnet(m.SubnetID); err != nil {
				return true
			}
		}
	}
	return false
}

// admitTree checks the pools first, and then the listeners.
func (s *Service) admitTree(t *tree) error {
	driver := driverOf(t.Provider)
	for _, p := range t.pools {
		if err := s.admitPoolTree(t, p, driver); err != nil {
			return err
		}
	}
	for i, l := range t.listeners {
		if err := cmp.Or(
			admitDefaultPool(t, l), s.admitListenerOf(t, l, t.listeners[:i]),
		); err != nil {
			return err
		}
	}
	return nil
}

// admitPoolTree does not check the session persistence, nor the algorithm with amphorae: Octavia
// checks them only when a pool is created alone.
func (s *Service) admitPoolTree(t *tree, p *poolTree, driver driver) error {
	if driver.ovn {
		if err := driver.admitPool(&p.Pool); err != nil {
			return err
		}
	}
	if p.monitor != nil {
		if err := cmp.Or(
			admitMonitor(p.monitor, p.Protocol), driver.admitMonitor(p.monitor),
		); err != nil {
			return err
		}
	}
	for _, m := range p.members {
		if err := s.admitMemberOf(t, p, m); err != nil {
			return err
		}
	}
	return nil
}
