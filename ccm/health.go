package ccm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
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
	// detail is nil for a check that has nothing to add.
	detail func() string
}

// Name names the check; it is a part of a path such as /healthz/leaderElection.
func (c Check) Name() string { return c.name }

// Check returns nil if what it checks is healthy. The request may be nil. It does not block.
func (c Check) Check(r *http.Request) error { return c.check(r) }

// Detail says in a few words what a passed check has found: "ok", or why nothing is wrong although
// the controller does not run, such as "not running: standby". It does not block.
func (c Check) Detail(*http.Request) string {
	if c.detail == nil {
		return "ok"
	}
	return c.detail()
}

// LivenessChecks tell whether the Manager works, and fail if a restart of the process would help:
//
//   - "leaderElection" fails when this process acts as leader although its lease ended long ago,
//   - "drain" fails when what is left of ended terms has kept the Manager from campaigning for a minute,
//   - each enabled controller has a check of its own name, which fails when the controller has failed or says itself that it is
//     unhealthy. Its [Check.Detail] is "ok" only while the controller runs.
//
// Waiting for leadership, for the API server or for the cloud is healthy: a restart would not help.
func (m *Manager) LivenessChecks() []Check {
	checks := []Check{{name: "leaderElection", check: m.checkLease}, {name: "drain", check: m.checkDrain}}
	for _, c := range m.all {
		if m.selected.enabled(c) {
			checks = append(checks, Check{
				name:   c.Name,
				check:  func(r *http.Request) error { return m.checkController(c.Name, r) },
				detail: func() string { return m.controllerDetail(c.Name) },
			})
		}
	}
	return checks
}

// ReadinessChecks tell whether the Manager leads or is ready to: "ccm" fails when it is stopped,
// degraded, draining, or a term has not opened yet. Trouble that the provider reports is in its
// detail, and does not make it fail: another replica would have the same cloud.
func (m *Manager) ReadinessChecks() []Check {
	return []Check{{name: "ccm", check: m.checkReady, detail: m.readyDetail}}
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

// readyDetail lists the trouble that the provider reports, without the reasons: readiness is served
// to anonymous callers, and Status is not.
func (m *Manager) readyDetail() string {
	detail := "ok"
	for _, trouble := range m.Status().Troubles {
		detail += fmt.Sprintf("; trouble with %s since %s", trouble.Subject, trouble.Since.UTC().Format(time.RFC3339))
	}
	return detail
}

// controllerDetail says what a controller does that has not failed, without reasons, like readyDetail.
func (m *Manager) controllerDetail(name string) string {
	status := m.Status()
	i := slices.IndexFunc(status.Controllers, func(c ControllerStatus) bool { return c.Name == name })
	state := status.Controllers[i].State
	switch {
	case state == ControllerRunning:
		return "ok"
	case state != ControllerWaiting:
		return "not running: " + string(state)
	case status.Step != "":
		return fmt.Sprintf("not running: %s: %s", status.State, status.Step)
	}
	return "not running: " + string(status.State)
}

// drainTolerance is how long what is left of ended terms may keep the Manager from campaigning
// before its health check fails.
const drainTolerance = time.Minute

func (m *Manager) checkDrain(*http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range []course{m.leading, m.standing} {
		if c.failure == nil {
			continue
		}
		timedOut, ok := errors.AsType[*DrainTimeoutError](c.failure.err)
		if !ok || timedOut.term == nil || timedOut.term.hasEnded() || time.Since(timedOut.made) < drainTolerance {
			continue
		}
		return errors.New(m.explain(timedOut))
	}
	return nil
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
