// Package trouble reports failures of the cloud that affect more than one call.
package trouble

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/failure"
)

// These are the subjects of reports, besides the names of services that do not answer.
const (
	// Keystone does not answer, or refuses the login.
	Keystone = "Keystone"
	// CloudConf: a reload of cloud.conf failed.
	CloudConf = "cloud.conf"
	// Instances: the mass deletion guard is active.
	Instances = "instances"
	// Quota: a creation failed because a quota of the project is exceeded.
	Quota = "quota"
)

// Report passes failures, and their ends, to the host. It is safe for concurrent use. A nil Report
// does nothing.
type Report struct {
	report func(subject string, cause error)

	mu sync.Mutex
	// quotas are the exceeded quotas, by the name of the objects.
	quotas map[string]error
}

// New returns a Report to ccm.ProviderEnv.ReportTrouble, which may be nil.
func New(report func(subject string, cause error)) *Report {
	if report == nil {
		return nil
	}
	return &Report{report: report, quotas: map[string]error{}}
}

// answered reports that a service does not answer, or answers again. The subject names the service,
// so the cause need not. The error must contain no secret.
func (r *Report) answered(service string, err error) {
	if r == nil {
		return
	}
	if err != nil {
		err = errors.New(strings.TrimPrefix(events.Explain(err).Error(), service+": "))
	}
	r.report(service, err)
}

// Reload reports the result of a reload of cloud.conf; nil also if nothing is left to reload. The
// error must contain no secret.
func (r *Report) Reload(err error) {
	switch {
	case r == nil:
	case err == nil:
		r.report(CloudConf, nil)
	default:
		r.report(CloudConf,
			fmt.Errorf("%w; the previous configuration stays in use", events.Explain(err)))
	}
}

// Absence reports that the mass deletion guard is active.
func (r *Report) Absence(absent, known int) {
	if r != nil {
		r.report(Instances,
			fmt.Errorf("%d of %d instances are missing in Nova; no node is deleted, unless it is "+
				"marked for removal, until most of them are back", absent, known))
	}
}

// AbsenceOver reports that the mass deletion guard is lifted.
func (r *Report) AbsenceOver() {
	if r != nil {
		r.report(Instances, nil)
	}
}

// Creation reports the result of a creation. counted is the plural name of the objects. Only quota
// errors and successes change the report.
func (r *Report) Creation(counted string, err error) {
	f := failure.Of(err)
	if r == nil || err != nil && (f == nil || !f.IsQuota()) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.quotas[counted]
	switch {
	case err != nil:
		r.quotas[counted] = events.QuotaUsedUp.Notice(f.Cause(), counted)
	case !known:
		return
	default:
		delete(r.quotas, counted)
	}
	var all []error
	for _, counted := range slices.Sorted(maps.Keys(r.quotas)) {
		all = append(all, r.quotas[counted])
	}
	// The lock keeps the reports in order.
	r.report(Quota, errors.Join(all...))
}

// Answers passes to all users of a cloud which of its services do not answer. It is safe for
// concurrent use.
type Answers struct {
	mu       sync.Mutex
	reports  []*Report
	failures map[string]error
}

// Follow adds a receiver, and reports the current failures to it at once.
func (a *Answers) Follow(r *Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reports = append(a.reports, r)
	for service, err := range a.failures {
		r.answered(service, err)
	}
}

// Unfollow removes a receiver, and withdraws the current failures from it.
func (a *Answers) Unfollow(r *Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.reports, r)
	if at < 0 {
		return
	}
	a.reports = slices.Delete(a.reports, at, at+1)
	for service := range a.failures {
		r.answered(service, nil)
	}
}

// Note takes the result of a request to a service; nil means that the service has answered.
func (a *Answers) Note(service string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, known := a.failures[service]; err == nil && !known {
		return
	}
	if err == nil {
		delete(a.failures, service)
	} else {
		if a.failures == nil {
			a.failures = map[string]error{}
		}
		a.failures[service] = err
	}
	// The lock keeps the reports in order.
	for _, r := range a.reports {
		r.answered(service, err)
	}
}
