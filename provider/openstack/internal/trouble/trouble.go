// Package trouble reports failures of the cloud that affect more than one call.
package trouble

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/internal/rights"
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
	// missing are the rights of the API server that the provider lacks.
	missing *rights.Missing

	mu sync.Mutex
	// quotas are the exceeded quotas, by the name of the objects.
	quotas map[string]*exceeded
}

// exceeded is a quota that is exceeded.
type exceeded struct {
	cause error
	// services are the UIDs of the Services that wait for a creation.
	services map[types.UID]bool
}

// New returns a Report to ccm.ProviderEnv.ReportTrouble, which may be nil.
func New(report func(subject string, cause error)) *Report {
	if report == nil {
		return nil
	}
	return &Report{
		report: report, missing: rights.NewMissing(report), quotas: map[string]*exceeded{},
	}
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

// Creation reports the result of a creation for a Service. counted is the plural name of the
// objects. Only quota errors and successes change the report.
func (r *Report) Creation(counted string, service types.UID, err error) {
	f := failure.Of(err)
	if r == nil || err != nil && (f == nil || !f.IsQuota()) {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	known := r.quotas[counted]
	switch {
	case err == nil && known == nil:
		return
	case err == nil:
		delete(r.quotas, counted)
	case known == nil:
		known = &exceeded{services: map[types.UID]bool{}}
		r.quotas[counted] = known
		fallthrough
	default:
		known.cause = events.QuotaUsedUp.Notice(f.Cause(), cmp.Or(f.Exceeded(), counted))
		known.services[service] = true
	}
	r.reportQuotas()
}

// Wrote reports whether the right for a request to the API server is missing, such as "patch
// services". name is that of the object, or the UID of a Service.
func (r *Report) Wrote(right, name string, err error) {
	if r != nil {
		r.missing.Wrote("permission to "+right+" for OpenStack", name, err)
	}
}

// Gone ends the reports for a Service that is deleted, or that is served in another region.
func (r *Report) Gone(service types.UID) {
	if r != nil {
		r.missing.Forget(func(name string) bool { return name == string(service) })
		r.Settled(service)
	}
}

// Settled ends the reports about quotas for a Service that waits for no creation any more: it is
// served, or deleted.
func (r *Report) Settled(service types.UID) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.quotas)
	for counted, known := range r.quotas {
		delete(known.services, service)
		if len(known.services) == 0 {
			delete(r.quotas, counted)
		}
	}
	if len(r.quotas) < before {
		r.reportQuotas()
	}
}

// reportQuotas is called with the lock held, which keeps the reports in order.
func (r *Report) reportQuotas() {
	var all []error
	for _, counted := range slices.Sorted(maps.Keys(r.quotas)) {
		all = append(all, r.quotas[counted].cause)
	}
	r.report(Quota, errors.Join(all...))
}

// uncalledAge is how old the last failure of a service may be. It may not be called any more,
// for example Barbican after a Service was deleted. The calls that fail are repeated earlier.
const uncalledAge = 15 * time.Minute

// Answers passes to all users of a cloud which of its services do not answer. It is safe for
// concurrent use.
type Answers struct {
	clock clock.PassiveClock

	mu       sync.Mutex
	reports  []*Report
	failures map[string]failed
}

// failed is the last failure of a service.
type failed struct {
	err error
	at  time.Time
}

// NewAnswers returns Answers without failures.
func NewAnswers(c clock.PassiveClock) *Answers {
	return &Answers{clock: c, failures: map[string]failed{}}
}

// Follow adds a receiver, and reports the current failures to it at once.
func (a *Answers) Follow(r *Report) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reports = append(a.reports, r)
	for service, last := range a.failures {
		r.answered(service, last.err)
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

// Note takes the result of a request to a service; nil means that the service has answered. It
// withdraws the failures of other services that are too old. Failures of Keystone stay, because
// the other services are not called without a login.
func (a *Answers) Note(service string, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.clock.Now()
	for other, last := range a.failures {
		if other != service && other != Keystone && now.Sub(last.at) >= uncalledAge {
			a.set(other, nil, now)
		}
	}
	if _, known := a.failures[service]; err != nil || known {
		a.set(service, err, now)
	}
}

// set is called with the lock held, which keeps the reports in order.
func (a *Answers) set(service string, err error, now time.Time) {
	if err == nil {
		delete(a.failures, service)
	} else {
		a.failures[service] = failed{err, now}
	}
	for _, r := range a.reports {
		r.answered(service, err)
	}
}
