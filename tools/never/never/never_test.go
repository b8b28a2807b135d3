package never_test

import (
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/fxccm/fxccm/tools/never/never"
)

// Each folder of testdata breaks one rule in all known ways, beside similar code that is correct.
// The comments contain all expected reports.
func TestAnalyzer_ForbiddenCode_IsReported(t *testing.T) {
	for _, sample := range []string{
		"exit", "panics", "signals", "flags", "registry", "setting",
		"inits", "variables", "output", "imports", "duration", "good",
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
