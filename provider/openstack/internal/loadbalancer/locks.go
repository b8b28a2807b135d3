package loadbalancer

import (
	"context"
	"sync"
)

// locks are one lock for each name, which can be waited for with a context. The zero value is of
// use.
type locks struct {
	mu   sync.Mutex
	held map[string]*lock
}

type lock struct {
	// token is in the channel while the lock is free.
	token chan struct{}
	users int
}

// lock returns when the caller holds the lock of the name. waited tells whether it was held before.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), waited bool, err error) {
	mine := l.enter(name)
	select {
	case <-mine.token:
	default:
		waited = true
		select {
		case <-mine.token:
		case <-ctx.Done():
			l.leave(name)
			return nil, true, context.Cause(ctx)
		}
	}
	return sync.OnceFunc(func() {
		mine.token <- struct{}{}
		l.leave(name)
	}), waited, nil
}

func (l *locks) enter(name string) *lock {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held == nil {
		l.held = map[string]*lock{}
	}
	mine, ok := l.held[name]
	if !ok {
		mine = &lock{token: make(chan struct{}, 1)}
		mine.token <- struct{}{}
		l.held[name] = mine
	}
	mine.users++
	return mine
}

func (l *locks) leave(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held[name].users--
	if l.held[name].users == 0 {
		delete(l.held, name)
	}
}
