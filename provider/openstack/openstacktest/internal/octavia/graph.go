package octavia

import (
	"encoding/json"
	"net/http"
	"slices"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// A load balancer can be created with all that is below it in one request. A listener then has its
// pool in itself, or the name of one (LoadBalancersController._graph_create).

// graphReader reads such a body.
type graphReader struct {
	minor int
	tree  *tree
	// wanted are the names of the listeners' pools.
	wanted map[*Listener]string
}

func newListener() *Listener {
	return &Listener{
		ConnectionLimit: -1, ClientAuthentication: "NONE",
		TimeoutClientData: 50000, TimeoutMemberConnect: 5000, TimeoutMemberData: 50000,
	}
}

func newMember() *Member { return &Member{Weight: 1} }

func newMonitor() *HealthMonitor { return &HealthMonitor{MaxRetriesDown: 3} }

// readTree reads the body of a creation; the ids are not yet made.
func readTree(given map[string]json.RawMessage, minor int) (*tree, error) {
	g := graphReader{minor: minor, tree: &tree{}, wanted: map[*Listener]string{}}
	path := "load_balancer.loadbalancer"
	err := loadBalancerFields().read(&g.tree.LoadBalancer, given, true, minor, path, "listeners",
		"pools", "project_id", "tenant_id")
	if err != nil {
		return nil, err
	}
	listeners, err := objects(given, "listeners")
	if err != nil {
		return nil, err
	}
	pools, err := objects(given, "pools")
	if err != nil {
		return nil, err
	}
	for _, pool := range pools {
		if err := g.readPool(pool, path+".pools"); err != nil {
			return nil, err
		}
	}
	for _, listener := range listeners {
		if err := g.readListener(listener); err != nil {
			return nil, err
		}
	}
	return g.tree, g.link()
}

func objects(
	given map[string]json.RawMessage, name string,
) (list []map[string]json.RawMessage, err error) {
	if raw, present := given[name]; present {
		if why := readJSON(raw, &list, "Value should be an array of objects."); why != "" {
			return nil, badInput(name, wsmeValue(raw), why)
		}
	}
	return list, nil
}

func child(
	given map[string]json.RawMessage, name string,
) (fields map[string]json.RawMessage, err error) {
	if raw, present := given[name]; present {
		if why := readJSON(raw, &fields, "Value should be an object."); why != "" {
			return nil, badInput(name, wsmeValue(raw), why)
		}
	}
	return fields, nil
}

func (g graphReader) readListener(given map[string]json.RawMessage) error {
	l := newListener()
	path := "load_balancer.loadbalancer.listeners"
	if err := listenerFields().read(l, given, true, g.minor, path, "default_pool",
		"l7policies"); err != nil {
		return err
	}
	policies, err := objects(given, "l7policies")
	if err != nil {
		return err
	}
	if len(policies) > 0 {
		return noPolicies()
	}
	g.tree.listeners = append(g.tree.listeners, l)
	if l.DefaultPoolID != "" {
		// There is no pool yet that it could be.
		return notFound("Pool", l.DefaultPoolID)
	}
	pool, err := child(given, "default_pool")
	if err != nil || pool == nil {
		return err
	}
	var name string
	if raw, present := pool["name"]; present {
		_ = json.Unmarshal(raw, &name)
	}
	if name == "" {
		return invalid("Pools must be named when creating a fully populated loadbalancer.")
	}
	g.wanted[l] = name
	if !isReference(pool) {
		return g.readPool(pool, path+".default_pool")
	}
	return nil
}

// isReference: with a name, and what has a default in any case, it is another pool's.
func isReference(pool map[string]json.RawMessage) bool {
	for key := range pool {
		if !slices.Contains([]string{"name", "admin_state_up", "tls_enabled"}, key) {
			return false
		}
	}
	return true
}

// readPool reads a pool of which the path tells whether it is in a listener.
func (g graphReader) readPool(given map[string]json.RawMessage, path string) error {
	p := &poolTree{}
	name := parentID(given, "name")
	// In a graph these are not mandatory for WSME, so that a pool can be a reference.
	for _, attribute := range []string{"protocol", "lb_algorithm"} {
		if _, present := given[attribute]; !present {
			return invalid("Pool definition for '%s' missing required attribute: %s", name,
				attribute)
		}
	}
	if err := poolFields().read(&p.Pool, given, true, g.minor, path, "members",
		"healthmonitor"); err != nil {
		return err
	}
	members, err := objects(given, "members")
	if err != nil {
		return err
	}
	for _, member := range members {
		m := newMember()
		if err := memberFields().read(m, member, true, g.minor, path+".members"); err != nil {
			return err
		}
		p.members = append(p.members, m)
	}
	monitor, err := child(given, "healthmonitor")
	if err != nil {
		return err
	}
	if monitor != nil {
		p.monitor = newMonitor()
		if err := monitorFields().read(p.monitor, monitor, true, g.minor,
			path+".healthmonitor"); err != nil {
			return err
		}
	}
	g.tree.pools = append(g.tree.pools, p)
	return nil
}

// link makes the pools' ids what the listeners ask for: an id is the name until it is made.
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
	for _, l := range g.tree.listeners {
		name, wants := g.wanted[l]
		if !wants {
			continue
		}
		if byName[name] == nil {
			return invalid("Pool '%s' was referenced but no full definition was found.",
				name)
		}
		l.DefaultPoolID = name
	}
	return nil
}

// createTree checks the load balancer and all below it, and then makes all of it or nothing. Ids
// are made for all that has none. The caller starts the work.
func (s *Service) createTree(c api.Caller, t *tree) error {
	if err := s.placeVIP(c, &t.LoadBalancer); err != nil {
		return err
	}
	if err := s.chooseProvider(&t.LoadBalancer); err != nil {
		return err
	}
	if err := s.admitQuotas(t); err != nil {
		return err
	}
	if t.ID == "" {
		t.ID = s.NewID()
	}
	if err := s.makeVIP(t); err != nil {
		return err
	}
	// The CIDRs are compared with the VIP, so the port comes first.
	if err := s.admitTree(t); err != nil {
		s.dropVIP(t)
		return err
	}
	s.begin(t)
	return nil
}

// begin makes the resources.
func (s *Service) begin(t *tree) {
	now := s.Clock.Now()
	for _, resource := range t.resources() {
		if resource.ID == "" {
			resource.ID = s.NewID()
		}
		s.born(t, resource)
		t.set(resource, StatusPendingCreate, now)
	}
	t.doomed = s.lacksSubnet(t)
	s.trees = append(s.trees, t)
}

// born sets what a new resource has before the work on it is done.
func (s *Service) born(t *tree, resource *OctaviaResource) {
	resource.ProjectID = t.ProjectID
	resource.OperatingStatus = statusOffline
}

// lacksSubnet: subnets of members are not looked at when a whole load balancer is created, nor when
// a batch changes existing ones. The work fails.
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
	provider := s.options.provider(t.Provider)
	if err := provider.admitTree(t); err != nil {
		return err
	}
	for _, p := range t.pools {
		if err := s.admitPoolTree(t, p, provider); err != nil {
			return err
		}
	}
	for i, l := range t.listeners {
		if p := t.pool(l.DefaultPoolID); p != nil {
			if err := admitProtocols(l.Protocol, p.Protocol); err != nil {
				return err
			}
		}
		if err := s.admitListenerOf(t, l, t.listeners[:i]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Service) admitPoolTree(t *tree, p *poolTree, provider driver) error {
	// The session persistence, and the algorithm that amphorae do not have, are looked at only when
	// a pool is made alone.
	if err := admitRevocation(&p.Pool); err != nil {
		return err
	}
	if provider.ovn {
		if err := provider.admitPool(&p.Pool); err != nil {
			return err
		}
	}
	if p.monitor != nil {
		if err := admitMonitor(p.monitor, p.Protocol); err != nil {
			return err
		}
		if err := provider.admitMonitor(p.monitor); err != nil {
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

func noPolicies() error {
	return refuse(http.StatusNotImplemented, "L7 policies are not simulated.")
}
