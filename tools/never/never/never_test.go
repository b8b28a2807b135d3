package never_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/fxccm/fxccm/tools/never/never"
)

// Each folder of testdata breaks one rule in all known ways, beside similar code that is correct.
// The comments contain all expected reports.
func TestAnalyzer_ForbiddenCode_IsReported(t *testing.T) {
	for _, sample := range []string{
		"exit", "panics", "signals", "flags", "registry", "setting",
		"inits", "variables", "output", "imports", "good",
	} {
		t.Run(sample, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), never.New(nil), sample)
		})
	}
}

func TestAnalyzer_AllowedCode_IsNotReportedInItsPlace(t *testing.T) {
	allowed := []never.Allowance{
		{Package: "allowed", In: "T.Die", Rule: never.RulePanic},
		{Package: "allowed", In: "embed", Rule: never.RuleImport},
		{Package: "allowed", In: "gone", Rule: never.RuleInit},
		{Package: "elsewhere", In: "Die", Rule: never.RulePanic},
	}
	analysistest.Run(t, analysistest.TestData(), never.New(allowed), "allowed")
	anywhere := []never.Allowance{
		{Package: "anywhere", In: never.Anywhere, Rule: never.RulePanic},
		{Package: "anywhere", In: never.Anywhere, Rule: never.RuleInit},
	}
	analysistest.Run(t, analysistest.TestData(), never.New(anywhere), "anywhere")
}

func TestAllowed_EachAllowance_HasAllFields(t *testing.T) {
	for _, a := range never.Allowed() {
		if a.Why == "" || a.In == "" || a.Package == "" || a.Rule == "" {
			t.Errorf("%+v lacks a field", a)
		}
	}
}

// analysistest does not read expectations in files that are not built, so the collector compares
// the reports.
func TestAnalyzer_FilesForOtherPlatforms_AreChecked(t *testing.T) {
	var said collector
	analysistest.Run(&said, analysistest.TestData(), never.New(nil), "platform")
	for _, want := range []string{
		"init: init runs", "exit: os.Exit", "exit: k8s.io/klog/v2.Fatalf",
		"panic: panic where", "output: fmt.Println",
	} {
		if !strings.Contains(said.String(), "platform_plan9.go") ||
			!strings.Contains(said.String(), want) {
			t.Errorf("want a report with %q, got\n%s", want, said.String())
		}
	}
	if len(said.errors) != 5 {
		t.Errorf("%d reports, want 5:\n%s", len(said.errors), said.String())
	}
}

// collector replaces a test, and keeps the reports.
type collector struct{ errors []string }

func (c *collector) Errorf(format string, args ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

func (c *collector) String() string { return strings.Join(c.errors, "\n") }
