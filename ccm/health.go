package ccm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
)

// leaseWatchdogTolerance is how long after the end of its lease a leader may go on before its
// health check fails, as upstream.
const leaseWatchdogTolerance = 20 * time.Second

// A Check is a named health check. It has the shape of k8s.io/apiserver's healthz.HealthChecker, so it
// can be used as one.
type Check struct {
	name  string
	check func(*http.Request) error
}

// Name names the check; it is a part of a path such as /healthz/leaderElection.
func (c Check) Name() string { return c.name }

// Check returns nil if what it checks is healthy. The request may be nil. It does not block.
func (c Check) Check(r *http.Request) error { return c.check(r) }

// LivenessChecks tell whether the Manager works: "leaderElection" fails when this process thinks it leads
// although its lease ended long ago, and each enabled controller has a check of its own name that fails when the
// controller has failed or says itself that it is unhealthy. Waiting for leadership, for the API server or for
// the cloud is healthy: a restart would not help.
func (m *Manager) LivenessChecks() []Check {
	checks := []Check{{name: "leaderElection", check: m.checkLease}}
	for _, c := range m.all {
		if m.selected.enabled(c) {
			checks = append(checks, Check{name: c.Name, check: func(r *http.Request) error { return m.checkController(c.Name, r) }})
		}
	}
	return checks
}

// ReadinessChecks tell whether the Manager leads or is ready to: "ccm" fails when it is stopped,
// degraded, draining, or a term has not opened yet.
func (m *Manager) ReadinessChecks() []Check {
	return []Check{{name: "ccm", check: m.checkReady}}
}

func (m *Manager) checkReady(*http.Request) error {
	status := m.Status()
	switch {
	case status.State == StateStandby, status.State == StateLeading && status.Ready:
		return nil
	case status.Reason != "":
		return fmt.Errorf("%s: %s", status.State, status.Reason)
	case status.Step != "":
		return fmt.Errorf("%s: %s", status.State, status.Step)
	}
	return errors.New(string(status.State))
}

func (m *Manager) checkLease(*http.Request) error {
	status := m.Status()
	if status.State != StateLeading && status.State != StateDraining || status.Election.LastRenewal.IsZero() {
		return nil
	}
	limit := m.config.LeaderElection.LeaseDuration.Duration + leaseWatchdogTolerance
	if since := time.Since(status.Election.LastRenewal); since > limit {
		return fmt.Errorf("the lease was last renewed %s ago, and still something acts as leader", since.Round(time.Second))
	}
	return nil
}

func (m *Manager) checkController(name string, r *http.Request) error {
	for _, term := range m.openTerms() {
		if err := term.status.check(name, r); err != nil {
			return err
		}
	}
	return nil
}

func (m *Manager) openTerms() []*Term {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []*Term
	for _, c := range []course{m.leading, m.standing} {
		if c.term != nil {
			open = append(open, c.term)
		}
	}
	return open
}

// check asks one controller of the term. One that has failed and is about to be restarted is not unhealthy: nobody else can do more.
func (s *termStatus) check(name string, r *http.Request) error {
	s.mu.Lock()
	status, runnable := s.controllers[name], s.runnables[name]
	s.mu.Unlock()
	if status.State == ControllerFailed && status.RetryAt.IsZero() {
		return errors.New(status.Reason)
	}
	checker, ok := runnable.(HealthChecker)
	if !ok {
		return nil
	}
	return protect("HealthCheck of controller "+name, func() error { return checker.HealthCheck(r) })
}

// DebuggingHandler answers for the controllers that are [Debuggable] and run now: the path is the controller's name, a slash, and what
// the controller gets to see, with a leading slash. Everything else is 404. It is safe for concurrent use.
func (m *Manager) DebuggingHandler() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path := strings.TrimPrefix(r.URL.Path, "/")
		name, handler := m.debuggable(path)
		if handler == nil {
			http.NotFound(w, r)
			return
		}
		below := strings.TrimPrefix(path, name)
		http.StripPrefix(strings.TrimSuffix(r.URL.Path, below), handler).ServeHTTP(w, r)
	})
}

// debuggable finds the controller that the path begins with: the one with the longest name, since a name may hold slashes.
func (m *Manager) debuggable(path string) (name string, handler http.Handler) {
	for _, term := range m.openTerms() {
		for _, c := range term.enabled {
			runnable, _ := term.status.runnable(c.Name)
			shows, ok := runnable.(Debuggable)
			if !ok || len(c.Name) < len(name) || !strings.HasPrefix(path, c.Name+"/") {
				continue
			}
			name, handler = c.Name, shows.DebuggingHandler()
		}
	}
	return name, handler
}
