package instances

import (
	"cmp"
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// flavorLife is how long a flavor is cached. Its name and ID never change.
const flavorLife = time.Hour

// instanceTypes returns the instance type of servers: the flavor's name, or its ID if the name is
// not a valid label, as in OCCM. It is safe for concurrent use.
type instanceTypes struct {
	nova  *nova
	clock clock.PassiveClock
	// retry is how long an unreadable flavor is cached.
	retry time.Duration

	batches *batch.Batches[*typeQuestion]
	mu      sync.Mutex
	known   map[flavor]knownType
}

type knownType struct {
	name  string
	until time.Time
}

type typeQuestion struct {
	server *server
	name   string
	err    error
}

// of sends a request only for the first server of a flavor, and none if the server contains a name
// that is a valid label.
func (t *instanceTypes) of(ctx context.Context, s *server) (string, error) {
	if name := s.Flavor.OriginalName; name != "" && isLabelValue(name) {
		return name, nil
	}
	if name, ok := t.recall(s.Flavor); ok {
		return name, nil
	}
	q := &typeQuestion{server: s}
	if err := t.batches.Ask(ctx, q); err != nil {
		return "", err
	}
	return q.name, q.err
}

func (t *instanceTypes) recall(f flavor) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[f]
	return known.name, ok && t.clock.Now().Before(known.until)
}

func (t *instanceTypes) answer(ctx context.Context, questions []*typeQuestion) {
	for _, q := range questions {
		var ok bool
		if q.name, ok = t.recall(q.server.Flavor); ok {
			continue
		}
		var life time.Duration
		if q.name, life, q.err = t.ask(ctx, q.server); q.err == nil {
			t.mu.Lock()
			t.known[q.server.Flavor] = knownType{q.name, t.clock.Now().Add(life)}
			t.mu.Unlock()
		}
	}
}

func (t *instanceTypes) ask(ctx context.Context, s *server) (name string,
	life time.Duration, err error,
) {
	if s.Flavor.OriginalName != "" {
		id, err := t.nova.flavorID(ctx, s.ID)
		return cmp.Or(labelValue(id), labelValue(s.Flavor.OriginalName)), flavorLife, err
	}
	if s.Flavor.ID == "" {
		return "", flavorLife, nil
	}
	name, err = t.nova.flavorName(ctx, s.Flavor.ID)
	switch {
	case isNotFound(err) || gophercloud.ResponseCodeIs(err, http.StatusForbidden):
		// The flavor was deleted or belongs to another project.
		return labelValue(s.Flavor.ID), t.retry, nil
	case err != nil:
		return "", 0, err
	case !isLabelValue(name) || name == "":
		return labelValue(s.Flavor.ID), flavorLife, nil
	}
	return name, flavorLife, nil
}
