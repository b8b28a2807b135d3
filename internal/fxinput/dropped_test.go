package fxinput

import (
	"strings"
	"testing"

	"go.uber.org/fx"
)

type (
	wanted  struct{}
	between struct{}
	missing struct{}
	given   struct{}
)

func newWanted(*between) *wanted   { return &wanted{} }
func newBetween(*missing) *between { return &between{} }

// The graph is fx's own: a change of its format fails here.
func TestDropped_ConstructorCannotBeCalled_IsNamedWithWhatItNeeds(t *testing.T) {
	type optional struct {
		fx.In
		Wanted *wanted `optional:"true"`
		Graph  fx.DotGraph
	}
	type group struct {
		fx.In
		All   []*given `group:"all"`
		Maybe *missing `optional:"true"`
	}
	for name, c := range map[string]struct {
		app  fx.Option
		want string
	}{
		"nothing is provided": {fx.Options(), ""},
		"complete": {
			fx.Provide(newWanted, func() *between { return &between{} }), "",
		},
		"nil": {fx.Provide(func() *wanted { return nil }), ""},
		"directly": {
			fx.Provide(newWanted),
			"fxinput.newWanted needs *fxinput.between, which the app does not provide",
		},
		"two levels deep": {
			fx.Options(fx.Provide(newWanted), fx.Module("below", fx.Provide(newBetween))),
			"fxinput.newBetween needs *fxinput.missing, which the app does not provide",
		},
		"private to another module": {
			fx.Module("own", fx.Provide(func() *wanted { return &wanted{} }, fx.Private)), "",
		},
		"with a name": {
			fx.Provide(fx.Annotate(newWanted, fx.ResultTags(`name:"other"`)), newBetween), "",
		},
		"needs a named value": {
			fx.Provide(fx.Annotate(newWanted, fx.ParamTags(`name:"one"`))),
			"needs *fxinput.between[name=one], which",
		},
		"needs a group and an optional value": {
			fx.Provide(func(group) *wanted { return nil }), "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := fx.New(fx.NopLogger, c.app, fx.Invoke(func(in optional) error {
				return Dropped(in, in.Graph)
			})).Err()
			switch {
			case c.want == "" && err != nil, c.want != "" && err == nil:
				t.Errorf("got %v, want %q", err, c.want)
			case err != nil && !strings.Contains(err.Error(), c.want):
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	f.Add("digraph {\n\tsubgraph cluster_0 {\n\t\tconstructor_0 [shape=plaintext label=\"x\"];\n" +
		"\t\t\"*a.B\" [label=<*a.B>];\n\t}\n\tconstructor_0 -> \"*a.B\" [ltail=cluster_0];\n}")
	f.Fuzz(func(t *testing.T, graph string) {
		w := read(fx.DotGraph(graph))
		for key := range w.makers {
			w.lack(key, map[string]bool{})
		}
	})
}
