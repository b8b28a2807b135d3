// Package rights knows which rights to write objects are missing.
package rights

import (
	"maps"
	"strings"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Missing has the rights that a controller lacks. It is safe for concurrent use.
type Missing struct {
	// report reports a missing right, and its end with nil.
	report func(subject string, cause error)

	mu sync.Mutex
	// of are the names of the objects that could not be written, by right.
	of map[string]map[string]bool
}

// NewMissing returns a Missing. report is called for a missing right, such as "permission to patch
// nodes", and with nil at its end.
func NewMissing(report func(subject string, cause error)) *Missing {
	return &Missing{report: report, of: map[string]map[string]bool{}}
}

// Wrote notes the result of a write: whether the right for it is missing. A success shows that the
// right is there, and so does the answer that the object is not: rights are checked first.
func (m *Missing) Wrote(right, name string, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch isMissing := len(m.of[right]) > 0; {
	case IsMissing(err):
		if !isMissing {
			m.of[right] = map[string]bool{}
		}
		m.of[right][name] = true
		m.report(right, err)
	case isMissing && (err == nil || apierrors.IsNotFound(err)):
		delete(m.of, right)
		m.report(right, nil)
	}
}

// Forget forgets the objects that are gone. A right that is missing for no other object is not
// reported any more.
func (m *Missing) Forget(isGone func(name string) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for right, names := range m.of {
		maps.DeleteFunc(names, func(name string, _ bool) bool { return isGone(name) })
		if len(names) == 0 {
			delete(m.of, right)
			m.report(right, nil)
		}
	}
}

// IsMissing reports whether a request failed for lack of a right.
func IsMissing(err error) bool { return apierrors.IsForbidden(err) && !IsDenied(err) }

// IsDenied reports whether an admission webhook or policy has denied a request, which is not a
// missing right. A webhook chooses code and reason of its answer.
func IsDenied(err error) bool {
	return err != nil && (strings.Contains(err.Error(), "denied the request") ||
		strings.Contains(err.Error(), "denied request"))
}
