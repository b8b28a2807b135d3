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

type knownType struct {
	name  string
	until time.Time
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
	if err := t.asking.Acquire(ctx, 1); err != nil {
		return "", err
	}
	defer t.asking.Release(1)
	// Another caller may have asked in the meantime.
	if name, ok := t.recall(s.Flavor); ok {
		return name, nil
	}
	name, life, err := t.ask(ctx, s)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		now := t.clock.Now()
		maps.DeleteFunc(t.known, func(_ flavor, k knownType) bool { return !now.Before(k.until) })
		t.known[s.Flavor] = knownType{name, now.Add(life)}
	}
	return name, err
}

func (t *instanceTypes) recall(f flavor) (string, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	known, ok := t.known[f]
	return known.name, ok && t.clock.Now().Before(known.until)
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
