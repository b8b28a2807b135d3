package ccm

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/ccm/status"
)

// leaseWatchdogTolerance is how long a leader may act after the end of its lease before its health
// check fails, as upstream.
const leaseWatchdogTolerance = 20 * time.Second

// A Check is a named health check, as healthz.NamedCheck of k8s.io/apiserver and the Checker of
// controller-runtime take it. Its functions do not block, and are safe for concurrent use.
type Check struct {
	// Name is a part of a path such as /healthz/leaderElection.
	Name string
	// Check returns nil if the checked part is healthy. The request may be nil.
	Check func(*http.Request) error
	// Detail describes the result of a passed check: "ok", or why a controller that does not run is
	// healthy, such as "not running: standby". Nil: "ok". The checks of a Manager have one.
	Detail func() string
}

func detailOK() string { return "ok" }

// LivenessChecks fail if a restart of the process would help:
//
//   - "leaderElection" fails if this process acts as leader although its lease ended long ago,
//   - "drain" fails if timed-out terms have kept the Manager from campaigning for a minute,
//   - each enabled controller has a check of its own name, which fails if the controller has failed
//     or reports itself as unhealthy. Its Detail is "ok" only while the controller runs.
//
// Waiting for leadership, for the API server or for the cloud is healthy: a restart would not help.
func (m *Manager) LivenessChecks() []Check {
	checks := []Check{
		{Name: "leaderElection", Check: m.checkLease, Detail: detailOK},
		{Name: "drain", Check: m.checkDrain, Detail: detailOK},
	}
	for _, c := range m.all {
		if m.selected.enabled(c) {
			checks = append(checks, Check{
				Name:   c.Name,
				Check:  func(r *http.Request) error { return m.checkController(c.Name, r) },
				Detail: func() string { return m.controllerDetail(c.Name) },
			})
		}
	}
	return checks
}

// ReadinessChecks report whether the Manager leads or is ready to lead: "ccm" fails if the Manager
// is stopped, degraded, draining, or opens a term. [status.Manager].Troubles, controllers that have
// failed and are retried, and the numbers of nodes whose initialization, update or deletion has
// failed are in its detail. They do not fail the check, because the other controllers serve, and
// another replica would have the same cloud and rights.
func (m *Manager) ReadinessChecks() []Check {
	return []Check{{Name: "ccm", Check: m.checkReady, Detail: m.readyDetail}}
}

func (m *Manager) checkReady(*http.Request) error {
	current, _ := m.snapshot()
	switch {
	case current.State == status.Standby, current.State == status.Leading && current.Ready:
		return nil
	case current.Reason != "":
		return fmt.Errorf("%s: %s", current.State, current.Reason)
	case current.Step != "":
		return fmt.Errorf("%s: %s", current.State, current.Step)
	}
	return errors.New(string(current.State))
}

// readyDetail lists the troubles and the failed controllers, and counts the failed nodes, without
// their causes: readiness is served to anonymous callers, and Status is not.
func (m *Manager) readyDetail() string {
	detail := "ok"
	current, _ := m.snapshot()
	for _, trouble := range current.Troubles {
		detail += fmt.Sprintf("; problem with %s since %s", trouble.Subject,
			trouble.Since.UTC().Format(time.RFC3339))
	}
	for _, c := range current.Controllers {
		if c.State == status.ControllerFailed {
			detail += "; controller " + c.Name + " has failed and is retried"
		}
	}
	uninitialized, failed := 0, 0
	for _, node := range current.Nodes {
		switch node.Reason {
		case initializationPending:
		case initializationFailed:
			uninitialized++
		default:
			failed++
		}
	}
	if uninitialized > 0 {
		detail += fmt.Sprint("; nodes whose initialization has failed and is retried: ",
			uninitialized)
	}
	if failed > 0 {
		detail += fmt.Sprint("; nodes whose update or deletion has failed and is retried: ", failed)
	}
	return detail
}

// controllerDetail describes a controller that has not failed. Like readyDetail, it omits reasons.
func (m *Manager) controllerDetail(name string) string {
	current, _ := m.snapshot()
	i := slices.IndexFunc(current.Controllers,
		func(c status.Controller) bool { return c.Name == name })
	state := current.Controllers[i].State
	switch {
	case state == status.ControllerRunning:
		return "ok"
	case state != status.ControllerWaiting:
		return "not running: " + string(state)
	case current.Step != "":
		return fmt.Sprintf("not running: %s: %s", current.State, current.Step)
	}
	return "not running: " + string(current.State)
}

// drainTolerance is how long timed-out terms may keep the Manager from campaigning before its
// health check fails.
const drainTolerance = time.Minute

func (m *Manager) checkDrain(*http.Request) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range []termSlot{m.leader, m.replica} {
		if c.failure == nil {
			continue
		}
		timedOut, ok := errors.AsType[*DrainTimeoutError](c.failure.err)
		if !ok || timedOut.term == nil || timedOut.term.hasEnded() ||
			time.Since(timedOut.made) < drainTolerance {
			continue
		}
		return errors.New(m.explain(timedOut))
	}
	return nil
}

func (m *Manager) checkLease(*http.Request) error {
	current, _ := m.snapshot()
	if current.State != status.Leading && current.State != status.Draining ||
		current.Election.LastRenewal.IsZero() {
		return nil
	}
	limit := m.config.LeaderElection.LeaseDuration.Duration + leaseWatchdogTolerance
	if since := time.Since(current.Election.LastRenewal); since > limit {
		return fmt.Errorf(
			"the lease was last renewed %s ago, but this process still acts as leader",
			since.Round(time.Second))
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

func (m *Manager) openTerms() []*termRun {
	m.mu.Lock()
	defer m.mu.Unlock()
	var open []*termRun
	for _, c := range []termSlot{m.leader, m.replica} {
		if c.term != nil {
			open = append(open, c.term)
		}
	}
	return open
}

// check runs the health check of one controller. A failed controller that is about to restart is
// healthy, because a restart of the process would not help more.
func (s *termStatus) check(name string, r *http.Request) error {
	s.mu.Lock()
	current, runnable := s.controllers[name], s.runnables[name]
	s.mu.Unlock()
	if current.State == status.ControllerFailed && current.RetryAt.IsZero() {
		return errors.New(current.Reason)
	}
	checker, ok := runnable.(HealthChecker)
	if !ok {
		return nil
	}
	return protect("HealthCheck of controller "+name,
		func() error { return checker.HealthCheck(r) })
}

// DebuggingHandler serves the running controllers that have a DebuggingHandler. The path is the
// controller's name and the path that the controller receives, such as /name/page. Other paths are
// 404. It is safe for concurrent use.
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

// debuggable finds the controller with the longest name that is a prefix of path, because a name
// may contain slashes.
func (m *Manager) debuggable(path string) (name string, handler http.Handler) {
	for _, term := range m.openTerms() {
		for _, c := range term.enabled {
			runnable, _ := term.status.runnable(c.Name)
			shows, ok := runnable.(debuggable)
			if !ok || len(c.Name) < len(name) || !strings.HasPrefix(path, c.Name+"/") {
				continue
			}
			name, handler = c.Name, shows.DebuggingHandler()
		}
	}
	return name, handler
}
