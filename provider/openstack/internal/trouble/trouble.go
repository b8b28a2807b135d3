// Package trouble reports failures of the cloud that affect more than one call.
package trouble

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// These are the subjects of reports.
const (
	// Identity: Keystone is unavailable or refuses the login.
	Identity = "identity"
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

// Login reports the result of a login. The error must contain no secret.
func (r *Report) Login(err error) {
	if r != nil {
		r.report(Identity, err)
	}
}

// Absence reports that the mass deletion guard is active.
func (r *Report) Absence(absent, known int) {
	if r != nil {
		r.report(Instances,
			fmt.Errorf("%d of %d instances are missing in Nova; no node is deleted until most of "+
				"them are back", absent, known))
	}
}

// AbsenceOver reports that the mass deletion guard is lifted.
func (r *Report) AbsenceOver() {
	if r != nil {
		r.report(Instances, nil)
	}
}

// Creation reports the result of a creation. counted is the plural name of the objects. Only quota
// errors (isQuota) and successes change the report.
func (r *Report) Creation(counted string, err error, isQuota bool) {
	if r == nil || err != nil && !isQuota {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	_, known := r.quotas[counted]
	switch {
	case err != nil:
		r.quotas[counted] = fmt.Errorf("%s: %w", counted, err)
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
