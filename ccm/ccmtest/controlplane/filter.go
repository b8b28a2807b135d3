package controlplane

import (
	"net/http"
	"slices"
	"strings"
	"time"
)

// Filter selects records of an [AuditLog]. A test can define its own.
type Filter func(AuditRecord) bool

func passes(record AuditRecord, filters []Filter) bool {
	for _, filter := range filters {
		if !filter(record) {
			return false
		}
	}
	return true
}

// ByUser selects the requests of any of the users. See [ServiceAccountUser].
func ByUser(users ...string) Filter {
	return func(r AuditRecord) bool { return slices.Contains(users, r.User) }
}

// ByUserAgent selects the requests whose user agent contains part.
func ByUserAgent(part string) Filter {
	return func(r AuditRecord) bool { return strings.Contains(r.UserAgent, part) }
}

// ByVerb selects the requests with any of the verbs.
func ByVerb(verbs ...string) Filter {
	return func(r AuditRecord) bool { return slices.Contains(verbs, r.Verb) }
}

// ByResource selects the requests for a resource of an API group, as RBAC rules write both: the
// core group is "", a subresource follows a slash. The resource nodes does not include
// nodes/status.
func ByResource(group, resource string) Filter {
	return func(r AuditRecord) bool { return r.APIGroup == group && r.ResourcePath() == resource }
}

// ByName selects the requests for the objects with any of the names.
func ByName(names ...string) Filter {
	return func(r AuditRecord) bool { return slices.Contains(names, r.Name) }
}

// ByCode selects the requests that were answered with any of the HTTP status codes.
func ByCode(codes ...int) Filter {
	return func(r AuditRecord) bool { return slices.Contains(codes, r.Code) }
}

// Mutating selects the requests that could have changed an object, whatever the answer.
func Mutating() Filter { return AuditRecord.Mutating }

// Denied selects the requests that authorization has forbidden.
func Denied() Filter {
	return func(r AuditRecord) bool {
		return r.Decision == "forbid" || r.Decision == "" && r.Code == http.StatusForbidden
	}
}

// ReceivedAfter selects the requests that reached the server later than t. The records after a
// [Mark] were answered after it was taken, but may have been received before.
func ReceivedAfter(t time.Time) Filter {
	return func(r AuditRecord) bool { return r.Time.After(t) }
}
