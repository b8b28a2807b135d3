package ccm

import (
	"context"
	"time"

	"github.com/fxccm/fxccm/internal/inflight"
)

// Leadership is the leadership behind a term, for a provider or a controller that acts from another
// process. The fence cannot refuse the calls of another process, so that process must have ended
// when another replica may lead.
type Leadership struct {
	// Lost is closed when leadership is lost. This may happen while the term drains after a stop,
	// when the term's context has already ended.
	Lost <-chan struct{}

	// ValidUntil returns the time after which the term must not act; see [election.Grant]. Nil:
	// leadership does not expire by the clock.
	ValidUntil func() time.Time

	// Begin records something outside this process that may act for the term, such as a child
	// process. Until done is called, the term does not end and its lease is not released. A
	// [DrainTimeoutError] lists the name, and its MayAct is true. An error wraps [ErrTermOver].
	Begin func(name string) (done func(), err error)
}

func (t *termRun) leadership() Leadership {
	return Leadership{Lost: t.lost, ValidUntil: t.validUntil, Begin: t.beginOutside}
}

func (t *termRun) beginOutside(name string) (done func(), err error) {
	_, done, err = t.fence.Enter(context.Background(),
		inflight.Activity{Name: name, MayAct: true, Lasting: true})
	return done, err
}
