package rbac

import (
	"flag"
	"fmt"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// Report is the result of a comparison of rules and requests.
type Report struct {
	// Unused are the permissions that no request needed.
	Unused []Permission
	// Denied are the requests that authorization refused.
	Denied []Denial
}

// Denial is a group of denied requests that the same permission would have allowed.
type Denial struct {
	// Missing is that permission, without the name of an object.
	Missing Permission
	// Count is the number of requests, and First the first of them.
	Count int
	First controlplane.AuditRecord
}

// Compare compares permissions with the recorded requests of one user. It has no side effects; the
// order of its results is that of granted, and of the first denied requests.
//
// Every request uses all permissions that allow it. A request that was refused for another reason
// than RBAC has used its permission: it was answered 404, 409, or 403 by an admission plugin.
func Compare(granted []Permission, records []controlplane.AuditRecord, user string) Report {
	var report Report
	used := make([]bool, len(granted))
	denied := controlplane.Denied()
	for _, r := range records {
		switch {
		case r.User != user:
		case denied(r):
			report.deny(r)
		case r.Decision == "allow":
			for i, p := range granted {
				used[i] = used[i] || p.Allows(r)
			}
		}
	}
	for i, p := range granted {
		if !used[i] {
			report.Unused = append(report.Unused, p)
		}
	}
	return report
}

// Verify compares the permissions of user with all its requests so far, and returns an error that
// lists the differences. judged selects the permissions that a request must have needed; nil
// selects all. If go test runs only some of the tests, it selects none.
func (m *Manifests) Verify(
	audit *controlplane.AuditLog, user string, judged func(Permission) bool,
) error {
	granted, err := m.Permissions(user)
	if err != nil {
		return err
	}
	records, err := audit.All(controlplane.ByUser(user))
	if err != nil {
		return err
	}
	report := Compare(granted, records, user)
	report.Unused = slices.DeleteFunc(report.Unused, func(p Permission) bool {
		return testsAreSelected() || judged != nil && !judged(p)
	})
	if !report.OK() {
		return fmt.Errorf("the RBAC rules differ from what %s needs:\n%s", user, report)
	}
	return nil
}

func testsAreSelected() bool {
	return slices.ContainsFunc([]string{"test.run", "test.skip", "test.list"},
		func(name string) bool {
			f := flag.Lookup(name)
			return f != nil && f.Value.String() != ""
		})
}

func (r *Report) deny(record controlplane.AuditRecord) {
	missing := Permission{
		Verb: record.Verb, APIGroup: record.APIGroup, Resource: record.ResourcePath(),
		Namespace: record.Namespace,
	}
	if record.Resource == "" {
		path, _, _ := strings.Cut(record.RequestURI, "?")
		missing = Permission{Verb: record.Verb, NonResourceURL: path}
	}
	i := slices.IndexFunc(r.Denied, func(d Denial) bool { return d.Missing == missing })
	if i < 0 {
		r.Denied = append(r.Denied, Denial{Missing: missing, First: record})
		i = len(r.Denied) - 1
	}
	r.Denied[i].Count++
}

// OK reports whether every rule was used and every request allowed.
func (r Report) OK() bool { return len(r.Unused) == 0 && len(r.Denied) == 0 }

// String is the report for the output of a failed suite, with one line for each finding; it is
// empty without findings.
func (r Report) String() string {
	var b strings.Builder
	for _, p := range r.Unused {
		fmt.Fprintf(&b, "no request has used: %s\n", p)
	}
	for _, d := range r.Denied {
		fmt.Fprintf(&b, "denied %d times: %s (first: %s)\n", d.Count, d.Missing, d.First)
	}
	return b.String()
}
