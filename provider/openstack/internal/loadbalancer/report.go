package loadbalancer

import (
	"context"
	"errors"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/fxccm/fxccm/internal/rescue"
	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
	"github.com/fxccm/fxccm/provider/openstack/internal/recent"
)

// State is the result of the last reconcile of a Service.
type State string

// The states.
const (
	// Ready: the load balancer is as the Service requests it, but for what the message names.
	Ready State = "ready"
	// Waiting: Octavia is at work, or no node has an address yet.
	Waiting State = "waiting"
	// Refused: the Service must be changed before it can be served.
	Refused State = "refused"
	// Degraded: a request failed, or the load balancer is in ERROR.
	Degraded State = "degraded"
)

// Report is the last known state of the load balancer of one Service.
type Report struct {
	Namespace, Name string

	State   State
	Reason  events.Reason
	Message string
	// Since has the time when the Service became ready, or when it ceased to be.
	Since time.Time

	// ID and the next fields describe the load balancer; they are empty without one.
	ID, LoadBalancerName string
	Provisioning         octavia.Status
	Operating            string
	Addresses            []string

	// ComparedAt is when the load balancer was last compared with the Service. Drifted is when a
	// comparison last found drift, and Drift lists the changes that it needed.
	ComparedAt, Drifted time.Time
	Drift               []string

	// Requests are the last requests for the Service, the newest first.
	Requests []recent.Request
}

// maxDrift limits the changes that a report lists.
const maxDrift = 10

// Reports returns a report for each Service that was reconciled in this term. It sends no request.
func (l *LoadBalancers) Reports() []Report {
	all := []Report{}
	for uid, report := range l.reports.all() {
		if report.State == "" {
			// The first reconcile of the Service is in progress.
			continue
		}
		report.Addresses = slices.Clone(report.Addresses)
		report.Drift = slices.Clone(report.Drift)
		if state := l.states.get(uid); state != nil {
			report.Requests = state.requests.List()
		}
		all = append(all, report)
	}
	// A list that was made for another Service may be newer than the reconcile.
	if list := l.config.Octavia.LastList(); list != nil {
		for i := range all {
			if lb, ok := list.ByID(all[i].ID); ok {
				all[i].Provisioning, all[i].Operating = lb.Status, lb.Operating
			}
		}
	}
	return all
}

// report records the result of a reconcile, and writes it to the Service. It skips a reconcile that
// the end of the term canceled, a node sync that comes before the creation, and one that another
// Service kept from its begin: what is known stays true.
func (r *reconciler) report(ctx context.Context, err error) {
	now, lb := r.of.config.Clock.Now(), r.found.balancer
	deletes := r.service.DeletionTimestamp != nil || !requestsLoadBalancer(r.service)
	if ctx.Err() != nil || err != nil && lb == nil && !r.create && !deletes {
		return
	}
	report := r.of.reports.get(r.service.UID)
	if errors.Is(err, errBusy) && (report.State != "" || wasServed(r.service)) {
		return
	}
	if err == nil {
		r.measureNew(report, now)
		if r.state.isDrifted && r.of.config.Observer != nil {
			r.of.config.Observer.Repaired()
		}
		r.state.isDrifted = false
		r.of.config.Trouble.Settled(r.service.UID)
	}
	before := report.State
	report.Namespace, report.Name = r.service.Namespace, r.service.Name
	report.State, report.Reason, report.Message = stateOf(err)
	if report.State != Refused && lb != nil && lb.Status == octavia.InError {
		report.State, report.Reason = Degraded, events.InError
	}
	if report.State == Ready && !deletes {
		report.addDefects(r.state.events.defects())
	}
	if before == "" && report.State != Ready {
		report.Since = waitsSince(r.service, now)
	} else if (before == Ready) != (report.State == Ready) || before == "" {
		report.Since = now
	}
	report.ID, report.LoadBalancerName, report.Addresses = "", "", nil
	report.Provisioning, report.Operating = "", ""
	if lb == nil {
		lb = r.found.deleting
	} else {
		report.Addresses = r.found.addresses(r.settings.Internal)
	}
	if lb != nil {
		report.ID, report.LoadBalancerName = lb.ID, lb.Name
		report.Provisioning, report.Operating = lb.Status, lb.Operating
	}
	r.of.reports.set(r.service.UID, report)
	r.publishCondition(ctx, conditionOf(report, r.service, r.writtenCondition(), now))
}

// hangDelay is how long a service of OpenStack has not answered when the Service is shown as
// waiting for it. A request that hangs ends only after request-timeout of cloud.conf, a minute.
const hangDelay = 3 * time.Second

// awaiting runs a part of a reconcile that waits for answers of a service of OpenStack, and shows
// that in the report and the condition if it takes long. A Service that is served stays ready.
func (r *reconciler) awaiting(
	ctx context.Context, service string, do func(context.Context) error,
) error {
	begun := r.of.config.Clock.Now()
	shows, cancel := context.WithCancel(ctx)
	defer cancel()
	shown := make(chan struct{})
	// The real clock is used: no other behavior depends on this delay.
	timer := time.AfterFunc(hangDelay, func() {
		defer close(shown)
		err := rescue.Panic(func() error {
			r.reportHang(shows, service, begun)
			return nil
		})
		if err != nil {
			r.of.config.Logger.Error(err, "Reporting a slow OpenStack failed")
		}
	})
	err := do(ctx)
	if !timer.Stop() {
		cancel()
		<-shown
	}
	return err
}

func (r *reconciler) reportHang(ctx context.Context, service string, begun time.Time) {
	report := r.of.reports.get(r.service.UID)
	deletes := !requestsLoadBalancer(r.service)
	if r.deletedCluster != "" || !deletes && (report.State == Ready || !r.create) {
		return
	}
	switch report.State {
	case "":
		report.Since = waitsSince(r.service, begun)
	case Ready:
		report.Since = begun
	}
	report.Namespace, report.Name = r.service.Namespace, r.service.Name
	report.State, report.Reason = Waiting, events.Waiting
	report.Message = service + " has not answered yet"
	r.of.reports.set(r.service.UID, report)
	r.publishCondition(ctx, condition(report, r.service, metav1.ConditionFalse))
}

// addDefects adds the warnings about a Service that is served. The reason is that of the first one.
func (r *Report) addDefects(defects []events.Notice) {
	for i, each := range defects {
		if i == 0 {
			r.Reason, r.Message = each.Reason, each.Message
		} else {
			r.Message += "; "
			if each.Reason != defects[i-1].Reason {
				r.Message += string(each.Reason) + ": "
			}
			r.Message += each.Message
		}
	}
	r.Message = events.Shorten(r.Message)
}

// newServiceAge is how old a Service may be at its first reconcile to count as new: its type may
// have changed long after its creation.
const newServiceAge = time.Hour

// measureNew measures a Service that is served for the first time.
func (r *reconciler) measureNew(before Report, now time.Time) {
	begun, created := before.Since, r.service.CreationTimestamp.Time
	if before.State == "" {
		begun = now
	}
	if r.of.config.Observer != nil && before.State != Ready &&
		len(r.service.Status.LoadBalancer.Ingress) == 0 && begun.Sub(created) < newServiceAge {
		r.of.config.Observer.Served(now.Sub(created))
	}
}

// degradedReasons are the reasons of refusals that no change of the Service ends.
var degradedReasons = []events.Reason{
	events.InError, events.QuotaExceeded, events.RequestDenied,
}

// stateOf classifies the result of a reconcile.
func stateOf(err error) (State, events.Reason, string) {
	var refused *events.Notice
	switch {
	case err == nil:
		return Ready, events.Served, ""
	case errors.As(err, &refused) && slices.Contains(degradedReasons, refused.Reason):
		return Degraded, refused.Reason, events.Shorten(refused.Message)
	case errors.As(err, &refused):
		return Refused, refused.Reason, events.Shorten(refused.Message)
	case isWait(err):
		return Waiting, events.Waiting, events.Shorten(err.Error())
	case errors.Is(err, plan.ErrFailed):
		return Degraded, events.InError, events.Shorten(err.Error())
	}
	return Degraded, events.RequestFailed, events.Shorten(err.Error())
}

// reportDifferences records a comparison. Differences are drift if the load balancer was as
// requested, and neither the Service nor a node has changed since.
func (r *reconciler) reportDifferences(todo plan.Plan) {
	report := r.of.reports.get(r.service.UID)
	report.ComparedAt = r.of.config.Clock.Now()
	if r.repair && report.State == Ready && len(todo.Steps) > 0 {
		report.Drifted, report.Drift = report.ComparedAt, nil
		if !r.state.isDrifted && r.of.config.Observer != nil {
			r.of.config.Observer.Drifted()
		}
		r.state.isDrifted = true
		for _, step := range todo.Steps[:min(len(todo.Steps), maxDrift)] {
			report.Drift = append(report.Drift, step.String())
		}
	}
	r.of.reports.set(r.service.UID, report)
}
