// Package eventstest checks the texts of events in tests.
package eventstest

import (
	"strings"
	"testing"
)

// CheckShape wants a warning to have what is wrong and why, then "; " and what follows or what to
// do, without the URL of a request to the simulated cloud and without JSON.
func CheckShape(t testing.TB, message string) {
	t.Helper()
	why, follows, _ := strings.Cut(message, "; ")
	if why == "" || follows == "" {
		t.Errorf("the warning %q has no \"; \" with what follows or what to do", message)
	}
	if strings.Contains(message, "http://") || strings.ContainsAny(message, "{}") {
		t.Errorf("the warning %q has a URL or JSON", message)
	}
}
