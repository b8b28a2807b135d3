package instances

import (
	"context"
	"slices"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// answerPorts looks up the ports of the found servers: all ports of the project, or those of a few
// servers.
func (l *lookups) answerPorts(ctx context.Context, questions []*question, many bool) {
	open := l.withoutPorts(questions)
	var incomplete []string
	if many && l.listHelps(open, &l.memory.portList) {
		var err error
		if incomplete, err = l.listPorts(ctx, newest(open)); err != nil {
			fail(open, err)
			return
		}
		open = l.withoutPorts(questions)
	}
	l.askForPorts(ctx, open, incomplete)
}

// withoutPorts sets the server of each question if it is known, and returns these questions.
func (l *lookups) withoutPorts(questions []*question) []*question {
	l.mu.Lock()
	defer l.mu.Unlock()
	var open []*question
	for _, q := range questions {
		if q.err != nil || !q.ports {
			continue
		}
		if _, ok := l.memory.answer(q); ok {
			continue
		}
		if found, ok := l.memory.servers(q); ok {
			q.outcome = found
			open = append(open, q)
		}
	}
	return open
}

// listPorts lists the project's ports, at the given time or later. A server may have ports of
// another project, which the list lacks. Servers with addresses that no port has are incomplete and
// need their own request.
func (l *lookups) listPorts(
	ctx context.Context, newer time.Time,
) (incomplete []string, err error) {
	project, err := l.project(ctx)
	if err != nil {
		return nil, err
	}
	l.observe(SourceList)
	all, at, err := sharing.Of(ctx, l.share, l.clock, "ports", newer,
		func(ctx context.Context) ([]port, error) {
			return l.neutron.ports(ctx, "project_id", []string{project})
		})
	if err != nil {
		return nil, err
	}
	byServer := map[string][]port{}
	for _, p := range all {
		byServer[p.DeviceID] = append(byServer[p.DeviceID], p)
	}
	complete, incomplete := l.sortOut(byServer)
	// Servers whose subports failed are requested again and fail then.
	_, _ = l.storePorts(ctx, complete, all, at)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.portList = at
	return incomplete, nil
}

// maxIncomplete limits the incomplete servers whose ports are requested, nodes or not; 1000 need 27
// requests.
const maxIncomplete = 1000

// sortOut returns the ports of complete servers, and the incomplete servers. If these are too many,
// only those in demand are returned.
func (l *lookups) sortOut(byServer map[string][]port) (complete map[string][]port,
	incomplete []string,
) {
	l.mu.Lock()
	defer l.mu.Unlock()
	complete = map[string][]port{}
	for id, record := range l.memory.byID {
		switch {
		case record.server == nil:
		case hasPortsForAll(record.server, byServer[id]):
			complete[id] = byServer[id]
		default:
			incomplete = append(incomplete, id)
		}
	}
	if len(incomplete) > maxIncomplete {
		incomplete = slices.DeleteFunc(incomplete, func(id string) bool {
			return !l.demand.wants(idKey(id)) &&
				!l.demand.wants(nameKey(l.memory.byID[id].server.Name))
		})
	}
	slices.Sort(incomplete)
	return complete, incomplete
}

// hasPortsForAll reports whether a port has each fixed address of the server.
func hasPortsForAll(s *server, ports []port) bool {
	has := map[string]bool{}
	for _, p := range ports {
		for _, ip := range p.FixedIPs {
			has[ip.Address] = true
		}
	}
	for _, addresses := range s.Addresses {
		for _, a := range addresses {
			if a.Type != addressFloating && !has[a.Address] {
				return false
			}
		}
	}
	return true
}

// askForPorts requests the ports of the questions' servers and of more servers.
func (l *lookups) askForPorts(ctx context.Context, open []*question, more []string) {
	ids := slices.Clone(more)
	for _, q := range open {
		ids = append(ids, q.outcome.servers[0].ID)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	if len(ids) == 0 {
		return
	}
	failed, err := l.askFor(ctx, ids)
	for _, q := range open {
		if err != nil && (failed == nil || failed[q.outcome.servers[0].ID]) {
			q.err = err
		}
	}
}

// askFor requests the ports of servers. An error concerns the failed servers; nil: all.
func (l *lookups) askFor(ctx context.Context,
	servers []string,
) (failed map[string]bool, err error) {
	l.observe(SourceDirect)
	at := l.clock.Now()
	all, err := l.neutron.ports(ctx, "device_id", servers)
	if err != nil {
		return nil, err
	}
	byServer := map[string][]port{}
	for _, id := range servers {
		byServer[id] = nil
	}
	for _, p := range all {
		byServer[p.DeviceID] = append(byServer[p.DeviceID], p)
	}
	return l.storePorts(ctx, byServer, all, at)
}

// storePorts caches ports with the subports of their trunks. A server whose subports are unreadable
// fails, because the node would lose addresses otherwise.
func (l *lookups) storePorts(ctx context.Context, byServer map[string][]port, known []port,
	at time.Time,
) (failed map[string]bool, err error) {
	trunks := map[string]bool{}
	for id, ports := range byServer {
		trunks[id] = slices.ContainsFunc(ports, hasSubports)
	}
	failed = map[string]bool{}
	if err = l.resolveSubports(ctx, byServer, known); err != nil {
		failed = trunks
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, ports := range byServer {
		if failed[id] || at.Before(l.memory.ports[id].at) {
			continue
		}
		l.memory.ports[id] = portRecord{ports, at}
	}
	return failed, err
}
