package ccmtest_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
)

// cloudWith is a cloud with instances of the names.
func cloudWith(t testing.TB, names ...string) *fake.Cloud {
	t.Helper()
	cloud := fake.New()
	for _, name := range names {
		if err := cloud.AddInstances(fake.Instance{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	return cloud
}

// A failingTest simulates a user's test that fails. A wait in it ends after limit.
type failingTest struct {
	testing.TB
	limit    time.Duration
	messages []string
}

func (*failingTest) Helper()          {}
func (*failingTest) Log(...any)       {}
func (*failingTest) Cleanup(func())   {}
func (f *failingTest) Name() string   { return f.TB.Name() }
func (f *failingTest) FailNow()       { runtime.Goexit() }
func (f *failingTest) Error(a ...any) { f.messages = append(f.messages, fmt.Sprint(a...)) }
func (f *failingTest) Errorf(format string, a ...any) {
	f.messages = append(f.messages, fmt.Sprintf(format, a...))
}

func (f *failingTest) Fatal(a ...any) {
	f.Error(a...)
	f.FailNow()
}

func (f *failingTest) Fatalf(format string, a ...any) {
	f.Errorf(format, a...)
	f.FailNow()
}

// Deadline limits a wait to limit; package ccmtest keeps five seconds of it for the report.
func (f *failingTest) Deadline() (time.Time, bool) {
	return time.Now().Add(5*time.Second + f.limit), true
}

// wantFailure runs a test that should fail, and checks its message. On a slow machine a wait may
// end before its first probe has returned, so the test is repeated with more time.
func wantFailure(t *testing.T, test func(t testing.TB), want ...string) {
	t.Helper()
	for limit := 100 * time.Millisecond; ; limit *= 5 {
		message := failureOf(t, limit, test)
		said := func(text string) bool { return strings.Contains(message, text) }
		missing := slices.DeleteFunc(slices.Clone(want), said)
		if len(missing) == 0 {
			return
		}
		if limit > 10*time.Second {
			t.Fatalf("the test failed with %q, want %q in the message", message, missing)
		}
	}
}

// failureOf is the failure message of a test.
func failureOf(t *testing.T, limit time.Duration, test func(t testing.TB)) string {
	t.Helper()
	failing := &failingTest{TB: t, limit: limit}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		test(failing)
	}()
	<-ended
	return strings.Join(failing.messages, "\n")
}

// exampleTest replaces *testing.T in an example, which has none.
type exampleTest struct {
	testing.TB
	cleanups []func()
	failed   bool
}

// asTest runs an example's test, and prints its failure.
func asTest(test func(t testing.TB)) {
	t := &exampleTest{}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer t.cleanUp()
		test(t)
	}()
	<-ended
}

func (e *exampleTest) cleanUp() {
	for i := len(e.cleanups) - 1; i >= 0; i-- {
		e.cleanups[i]()
	}
}

func (*exampleTest) Helper()                  {}
func (*exampleTest) Name() string             { return "example" }
func (*exampleTest) Context() context.Context { return context.Background() }
func (e *exampleTest) Cleanup(f func())       { e.cleanups = append(e.cleanups, f) }
func (e *exampleTest) Failed() bool           { return e.failed }
func (*exampleTest) Log(...any)               {}
func (*exampleTest) Logf(string, ...any)      {}

func (e *exampleTest) Error(a ...any) {
	e.failed = true
	fmt.Println(a...)
}

func (e *exampleTest) Errorf(format string, a ...any) { e.Error(fmt.Sprintf(format, a...)) }

func (e *exampleTest) FailNow() {
	e.failed = true
	runtime.Goexit()
}

func (e *exampleTest) Fatal(a ...any) {
	e.Error(a...)
	e.FailNow()
}

func (e *exampleTest) Fatalf(format string, a ...any) { e.Fatal(fmt.Sprintf(format, a...)) }
