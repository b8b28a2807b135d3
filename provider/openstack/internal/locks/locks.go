// Package locks provides one lock for each name. A wait for a lock ends with the context of the
// caller.
package locks

import (
	"context"
	"sync"
)

// Locks are the locks of some names. The zero value is ready to use. It is safe for concurrent use.
type Locks struct {
	mu sync.Mutex
	// held has a channel for each held lock, which is closed when the lock is released.
	held map[string]chan struct{}
}

// Lock returns when the caller holds the lock of the name. unlock may be called several times.
func (l *Locks) Lock(ctx context.Context, name string) (unlock func(), err error) {
	for {
		released := l.take(name)
		if released == nil {
			return sync.OnceFunc(func() { l.release(name) }), nil
		}
		select {
		case <-released:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// TryLock is Lock, but returns false if another caller holds the lock.
func (l *Locks) TryLock(name string) (unlock func(), ok bool) {
	if l.take(name) != nil {
		return nil, false
	}
	return sync.OnceFunc(func() { l.release(name) }), true
}

// take returns nil if the caller holds the lock now, else the channel to wait for.
func (l *Locks) take(name string) <-chan struct{} {
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

func (l *Locks) release(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.held[name])
	delete(l.held, name)
}

// Held is the number of locks that are held.
func (l *Locks) Held() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held)
}
