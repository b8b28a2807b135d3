package ccm

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/tools/record"
	"k8s.io/cloud-provider/names"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/internal/nodes"
)

// A Controller runs for as long as this process leads. Each term builds it again, so it keeps no
// state between terms.
type Controller struct {
	// Name identifies the controller in --controllers, logs and [status.Manager]. Required, unique.
	Name string

	// Aliases are further names that --controllers accepts.
	Aliases []string

	// DisabledByDefault leaves the controller out unless --controllers names it.
	DisabledByDefault bool

	// NeedLeaderElection, if it is false, runs the controller in every replica for as long as
	// [Manager.Run] runs. The controller must not change objects that other replicas change, too.
	// Its Term has the number 0, its own clients and informers, and no Cloud (nil). Nil means true.
	NeedLeaderElection *bool

	// RestartOnFailure builds and runs only this controller again if it fails, after a pause of 1
	// to 30 seconds. The event handlers that it had registered with the term's informers are
	// removed first. Default false: a failure ends the term, and a new one follows after such a
	// pause, so that all controllers start from the same state.
	//
	// A controller fails if its New or Run returns an error or panics, its informers do not sync,
	// or Run returns before its context has ended. The four cloud controllers are restarted if they
	// cannot start and another controller runs; later failures end the term.
	RestartOnFailure bool

	// Validate checks the settings of the controller without a network. [New] calls it if the
	// Config is valid and selects the controller. The fields of a *[ConfigError] become those of
	// New's error. Nil: no check.
	Validate func(Config) error

	// isBuiltin marks the four cloud controllers.
	isBuiltin bool

	// New builds the controller. ctx ends with the term. New is called before informers are
	// started: it requests them with t.Informers(), and must not wait for them. An error that wraps
	// [ErrSkip] leaves the controller out of this term, with the error's text as reason. Any other
	// error is a failure.
	New func(ctx context.Context, t *Term) (Runnable, error)
}

// needsElection reports whether the controller runs in the leader only.
func (c Controller) needsElection() bool {
	return c.NeedLeaderElection == nil || *c.NeedLeaderElection
}

// A Runnable is a built [Controller].
//
// It may also have the method of a [HealthChecker], and DebuggingHandler() http.Handler, as
// upstream's controller.Debuggable (k8s.io/controller-manager): it serves
// /debug/controllers/<name>/, with that prefix stripped. A nil handler is not found.
type Runnable interface {
	// Run is called when the informers that New has requested have synced. It works until ctx ends,
	// and returns when all its goroutines have ended. An earlier return is a failure, even without
	// an error. If the term ends before Run was called, or the informers do not sync, Run is called
	// with an ended ctx, so that it can release what New acquired.
	Run(ctx context.Context) error
}

// RunnableFunc is a function as a [Runnable].
type RunnableFunc func(ctx context.Context) error

// Run calls f.
func (f RunnableFunc) Run(ctx context.Context) error { return f(ctx) }

// HealthChecker is a [Runnable] that reports its own health. Other controllers are healthy while
// they run.
type HealthChecker interface {
	// HealthCheck returns nil if the controller is healthy. It must not block.
	HealthCheck(*http.Request) error
}

// debuggable is a [Runnable] with an HTTP page for debugging.
type debuggable interface{ DebuggingHandler() http.Handler }

// ErrSkip is wrapped by the error of [Controller.New] if the controller has no work in this term.
// The error's text is the reason that [status.Manager] shows.
var ErrSkip = errors.New("skipped")

// builtin returns the four cloud controllers.
func builtin(cfg Config) []Controller {
	selector := cfg.nodeSelector()
	four := []Controller{
		{Name: names.CloudNodeController, New: build(func(t *Term) (cloudcontrollers.Run, error) {
			return cloudcontrollers.CloudNode(ownTerm{t}, selector,
				cfg.Node.StatusUpdateFrequency.Duration, cfg.Node.ConcurrentSyncs, nodes.Refresh{
					Syncs:        int(cfg.Node.ConcurrentStatusUpdates),
					UpdateLabels: cfg.Node.UpdateLabels, IsReported: t.run.reportsNode,
					WithoutRoutes: areRoutesOff(cfg, t),
				})
		})},
		{
			Name: names.CloudNodeLifecycleController,
			New: build(func(t *Term) (cloudcontrollers.Run, error) {
				return cloudcontrollers.CloudNodeLifecycle(ownTerm{t}, selector,
					cfg.NodeLifecycle.MonitorPeriod.Duration,
					cfg.NodeLifecycle.ConcurrentSyncs)
			}),
		},
		{Name: names.ServiceLBController, New: build(func(t *Term) (cloudcontrollers.Run, error) {
			return cloudcontrollers.ServiceLB(ownTerm{t}, selector, cfg.Service.ConcurrentSyncs,
				cfg.Service.classes())
		})},
		{Name: names.NodeRouteController, New: build(func(t *Term) (cloudcontrollers.Run, error) {
			if !cfg.ConfigureCloudRoutes {
				const disabled = "configureCloudRoutes (--configure-cloud-routes) is false"
				return nil, fmt.Errorf("%w: %s", ErrSkip, disabled)
			}
			return cloudcontrollers.NodeRoute(ownTerm{t}, selector,
				cfg.Route.ReconciliationPeriod.Duration, cfg.ClusterCIDR)
		})},
	}
	for i := range four {
		four[i].Aliases, four[i].isBuiltin = aliases(four[i].Name), true
	}
	return four
}

// areRoutesOff reports whether no controller creates routes for the provider's nodes: the route
// controller is selected, and has no work. If it is not selected, another program may run it.
func areRoutesOff(cfg Config, t *Term) bool {
	_, isServed := t.Cloud().Routes()
	return (!cfg.ConfigureCloudRoutes || !isServed) &&
		slices.ContainsFunc(t.run.enabled, func(c Controller) bool {
			return c.Name == names.NodeRouteController
		})
}

// ownTerm is a Term for the four cloud controllers.
type ownTerm struct{ *Term }

// ClusterName implements cloudcontrollers.Term.
func (t ownTerm) ClusterName() string { return t.run.config.ClusterName }

// NodeRecord implements cloudcontrollers.Term.
func (t ownTerm) NodeRecord() *nodes.Record { return t.run.nodes }

// Recorder implements cloudcontrollers.Term.
func (t ownTerm) Recorder(source string) record.EventRecorder {
	return termRecorder{t.Term.Recorder(source), t.run.hasClosed}
}

// ReportTrouble implements cloudcontrollers.Term.
func (t ownTerm) ReportTrouble(subject string, cause error) { t.run.reportTrouble(subject, cause) }

// aliases returns upstream's other names for a controller, sorted. The list may be empty.
func aliases(name string) []string {
	var found []string
	for alias, canonical := range names.CCMControllerAliases() {
		if canonical == name {
			found = append(found, alias)
		}
	}
	slices.Sort(found)
	return found
}

func build(
	construct func(t *Term) (cloudcontrollers.Run, error),
) func(context.Context, *Term) (Runnable, error) {
	return func(_ context.Context, t *Term) (Runnable, error) {
		run, err := construct(t)
		if errors.Is(err, cloudcontrollers.ErrNotServed) {
			return nil, fmt.Errorf("%w: %w", ErrSkip, err)
		}
		if err != nil {
			return nil, err
		}
		return RunnableFunc(run), nil
	}
}

// joinControllers adds the host's controllers to the four cloud controllers, in name order. Fx
// passes groups in random order; the names make the order of starts and of messages deterministic.
func joinControllers(four, own []Controller) ([]Controller, error) {
	var errs field.ErrorList
	path := field.NewPath("Params", "Controllers")
	all := slices.Concat(four, own)
	slices.SortStableFunc(all, func(a, b Controller) int { return cmp.Compare(a.Name, b.Name) })
	taken := map[string]int{}
	for i, c := range all {
		if c.Name == "" {
			errs = append(errs, field.Required(path, "a controller has no Name"))
			continue
		}
		if c.New == nil {
			errs = append(errs, field.Required(path.Key(c.Name), "the controller has no New"))
		}
		for _, name := range append([]string{c.Name}, c.Aliases...) {
			other, isTaken := taken[name]
			taken[name] = i
			switch {
			case !isTaken || other == i:
			case all[other].Name == c.Name && c.Name == name:
				errs = append(errs, field.Invalid(path.Key(name), name,
					"several controllers have this name"))
			case all[other].Name != c.Name:
				errs = append(errs, field.Invalid(path.Key(name), name, fmt.Sprintf(
					"two controllers have this name or alias: %s and %s", all[other].Name, c.Name)))
			}
		}
	}
	if len(errs) > 0 {
		return nil, &ConfigError{Fields: errs}
	}
	return all, nil
}
