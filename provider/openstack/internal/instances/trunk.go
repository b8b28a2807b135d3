package instances

import (
	"context"
	"maps"
	"slices"
)

func hasSubports(p port) bool { return p.Trunk != nil && len(p.Trunk.Subports) > 0 }

// resolveSubports looks up the subports of trunks that are not in known, and the names of their
// networks. Subports and networks without access are omitted.
func (l *lookups) resolveSubports(ctx context.Context, byServer map[string][]port,
	known []port,
) error {
	wanted := map[string]bool{}
	for _, ports := range byServer {
		for _, p := range ports {
			if hasSubports(p) {
				for _, sub := range p.Trunk.Subports {
					wanted[sub.PortID] = true
				}
			}
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	found, err := l.portsWithID(ctx, wanted, known)
	if err != nil {
		return err
	}
	names, err := l.namesOf(ctx, found)
	if err != nil {
		return err
	}
	for _, ports := range byServer {
		for i := range ports {
			if hasSubports(ports[i]) {
				ports[i].subports = subportsOf(ports[i].Trunk, found, names)
			}
		}
	}
	return nil
}

func (l *lookups) portsWithID(ctx context.Context, wanted map[string]bool,
	known []port,
) (map[string]port, error) {
	found := map[string]port{}
	for _, p := range known {
		if wanted[p.ID] {
			found[p.ID] = p
		}
	}
	var missing []string
	for _, id := range slices.Sorted(maps.Keys(wanted)) {
		if _, ok := found[id]; !ok {
			missing = append(missing, id)
		}
	}
	asked, err := l.neutron.ports(ctx, "id", missing)
	for _, p := range asked {
		found[p.ID] = p
	}
	return found, err
}

// namesOf are the names of the ports' networks by ID.
func (l *lookups) namesOf(ctx context.Context, ports map[string]port) (map[string]string, error) {
	now := l.clock.Now()
	names := map[string]string{}
	missing := map[string]bool{}
	l.mu.Lock()
	for _, p := range ports {
		if r, ok := l.memory.networks[p.NetworkID]; ok && now.Sub(r.at) < l.networkAge {
			names[p.NetworkID] = r.name
		} else {
			missing[p.NetworkID] = true
		}
	}
	l.mu.Unlock()
	asked, err := l.neutron.networkNames(ctx, slices.Sorted(maps.Keys(missing)))
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, name := range asked {
		names[id] = name
		l.memory.networks[id] = networkRecord{name, now}
	}
	return names, nil
}

func subportsOf(t *trunk, ports map[string]port, names map[string]string) []subport {
	var all []subport
	for _, sub := range t.Subports {
		p, ok := ports[sub.PortID]
		name, named := names[p.NetworkID]
		if !ok || !named {
			continue
		}
		s := subport{network: name}
		for _, ip := range p.FixedIPs {
			s.addresses = append(s.addresses, ip.Address)
		}
		all = append(all, s)
	}
	return all
}
