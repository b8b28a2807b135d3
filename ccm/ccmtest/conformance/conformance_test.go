package conformance_test

import (
	"context"
	"runtime"
	"strings"
	"testing"
	"time"

	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest/conformance"
	"github.com/fxccm/fxccm/hosting/process"
)

func TestRun_FakeProvider_IsSafeInProcess(t *testing.T) {
	t.Parallel()
	report := conformance.Run(t, conformance.Suite{
		Provider: ccm.Provider{
			Name: "fake",
			New: func(ctx context.Context, env ccm.ProviderEnv) (cloudprovider.Interface, error) {
				return dial(ctx, env)
			},
		},
		NewCloud: newStub, BadConfig: "not an address", Cluster: cluster,
	})
	for _, result := range report.Results {
		want := conformance.Passed
		if result.Check == "endpoints" {
			want = conformance.Skipped
		}
		if result.Outcome != want {
			t.Errorf("%s %s: %s", result.Check, result.Outcome, result.Detail)
		}
	}
	if got := report.Verdict(); got != "safe in process" {
		t.Errorf("verdict %q", got)
	}
}

func TestExamine_HostileProvider_IsCaughtAndHarmlessInAProcessOfItsOwn(t *testing.T) {
	t.Parallel()
	for _, h := range hostiles() {
		suite := conformance.Suite{
			NewCloud: newStub, BadConfig: "not an address", Cluster: cluster,
			Checks: []string{h.check},
		}
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			suite := suite
			suite.Provider, suite.WaitLimit = h.provider(), 10*time.Second
			report := conformance.Examine(t, suite)
			result, _ := report.Result(h.check)
			if result.Outcome != conformance.Failed || !strings.Contains(result.Detail, h.detail) {
				t.Errorf("%s: %s, want a failure with %q\n%s", result.Outcome, result.Detail,
					h.detail, result.Output)
			}
			want := "repair it first, because "
			if h.isolated {
				want = "run it in a process of its own, because "
			}
			if got := report.Verdict(); !strings.HasPrefix(got, want+h.check) {
				t.Errorf("verdict %q, want one that begins with %q", got, want)
			}
			t.Log(report)
		})
		if !h.isolated || runtime.GOOS != "linux" { // package process needs Linux
			continue
		}
		t.Run(h.name+"-in-its-process", func(t *testing.T) {
			t.Parallel()
			suite := suite
			suite.Provider = process.Provider(process.Options{Name: h.name})
			if got := conformance.Run(t, suite).Verdict(); got != "safe in process" {
				t.Errorf("verdict %q", got)
			}
		})
	}
}
