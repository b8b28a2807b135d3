package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
	"github.com/fxccm/fxccm/provider/openstack/internal/sharing"
)

// question requests servers. A batch answers it.
type question struct {
	// Exactly one is set: the ID of a server, a name, or list for the list of all servers.
	id, name string
	list     bool
	// systemUUID decides between servers of one name.
	systemUUID string
	// ports requests the ports, too.
	ports   bool
	purpose purpose
	// found and missing are the earliest request times of a response that contains a server, or
	// denies it.
	found, missing time.Time
	// unlisted is the earliest time for a server that exists although lists omit it. Zero: as
	// found.
	unlisted time.Time
	// isLeaving: the node is marked for removal, so its server is rightly unlisted.
	isLeaving bool

	// The result, valid when the batch is done.
	outcome outcome
	err     error
}

// outcome is the result of a lookup.
type outcome struct {
	// servers is empty if Nova denied the server.
	servers []*server
	// ports are those of the first server, if requested.
	ports []port
	// at is the time of the request to Nova.
	at time.Time
}

func (q *question) key() string {
	if q.id != "" {
		return idKey(q.id)
	}
	return nameKey(q.name)
}

func idKey(id string) string { return "id " + id }

// nameKey is equal for names that differ in case.
func nameKey(name string) string { return "name " + strings.ToLower(name) }

// errUnlisted is returned for a server that a list lacks when the limit of direct requests is used
// up.
var errUnlisted = errors.New("the server list lacks it; a direct request to Nova is pending")

const (
	// directWidth limits concurrent direct requests.
	directWidth = 8
	// confirmations limits the direct requests for unlisted servers within
	// [lookups.confirmationPeriod].
	confirmations = 10
	// leastConfirmationPeriod applies if cached data expires earlier.
	leastConfirmationPeriod = 4 * time.Second
)

// lookups answers questions from the cache, or with requests that serve many questions at once. It
// is safe for concurrent use.
type lookups struct {
	nova    *nova
	neutron *neutron
	project func(context.Context) (string, error)
	share   sharing.Read
	clock   clock.PassiveClock
	logger  logr.Logger
	// observe counts the sources of responses: see the Source constants.
	observe func(source string)
	// upcoming is the number of questions that will follow for a purpose. It is called without the
	// lock.
	upcoming func(purpose) int
	// own selects the servers to cache from a list of a project that many clusters use. Nil, and a
	// nil result: all. It is called without the lock.
	own func() func(*server) bool
	// statusAge limits the age of a cached status, networkAge that of a network; cached data is
	// dropped after keep.
	statusAge, networkAge, keep time.Duration

	batches *batch.Batches[*question]

	mu     sync.Mutex
	demand demand
	memory memory
	// confirmed has the times of direct requests for unlisted servers.
	confirmed []time.Time
}

// find answers a question, or returns when ctx ends.
func (l *lookups) find(ctx context.Context, q *question) (outcome, error) {
	if known, ok := l.remember(q); ok {
		l.observe(SourceCache)
		return known, nil
	}
	if err := l.batches.Ask(ctx, q); err != nil {
		return outcome{}, err
	}
	return q.outcome, q.err
}

func (l *lookups) remember(q *question) (outcome, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !q.list {
		l.demand.note(q.purpose, q.key(), l.clock.Now())
	}
	return l.memory.answer(q)
}

// answer serves a batch: first the servers, then their ports. The failure of one question does not
// affect others.
func (l *lookups) answer(ctx context.Context, questions []*question) {
	many := l.areMany(questions)
	l.answerServers(ctx, questions, many)
	l.answerPorts(ctx, questions, many)

	l.mu.Lock()
	defer l.mu.Unlock()
	for _, q := range questions {
		if q.err != nil {
			continue
		}
		var ok bool
		if q.outcome, ok = l.memory.answer(q); !ok {
			q.err = fmt.Errorf("look up %s: it changed during the lookup", q.key())
		}
	}
	l.memory.forget(l.clock.Now().Add(-l.keep))
}

// areMany chooses the cheaper way: one request for each expected server, or the pages of a list.
func (l *lookups) areMany(questions []*question) bool {
	upcoming := map[purpose]int{}
	for _, q := range questions {
		if _, counted := upcoming[q.purpose]; !counted {
			upcoming[q.purpose] = l.upcoming(q.purpose)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for p, known := range upcoming {
		if max(known, l.demand.expected(p, l.clock.Now())) > max(p.few(), l.memory.list.calls) {
			return true
		}
	}
	return false
}

func (l *lookups) answerServers(ctx context.Context, questions []*question, many bool) {
	open := l.withoutServers(questions)
	wantList := slices.DeleteFunc(slices.Clone(open), func(q *question) bool { return !q.list })
	if len(wantList) > 0 || many && l.listHelps(open, &l.memory.list.at) {
		if err := l.listServers(ctx, newest(open)); err != nil {
			if many {
				fail(open, err)
			}
			fail(wantList, err)
		}
		open = l.withoutServers(open)
	}
	l.askDirectly(ctx, open, many)
}

func (l *lookups) withoutServers(questions []*question) []*question {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(questions), func(q *question) bool {
		_, ok := l.memory.servers(q)
		return ok || q.err != nil
	})
}

// listHelps reports whether a newer list than that of a time can answer one of the questions.
func (l *lookups) listHelps(open []*question, listed *time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(open, func(q *question) bool {
		return q.found.After(*listed) || listed.IsZero()
	})
}

// newest is the earliest request time of a list that may answer all questions.
func newest(open []*question) (found time.Time) {
	for _, q := range open {
		found = later(found, q.found)
	}
	return found
}

type serverList struct {
	servers []*server
	calls   int
}

// listServers uses a list from the given time or later.
func (l *lookups) listServers(ctx context.Context, newer time.Time) error {
	l.observe(SourceList)
	list, at, err := sharing.Of(ctx, l.share, l.clock, "servers", newer,
		func(ctx context.Context) (list serverList, err error) {
			list.servers, list.calls, err = l.nova.servers(ctx)
			return list, err
		})
	if err != nil {
		return err
	}
	isOwn := func(*server) bool { return true }
	if l.own != nil {
		if selected := l.own(); selected != nil {
			isOwn = selected
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.putList(list.servers, at, list.calls, func(s *server) bool {
		return isOwn(s) || l.demand.wants(idKey(s.ID)) || l.demand.wants(nameKey(s.Name))
	})
	l.logger.V(4).Info("Listed servers", "servers", len(list.servers), "requests", list.calls)
	return nil
}

// askDirectly sends a request for each server. If a new list lacks many of them, their number is
// limited, because the list may be wrong. Servers of nodes that are marked for removal do not
// count: nodes that the mass deletion guard keeps would use up the limit again and again.
func (l *lookups) askDirectly(ctx context.Context, open []*question, limited bool) {
	byKey := map[string][]*question{}
	var keys []string
	for _, q := range open {
		key := q.key()
		if byKey[key] == nil {
			if limited && !q.isLeaving && !l.mayConfirm() {
				fail([]*question{q}, errUnlisted)
				continue
			}
			keys = append(keys, key)
		}
		byKey[key] = append(byKey[key], q)
	}
	errs := batch.InParallel(keys, directWidth, func(key string) error {
		l.observe(SourceDirect)
		return l.askOne(ctx, byKey[key][0])
	})
	for i, err := range errs {
		if err != nil {
			fail(byKey[keys[i]], err)
		}
	}
}

func (l *lookups) mayConfirm() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock.Now()
	l.confirmed = slices.DeleteFunc(l.confirmed, func(at time.Time) bool {
		return now.Sub(at) >= l.confirmationPeriod()
	})
	if len(l.confirmed) >= confirmations {
		return false
	}
	l.confirmed = append(l.confirmed, now)
	return true
}

// confirmationPeriod is about one interval of the node controllers.
func (l *lookups) confirmationPeriod() time.Duration {
	return max(l.statusAge, leastConfirmationPeriod)
}

func (l *lookups) askOne(ctx context.Context, q *question) error {
	at := l.clock.Now()
	if q.id == "" {
		servers, err := l.nova.serversNamed(ctx, q.name)
		if err != nil {
			return err
		}
		l.mu.Lock()
		defer l.mu.Unlock()
		l.memory.putNamed(q.name, servers, at)
		return nil
	}
	s, err := l.nova.server(ctx, q.id)
	if err != nil && !isNotFound(err) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.putServer(q.id, s, at)
	return nil
}

// showsSince reports whether a response since a time contains the server.
func (l *lookups) showsSince(id, name string, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.knowsSince(id, name, since)
}

// lacks returns which nodes are neither in the last list nor in a newer response.
func (l *lookups) lacks(nodes []knownNode) []bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	missing := make([]bool, len(nodes))
	if l.memory.list.at.IsZero() {
		return missing
	}
	for i, n := range nodes {
		missing[i] = !l.memory.knowsSince(n.id, n.name, l.memory.list.at)
	}
	return missing
}

func fail(questions []*question, err error) {
	for _, q := range questions {
		q.err = err
	}
}
