// Package trouble reports problems of the cloud that are not the error of one call.
package trouble

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
)

// The subjects.
const (
	// Identity: Keystone cannot be reached, or refuses the login.
	Identity = "identity"
	// Instances: so many instances are absent at once that no node is deleted.
	Instances = "instances"
	// Quota: a creation was refused because a quota of the project is used up.
	Quota = "quota"
)

// Report passes on what is wrong, and that it is right again. It is safe for concurrent use. Nil
// reports nothing.
type Report struct {
	report func(subject string, cause error)

	mu sync.Mutex
	// quotas are those that are used up, by what is counted.
	quotas map[string]error
}

// New returns a Report to ccm.ProviderEnv.ReportTrouble, which may be nil.
func New(report func(subject string, cause error)) *Report {
	if report == nil {
		return nil
	}
	return &Report{report: report, quotas: map[string]error{}}
}

// Login reports what came of a login. The error must hold no secret.
func (r *Report) Login(err error) {
	if r != nil {
		r.report(Identity, err)
	}
}

// Absence reports that so many of the known instances are absent, and that this is not believed.
func (r *Report) Absence(absent, known int) {
	if r != nil {
		r.report(Instances, fmt.Errorf("%d of %d instances are not found by Nova; no node is deleted until most of them are found again", absent, known))
	}
}

// AbsenceOver reports that no more instances are absent than is believed.
func (r *Report) AbsenceOver() {
	if r != nil {
		r.report(Instances, nil)
	}
}

// Creation reports what came of a creation. counted is the plural of what was to be created, and
// isQuota tells whether the error is that of a quota: any other error changes nothing.
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
	// In order: the lock is held.
	r.report(Quota, errors.Join(all...))
}
