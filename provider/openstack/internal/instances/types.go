package instances

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"sync"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"golang.org/x/sync/semaphore"
	"k8s.io/utils/clock"
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

	// asking is held while a request is in flight, so that concurrent callers share it.
	asking *semaphore.Weighted

	mu    sync.Mutex
	known map[flavor]knownType
}

// An instanceType is the label of a server's node.
type instanceType struct {
	label string
	// refused is the name of the flavor if it is not a valid label.
	refused string
}

type knownType struct {
	instanceType
	until time.Time
}

// of sends a request only for the first server of a flavor, and none if the server contains a name
// that is a valid label.
func (t *instanceTypes) of(ctx context.Context, s *server) (instanceType, error) {
	if name := s.Flavor.OriginalName; name != "" && isLabelValue(name) {
		return instanceType{label: name}, nil
	}
	if kind, ok := t.recall(s.Flavor); ok {
		return kind, nil
	}
	if err := t.asking.Acquire(ctx, 1); err != nil {
		return instanceType{}, err
	}
	defer t.asking.Release(1)
	// Another caller may have asked in the meantime.
	if kind, ok := t.recall(s.Flavor); ok {
		return kind, nil
	}
	kind, life, err := t.ask(ctx, s)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		now := t.clock.Now()
		maps.DeleteFunc(t.known, func(_ flavor, k knownType) bool { return !now.Before(k.until) })
		t.known[s.Flavor] = knownType{kind, now.Add(life)}
	}
	return kind, err
}

func (t *instanceTypes) recall(f flavor) (instanceType, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[f]
	return known.instanceType, ok && t.clock.Now().Before(known.until)
}

func (t *instanceTypes) ask(ctx context.Context, s *server) (kind instanceType,
	life time.Duration, err error,
) {
	if name := s.Flavor.OriginalName; name != "" {
		id, err := t.nova.flavorID(ctx, s.ID)
		return instanceType{cmp.Or(labelValue(id), labelValue(name)), name}, flavorLife, err
	}
	if s.Flavor.ID == "" {
		return instanceType{}, flavorLife, nil
	}
	name, err := t.nova.flavorName(ctx, s.Flavor.ID)
	switch {
	case isNotFound(err) || gophercloud.ResponseCodeIs(err, http.StatusForbidden):
		// The flavor was deleted or belongs to another project.
		return instanceType{label: labelValue(s.Flavor.ID)}, t.retry, nil
	case err != nil:
		return instanceType{}, 0, err
	case !isLabelValue(name) || name == "":
		return instanceType{labelValue(s.Flavor.ID), name}, flavorLife, nil
	}
	return instanceType{label: name}, flavorLife, nil
}
