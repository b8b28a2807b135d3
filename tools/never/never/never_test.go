package never_test

import (
	"fmt"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/fxccm/fxccm/tools/never/never"
)

// Each folder of testdata breaks one rule in every way that is known, beside code that is right and
// looks alike; the comments say what has to be reported, and nothing else may be.
func TestAnalyzer_FindsEachThingThatMustNotBe(t *testing.T) {
	for _, sample := range []string{
		"exit", "panics", "signals", "flags", "registry", "setting",
		"inits", "variables", "output", "imports", "good",
	} {
		t.Run(sample, func(t *testing.T) {
			analysistest.Run(t, analysistest.TestData(), never.New(nil), sample)
		})
	}
}

func TestAnalyzer_LeavesOutWhatIsAllowedInItsPlaceOnly(t *testing.T) {
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

func TestAllowed_SaysWhy(t *testing.T) {
	for _, a := range never.Allowed() {
		if a.Why == "" || a.In == "" || a.Package == "" || a.Rule == "" {
			t.Errorf("%+v lacks something", a)
		}
	}
}

// analysistest reads no expectations in files that are not built, so what it reports of them is
// taken from it.
func TestAnalyzer_LooksAtFilesForOtherPlatforms(t *testing.T) {
	var said collector
	analysistest.Run(&said, analysistest.TestData(), never.New(nil), "platform")
	for _, want := range []string{
		"init: init runs", "exit: os.Exit", "exit: k8s.io/klog/v2.Fatalf",
		"panic: panic where", "output: fmt.Println",
	} {
		if !strings.Contains(said.String(), "platform_plan9.go") ||
			!strings.Contains(said.String(), want) {
			t.Errorf("it did not report %q, but\n%s", want, said.String())
		}
	}
	if len(said.errors) != 5 {
		t.Errorf("it reported %d things, want 5:\n%s", len(said.errors), said.String())
	}
}

// collector stands in for a test, and keeps what is reported.
type collector struct{ errors []string }

func (c *collector) Errorf(format string, args ...any) {
	c.errors = append(c.errors, fmt.Sprintf(format, args...))
}

func (c *collector) String() string { return strings.Join(c.errors, "\n") }
