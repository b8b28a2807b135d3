package plan_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/desired"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/plan"
)

// stage is a change of the desired or of the observed state, with the plan that follows.
type stage struct {
	title string
	// want is the desired state from now on.
	want desired.State
	// damage is done before the plan. It may be nil.
	damage func(*cloud)
	// removal: the Service is removed instead.
	removal *plan.RemovalOptions
}

// feature is a sequence of stages; each plan is carried out before the next is made.
type feature struct {
	name   string
	cloud  func(*testing.T) *cloud
	stages []stage
}

// option tests a setting: a Service that has it from the start, and one that gets it, changes it
// and loses it.
func option(
	name string, with, changed func(*desired.State), base ...func(*desired.State),
) feature {
	of := func(more ...func(*desired.State)) desired.State {
		return desire(append(append([]func(*desired.State){onePort}, base...), more...)...)
	}
	return feature{name, func(*testing.T) *cloud { return fresh() }, []stage{
		{title: "a Service that has it from the start", want: of(with)},
		{title: "it is changed", want: of(changed)},
		{title: "it is removed", want: of()},
		{title: "it is added", want: of(with)},
	}}
}

func gone(title string, o plan.RemovalOptions) stage { return stage{title: title, removal: &o} }

func all() plan.RemovalOptions { return plan.RemovalOptions{Cascade: true, Tags: true} }

func TestChange_EachFeature_HasTheRecordedPlan(t *testing.T) {
	for _, f := range features() {
		t.Run(f.name, func(t *testing.T) {
			got := f.tell(t)
			path := filepath.Join("testdata", f.name+".golden")
			if *update {
				if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf(
					"the plan differs from %s (go test -update rewrites the file if that is intended):\n%s", path, got)
			}
		})
	}
}

func TestGolden_EachFileHasItsFeature(t *testing.T) {
	files, err := filepath.Glob("testdata/*.golden")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, f := range features() {
		if known[f.name] {
			t.Errorf("two features have the name %s", f.name)
		}
		known[f.name] = true
	}
	for _, file := range files {
		if name := strings.TrimSuffix(filepath.Base(file), ".golden"); !known[name] {
			t.Errorf("%s belongs to no feature", file)
		}
	}
}

// tell carries the plans out, and checks that the next plan is empty.
func (f feature) tell(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	c := f.cloud(t)
	for _, s := range f.stages {
		if s.damage != nil {
			s.damage(c)
		}
		p := s.plan(c)
		fmt.Fprintf(&b, "# %s\n%s\n", s.title, p)
		if err := c.run(p, len(p.Steps)); err != nil {
			t.Errorf("%s: %v", s.title, err)
		}
		if again := s.plan(c); len(again.Steps) > 0 && !waits(p) {
			t.Errorf("%s: these steps remain:\n%s", s.title, again)
		}
	}
	return b.String()
}

func (s stage) plan(c *cloud) plan.Plan {
	if s.removal != nil {
		return plan.Removal(shop(), c.observe(false), *s.removal)
	}
	return change(c, s.want)
}

// waits reports whether another plan follows, because the result of a failover, or of another
// provider, is observed later.
func waits(p plan.Plan) bool {
	if len(p.Steps) == 0 {
		return false
	}
	switch p.Steps[len(p.Steps)-1].(type) {
	case plan.FailoverLoadBalancer, plan.DeleteLoadBalancer:
		return true
	}
	return false
}
