package suite

import (
	"context"
	"errors"
	"testing"
	"time"
)

// A Pool lends control planes to the tests of a package, so that tests that need a whole cluster,
// and call t.Parallel, run in parallel.
type Pool struct {
	options Options
	// idle has a place for each control plane; it is nil until the control plane is started.
	idle chan *Suite
}

// NewPool is a pool of size control planes with the same options.
func NewPool(size int, o Options) *Pool {
	p := &Pool{options: o, idle: make(chan *Suite, size)}
	for range size {
		p.idle <- nil
	}
	return p
}

// Take lends a control plane until the test ends, and waits for a free one. It is started on
// demand. It has the objects that earlier tests have left.
func (p *Pool) Take(t testing.TB) *Suite {
	t.Helper()
	s := <-p.idle
	t.Cleanup(func() { p.idle <- s })
	if s != nil {
		return s
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	started := &Suite{}
	if err := started.start(ctx, p.options); err != nil {
		t.Fatal(errors.Join(err, started.stop()))
	}
	s = started
	return s
}

// Run runs the tests, and stops the control planes. The code is for os.Exit. See [Quietly] for the
// logs.
func (p *Pool) Run(m *testing.M) (code int) {
	return Quietly(func() int {
		code := m.Run()
		for range cap(p.idle) {
			s := <-p.idle
			if s == nil {
				continue
			}
			var err error
			if code == 0 && p.options.Check != nil {
				err = p.options.Check(s)
			}
			if err = errors.Join(err, s.stop()); err != nil {
				code = Failed(err)
			}
		}
		return code
	})
}
