package instances

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/batch"
)

// question asks for servers, and is answered by a batch.
type question struct {
	// One of these: the server with this id, those with this name, or only that the list of servers is there.
	id, name string
	list     bool
	// ports asks for the ports too.
	ports   bool
	purpose purpose
	// found and missing are when Nova must have been asked, at the earliest, to tell a server, or that there is none.
	found, missing time.Time
	// unlisted is the same for a server that is there although lists leave it out. Zero: as found.
	unlisted time.Time

	// The answer, once the batch is done.
	outcome outcome
	err     error
}

// outcome is what Nova and Neutron know.
type outcome struct {
	// servers are empty if Nova denied that there is one.
	servers []*server
	// ports are those of the first server, if they were asked for.
	ports []port
	// at is when Nova was asked.
	at time.Time
}

// key is what the question is about.
func (q *question) key() string {
	if q.id != "" {
		return idKey(q.id)
	}
	return nameKey(q.name)
}

func idKey(id string) string     { return "id " + id }
func nameKey(name string) string { return "name " + name }

// errUnlisted is returned for what a list lacks, when many direct requests were made already to ask for such.
var errUnlisted = errors.New("the list of servers lacks it, and Nova is yet to be asked for it directly")

const (
	// directWidth is how many direct requests are made at a time.
	directWidth = 8
	// confirmations is how many servers that a list lacks are asked for directly within [lookups.confirmationPeriod].
	confirmations = 10
	// leastConfirmationPeriod holds where little is remembered.
	leastConfirmationPeriod = 4 * time.Second
)

// lookups answers questions from what is remembered, or by asking Nova and Neutron for many at once. It is safe for concurrent use.
type lookups struct {
	nova    *nova
	neutron *neutron
	project func(context.Context) (string, error)
	clock   clock.PassiveClock
	logger  logr.Logger
	// observe is told where each answer came from: see the Source constants.
	observe func(source string)
	// upcoming is how many questions are known to come for a purpose. It is not called with the lock held.
	upcoming func(purpose) int
	// statusAge is how old an answer about a status may be, networkAge one about a network; after keep all is forgotten.
	statusAge, networkAge, keep time.Duration

	batches *batch.Batches[*question]

	mu     sync.Mutex
	demand demand
	memory memory
	// confirmed is when servers were asked for directly that the list lacked.
	confirmed []time.Time
}

// find answers a question. It waits no longer than ctx.
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

// answer is the work of a batch: servers, then their ports. What one question failed of does not concern the others.
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
			q.err = fmt.Errorf("look up %s: it changed meanwhile", q.key())
		}
	}
	l.memory.forget(l.clock.Now().Add(-l.keep))
}

// areMany chooses by the number of requests: one for each server that is about to be asked for, or the pages of a list.
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
	if len(wantList) > 0 || many && l.listHelps(open) {
		if err := l.listServers(ctx); err != nil {
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

// listHelps tells whether a new list can answer one of the questions: it must be newer than the one that is there.
func (l *lookups) listHelps(open []*question) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(open, func(q *question) bool { return q.found.After(l.memory.list.at) || l.memory.list.at.IsZero() })
}

func (l *lookups) listServers(ctx context.Context) error {
	l.observe(SourceList)
	at := l.clock.Now()
	servers, calls, err := l.nova.servers(ctx)
	if err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.memory.putList(servers, at, calls)
	l.logger.V(4).Info("Listed servers", "servers", len(servers), "requests", calls)
	return nil
}

// askDirectly asks for each server by itself. If a list has just lacked many of them, only some are: the list may be wrong, but
// a thousand requests are no answer to that.
func (l *lookups) askDirectly(ctx context.Context, open []*question, limited bool) {
	byKey := map[string][]*question{}
	var keys []string
	for _, q := range open {
		key := q.key()
		if byKey[key] == nil {
			if limited && !l.mayConfirm() {
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
	l.confirmed = slices.DeleteFunc(l.confirmed, func(at time.Time) bool { return now.Sub(at) >= l.confirmationPeriod() })
	if len(l.confirmed) >= confirmations {
		return false
	}
	l.confirmed = append(l.confirmed, now)
	return true
}

// confirmationPeriod is about a round of upstream's questions.
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

// showsSince tells whether Nova has shown a server after a time.
func (l *lookups) showsSince(id, name string, since time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.memory.knowsSince(id, name, since)
}

// lacks tells which of the nodes neither the last list holds nor any newer answer.
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

func (l *lookups) close() { l.batches.Close() }

func fail(questions []*question, err error) {
	for _, q := range questions {
		q.err = err
	}
}
