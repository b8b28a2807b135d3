package trouble

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	clocktesting "k8s.io/utils/clock/testing"
)

// A service may not be called any more, and then no answer of it ends the report.
func TestAnswers_ServiceIsNotCalledAnyMore_ReportEnds(t *testing.T) {
	now := clocktesting.NewFakePassiveClock(time.Now())
	open := map[string]error{}
	answers := NewAnswers(now)
	answers.Follow(New(func(subject string, cause error) {
		if cause == nil {
			delete(open, subject)
		} else {
			open[subject] = cause
		}
	}))
	want := func(what string, subjects ...string) {
		t.Helper()
		if got := slices.Sorted(maps.Keys(open)); !slices.Equal(got, subjects) {
			t.Errorf("%s, reported are %q, want %q", what, got, subjects)
		}
	}
	down := errors.New("503")
	answers.Note("Barbican", down)
	answers.Note("Octavia", down)
	answers.Note(Keystone, down)
	now.SetTime(now.Now().Add(uncalledAge - time.Second))
	answers.Note("Octavia", down)
	answers.Note("Neutron", nil)
	want("before the age", "Barbican", Keystone, "Octavia")
	now.SetTime(now.Now().Add(time.Second))
	answers.Note("Neutron", nil)
	want("after the last call of Barbican", Keystone, "Octavia")
	answers.Note("Octavia", nil)
	answers.Note(Keystone, nil)
	want("after answers")
}

func TestReport_ServiceIsGone_ItsMissingRightIsNotReported(t *testing.T) {
	open := map[string]error{}
	report := New(func(subject string, cause error) { open[subject] = cause })
	report.Wrote("patch services", "uid-1",
		apierrors.NewForbidden(v1.Resource("services"), "web", errors.New("no rule")))
	const subject = "permission to patch services for OpenStack"
	if open[subject] == nil {
		t.Fatalf("reported are %v, want %q", open, subject)
	}
	report.Gone("uid-2")
	if open[subject] == nil {
		t.Error("the report has ended with another Service")
	}
	report.Gone("uid-1")
	if open[subject] != nil {
		t.Errorf("reported are %v, want none", open)
	}
}
