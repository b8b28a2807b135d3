package instances

import (
	"maps"
	"time"
)

// memory caches the responses of Nova and Neutron with the times of the requests. A newer response
// replaces an older one. It is no sharing.Lookup, because a list and a direct response answer
// questions by ID and by name, and each question has ages of its own, one for a denial.
type memory struct {
	byID map[string]serverRecord
	// byName is by nameKey, as in listing.
	byName map[string]nameRecord
	list   listing
	// ports are keyed by server ID.
	ports map[string]portRecord
	// portList is when all ports of the project were listed.
	portList time.Time
	networks map[string]networkRecord
}

type serverRecord struct {
	// server is nil if Nova denied the server.
	server *server
	at     time.Time
	// direct: the request was for this ID or name.
	direct bool
}

// nameRecord is the response to a direct request for a name.
type nameRecord struct {
	ids []string
	at  time.Time
}

// listing is the last list of all servers. It proves that a server exists, but not that one is
// absent: Nova's lists omit the servers of cells that are down, and soft-deleted ones.
type listing struct {
	at time.Time
	// calls is the number of requests of the list.
	calls   int
	servers []*server
	byName  map[string][]string
}

type portRecord struct {
	ports []port
	at    time.Time
}

type networkRecord struct {
	name string
	at   time.Time
}

func newMemory() memory {
	return memory{
		byID: map[string]serverRecord{}, byName: map[string]nameRecord{},
		ports: map[string]portRecord{}, networks: map[string]networkRecord{},
	}
}

func (m *memory) putServer(id string, s *server, at time.Time) {
	m.put(id, serverRecord{s, at, true})
}

func (m *memory) put(id string, r serverRecord) {
	if old, ok := m.byID[id]; !ok || !r.at.Before(old.at) {
		m.byID[id] = r
	}
}

func (m *memory) putNamed(name string, servers []*server, at time.Time) {
	name = nameKey(name)
	if old, ok := m.byName[name]; ok && at.Before(old.at) {
		return
	}
	record := nameRecord{at: at}
	for _, s := range servers {
		m.put(s.ID, serverRecord{s, at, true})
		record.ids = append(record.ids, s.ID)
	}
	m.byName[name] = record
}

// putList caches the servers of interest.
func (m *memory) putList(
	servers []*server, at time.Time, calls int, isOfInterest func(*server) bool,
) {
	if at.Before(m.list.at) {
		return
	}
	m.list = listing{
		at: at, calls: calls, servers: servers,
		byName: map[string][]string{},
	}
	for _, s := range servers {
		if !isOfInterest(s) {
			continue
		}
		m.put(s.ID, serverRecord{s, at, false})
		if s.exists() {
			m.list.byName[nameKey(s.Name)] = append(m.list.byName[nameKey(s.Name)], s.ID)
		}
	}
}

// answer returns the result of a question if the cached data is recent enough.
func (m *memory) answer(q *question) (outcome, bool) {
	known, ok := m.servers(q)
	if !ok || !q.ports || len(known.servers) == 0 {
		return known, ok
	}
	ports, ok := m.ports[known.servers[0].ID]
	if !ok || ports.at.Before(q.found) {
		return outcome{}, false
	}
	known.ports = ports.ports
	return known, true
}

// servers is answer without the ports.
func (m *memory) servers(q *question) (outcome, bool) {
	switch {
	case q.list:
		return outcome{servers: m.list.servers, at: m.list.at}, !m.list.at.IsZero() &&
			!m.list.at.Before(q.found)
	case q.id != "":
		return m.serverByID(q)
	}
	return m.serversByName(q)
}

func (m *memory) serverByID(q *question) (outcome, bool) {
	record, ok := m.byID[q.id]
	switch {
	case !ok:
		return outcome{}, false
	case record.server == nil:
		return outcome{at: record.at}, !record.at.Before(q.missing)
	case !record.at.Before(q.found) || m.outlastsList(q, record):
		return outcome{servers: []*server{record.server}, at: record.at}, true
	}
	return outcome{}, false
}

// outlastsList: a server that lists omit needs direct requests. Their responses are valid for
// longer, so that a few such servers do not exhaust the direct requests.
func (m *memory) outlastsList(q *question, r serverRecord) bool {
	return !q.unlisted.IsZero() && r.direct && !r.at.Before(q.unlisted) && m.list.at.After(r.at)
}

// serversByName uses the newer of direct response and list. A server that was denied since then is
// requested again.
func (m *memory) serversByName(q *question) (outcome, bool) {
	name := nameKey(q.name)
	direct, asked := m.byName[name]
	if asked && len(direct.ids) == 0 && !direct.at.Before(q.missing) &&
		(m.list.at.Before(direct.at) || len(m.list.byName[name]) == 0) {
		return outcome{at: direct.at}, true
	}
	ids, at := m.list.byName[name], m.list.at
	if asked && !direct.at.Before(at) {
		ids, at = direct.ids, direct.at
	}
	if len(ids) == 0 || at.Before(q.found) {
		return outcome{}, false
	}
	known := outcome{at: at}
	for _, id := range ids {
		record := m.byID[id]
		if record.server == nil || nameKey(record.server.Name) != name {
			return outcome{}, false
		}
		known.servers = append(known.servers, record.server)
	}
	known.servers = best(known.servers, q.name, q.systemUUID)
	return known, true
}

// knowsSince reports whether a response since a time contains the server.
func (m *memory) knowsSince(id, name string, since time.Time) bool {
	if id != "" {
		record := m.byID[id]
		return record.server != nil && record.server.exists() && !record.at.Before(since)
	}
	name = nameKey(name)
	record := m.byName[name]
	return len(record.ids) > 0 && !record.at.Before(since) || len(m.list.byName[name]) > 0 &&
		!m.list.at.Before(since)
}

// forget drops responses to requests before a time.
func (m *memory) forget(before time.Time) {
	maps.DeleteFunc(m.byID, func(_ string, r serverRecord) bool { return r.at.Before(before) })
	maps.DeleteFunc(m.byName, func(_ string, r nameRecord) bool { return r.at.Before(before) })
	maps.DeleteFunc(m.ports, func(_ string, r portRecord) bool { return r.at.Before(before) })
	maps.DeleteFunc(m.networks, func(_ string, r networkRecord) bool { return r.at.Before(before) })
	if m.list.at.Before(before) {
		m.list = listing{calls: m.list.calls}
	}
}
