package options_test

import (
	"maps"
	"slices"
	"testing"

	"github.com/spf13/pflag"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/cloud-provider/names"
	upstream "k8s.io/cloud-provider/options"
	cliflag "k8s.io/component-base/cli/flag"

	"github.com/fxccm/fxccm/options"
)

func upstreamFlags(t *testing.T) cliflag.NamedFlagSets {
	t.Helper()
	o, err := upstream.NewCloudControllerManagerOptions()
	if err != nil {
		t.Fatalf("upstream's options: %v", err)
	}
	return o.Flags(nil, nil, names.CCMControllerAliases(), nil, nil)
}

// flat returns the flags of all groups by name, and the group of each.
func flat(sets cliflag.NamedFlagSets) (flags map[string]*pflag.Flag, groups map[string]string) {
	flags, groups = map[string]*pflag.Flag{}, map[string]string{}
	for group, set := range sets.FlagSets {
		set.VisitAll(func(f *pflag.Flag) { flags[f.Name], groups[f.Name] = f, group })
	}
	return flags, groups
}

func differencesByFlag(t *testing.T) map[string]options.Difference {
	t.Helper()
	byFlag := map[string]options.Difference{}
	for _, d := range options.Differences() {
		if _, twice := byFlag[d.Flag]; twice {
			t.Errorf("--%s has two rows in Differences", d.Flag)
		}
		if d.Why == "" {
			t.Errorf("--%s differs without a reason", d.Flag)
		}
		byFlag[d.Flag] = d
	}
	return byFlag
}

func TestFlags_ComparedWithUpstreams_DifferOnlyAsDeclared(t *testing.T) {
	ours, ourGroups := flat(options.New().Flags())
	theirs, theirGroups := flat(upstreamFlags(t))
	declared := differencesByFlag(t)
	if len(theirs) < 70 {
		t.Fatalf("only %d flags of upstream were found", len(theirs))
	}

	for name, want := range theirs {
		got, ok := ours[name]
		if !ok {
			t.Errorf("upstream's --%s is missing", name)
			continue
		}
		d := declared[name]
		if got.Value.Type() != want.Value.Type() {
			t.Errorf("--%s is a %s, upstream's a %s", name, got.Value.Type(), want.Value.Type())
		}
		if got.Shorthand != want.Shorthand || got.NoOptDefVal != want.NoOptDefVal {
			t.Errorf("--%s has shorthand %q and value %q when given alone, upstream's %q and %q",
				name, got.Shorthand, got.NoOptDefVal, want.Shorthand, want.NoOptDefVal)
		}
		if (got.Deprecated != "") != (want.Deprecated != "") || got.Hidden != want.Hidden {
			t.Errorf("--%s: deprecated %t and hidden %t, upstream %t and %t",
				name, got.Deprecated != "", got.Hidden, want.Deprecated != "", want.Hidden)
		}
		if ourGroups[name] != theirGroups[name] {
			t.Errorf("--%s is in the group %q, upstream in %q", name, ourGroups[name],
				theirGroups[name])
		}
		switch {
		case d.Kind == options.Default:
			if got.DefValue != d.Ours || want.DefValue != d.Upstream || d.Ours == d.Upstream {
				t.Errorf("--%s defaults to %q here and %q upstream; declared are %q and %q",
					name, got.DefValue, want.DefValue, d.Ours, d.Upstream)
			}
		case got.DefValue != want.DefValue:
			t.Errorf("--%s defaults to %q, upstream to %q, and Differences does not say so", name,
				got.DefValue, want.DefValue)
		}
	}
	for name := range ours {
		if _, ok := theirs[name]; ok != (declared[name].Kind != options.Added) {
			t.Errorf("--%s: upstream has it: %t; declared as %q", name, ok, declared[name].Kind)
		}
	}
	for name := range declared {
		if _, ok := ours[name]; !ok {
			t.Errorf("Differences names --%s, which does not exist", name)
		}
	}
}

func TestFlags_Groups_AreInUpstreamsOrder(t *testing.T) {
	if got, want := options.New().Flags().Order, upstreamFlags(t).Order; !slices.Equal(got, want) {
		t.Errorf("groups are %q, upstream's %q", got, want)
	}
}

// A program must be able to set every gate that --feature-gates accepts.
func TestFeatureGates_ComparedWithUpstreams_AreTheSameAndOffByDefault(t *testing.T) {
	registered := utilfeature.DefaultMutableFeatureGate.DeepCopy()
	gates, _, err := options.ParseFeatureGates(
		"CloudControllerManagerWatchBasedRoutesReconciliation=true,CloudControllerManagerWebhook=false,ControllerManagerReleaseLeaderElectionLockOnExit=true")
	if err != nil {
		t.Fatalf("upstream's gates are not all known: %v", err)
	}
	known := registered.GetAll()
	for name := range gates {
		found := false
		for feature, spec := range known {
			if string(feature) == name {
				found = true
				if spec.Default {
					t.Errorf("upstream enables %s by default", name)
				}
			}
		}
		if !found {
			t.Errorf("upstream no longer registers %s", name)
		}
	}
	if err := registered.SetFromMap(maps.Clone(gates)); err != nil {
		t.Errorf("upstream's gates refuse the parsed values: %v", err)
	}
}
