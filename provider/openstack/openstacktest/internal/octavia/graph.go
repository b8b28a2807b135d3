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

// readTree reads the body of a creation. The IDs do not exist yet; pools have their names instead.
func (s *Service) readTree(given body, path wsme) (*tree, error) {
	lb, err := readNew(s.types.loadBalancer, given, path, "listeners", "pools", "project_id",
		"tenant_id")
	if err != nil {
		return nil, err
	}
	listeners, errListeners := objects(given, "listeners")
	pools, errPools := objects(given, "pools")
	if err := cmp.Or(errListeners, errPools); err != nil {
		return nil, err
	}
	t := &tree{LoadBalancer: *lb}
	for _, pool := range pools {
		if err := s.readPool(t, pool, path+".pools"); err != nil {
			return nil, err
		}
	}
	for _, listener := range listeners {
		if err := s.readListener(t, listener, path+".listeners"); err != nil {
			return nil, err
		}
	}
	return t, t.link()
}

// readNew reads a new row with its defaults, except for the attributes that the caller handles.
func readNew[T any](
	fields resource.Fields[T], given body, path wsme, handled ...string,
) (*T, error) {
	row := new(T)
	fields.Complete(row)
	return row, fields.Read(row, given, true, path, handled...)
}

func objects(given body, name string) (list []body, err error) {
	if raw, has := given[name]; has && json.Unmarshal(raw, &list) != nil {
		return nil, badInput(name, resource.Text(raw), "Value should be an array of objects.")
	}
	return list, nil
}

func child(given body, name string) (fields body, err error) {
	if raw, has := given[name]; has && json.Unmarshal(raw, &fields) != nil {
		return nil, badInput(name, resource.Text(raw), "Value should be an object.")
	}
	return fields, nil
}

func (s *Service) readListener(t *tree, given body, path wsme) error {
	l, err := readNew(s.types.listener, given, path, "default_pool", "l7policies")
	if err != nil {
		return err
	}
	if l.DefaultPoolID != "" {
		// The body creates all pools, so none has an ID yet.
		return notFound("Pool", l.DefaultPoolID)
	}
	pool, err := child(given, "default_pool")
	if err != nil {
		return err
	}
	if pool != nil {
		l.DefaultPoolID = parentID(pool, "name")
		if l.DefaultPoolID == "" {
			return invalid("Pools must be named when creating a fully populated loadbalancer.")
		}
	}
	t.Listeners = append(t.Listeners, *l)
	// A body with only the name, and attributes with a default, refers to another pool.
	for key := range pool {
		if !slices.Contains([]string{"name", "admin_state_up", "tls_enabled"}, key) {
			return s.readPool(t, pool, path+".default_pool")
		}
	}
	return nil
}

// readPool reads a pool of the load balancer or of a listener.
func (s *Service) readPool(t *tree, given body, path wsme) error {
	// In a graph, WSME treats these as optional, because a pool can be a reference.
	for _, attribute := range []string{"protocol", "lb_algorithm"} {
		if !present(given, attribute) {
			return invalid("Pool definition for '%s' missing required attribute: %s",
				parentID(given, "name"), attribute)
		}
	}
	p, err := readNew(s.types.pool, given, path, "members", "healthmonitor")
	members, errMembers := objects(given, "members")
	monitor, errMonitor := child(given, "healthmonitor")
	if err := cmp.Or(err, errMembers, errMonitor); err != nil {
		return err
	}
	for _, member := range members {
		m, err := readNew(s.types.member, member, path+".members")
		if err != nil {
			return err
		}
		p.Members = append(p.Members, *m)
	}
	if monitor != nil {
		if p.Monitor, err = readNew(s.types.monitor, monitor, path+".healthmonitor"); err != nil {
			return err
		}
	}
	p.ID = p.Name
	t.Pools = append(t.Pools, *p)
	return nil
}

// link checks the names by which pools are referred to.
func (t *tree) link() error {
	names := []string{}
	for _, p := range t.Pools {
		if slices.Contains(names, p.Name) {
			return invalid(
				"Pool names must be unique when creating a fully populated loadbalancer.")
		}
		names = append(names, p.Name)
	}
	for _, l := range t.Listeners {
		if name := l.DefaultPoolID; name != "" && !slices.Contains(names, name) {
			return invalid("Pool '%s' was referenced but no full definition was found.", name)
		}
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
		id := row.ID
		s.add(t, row)
		row.ID = cmp.Or(id, row.ID)
	}
	t.doomed = s.lacksSubnet(t)
	s.trees = append(s.trees, t)
	return nil
}

// lacksSubnet reports whether the work fails because the subnet of a member does not exist. Octavia
// does not check the subnets of members when a request creates a whole load balancer.
func (s *Service) lacksSubnet(t *tree) bool {
	for _, p := range t.Pools {
		for _, m := range p.Members {
			if m.SubnetID == "" || m.ProvisioningStatus == StatusPendingDelete {
				continue
			}
			if _, err := s.network.Subnets.Find(m.SubnetID); err != nil {
				return true
			}
		}
	}
	return false
}

// admitTree checks the pools first, and then the listeners. It does not check the session
// persistence and the algorithm: Octavia checks them only when a pool is created alone.
func (s *Service) admitTree(t *tree) error {
	for p := range each(t.Pools) {
		if p.Monitor != nil {
			if err := admitMonitor(p.Monitor, p.Protocol); err != nil {
				return err
			}
		}
		for m := range each(p.Members) {
			if err := cmp.Or(admitMember(m), admitAddress(m, p.Members)); err != nil {
				return err
			}
		}
	}
	for i := range t.Listeners {
		l := &t.Listeners[i]
		if err := cmp.Or(
			admitDefaultPool(t, l), s.admitListenerOf(t, l, t.Listeners[:i]),
		); err != nil {
			return err
		}
	}
	return nil
}
