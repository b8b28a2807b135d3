package loadbalancer

import (
	"context"
	"sync"
)

// locks are one lock for each name, which can be waited for with a context. The zero value is of
// use.
type locks struct {
	mu sync.Mutex
	// held has a channel for each lock that is held, which is closed when it is released.
	held map[string]chan struct{}
}

// lock returns when the caller holds the lock of the name. waited tells whether it was held before.
func (l *locks) lock(ctx context.Context, name string) (unlock func(), waited bool, err error) {
	for {
		released := l.take(name)
		if released == nil {
			return sync.OnceFunc(func() { l.release(name) }), waited, nil
		}
		waited = true
		select {
		case <-released:
		case <-ctx.Done():
			return nil, true, context.Cause(ctx)
		}
	}
}

// take returns nil if the lock was free and is the caller's now, else what to wait for.
func (l *locks) take(name string) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if released, isHeld := l.held[name]; isHeld {
		return released
	}
	if l.held == nil {
		l.held = map[string]chan struct{}{}
	}
	l.held[name] = make(chan struct{})
	return nil
}

func (l *locks) release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[name])
	delete(l.held, name)
}
