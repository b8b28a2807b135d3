package options

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/cloud-provider/names"
	cliflag "k8s.io/component-base/cli/flag"
)

// Options is the command line of one Manager. Get one from [New], bind it with [Options.AddFlags]
// or [Options.Flags], parse, and call [Options.Complete]. It is not safe for concurrent use.
type Options struct {
	// Configuration holds the defaults of the flags until they are bound, and the values of the
	// flags after they are parsed. A host may change it before it binds them. It does not include
	// the file given with --config; the result of [Options.Complete] does.
	Configuration

	configFile   string
	featureGates map[string]bool
	// unreadGates are gates of --feature-gates that no part of a cloud controller manager reads.
	unreadGates []string
	bound       []boundFlag
}

// boundFlag is a row of the table in a flag set.
type boundFlag struct {
	spec flagSpec
	flag *pflag.Flag
}

// New returns Options with the values of [DefaultConfiguration].
func New() *Options { return &Options{Configuration: DefaultConfiguration()} }

// FlagOption configures the binding of flags.
type FlagOption func(*binding)

type binding struct {
	prefix      string
	controllers []string
}

// WithPrefix adds a prefix, such as "ccm-", to the name of every flag, so that a host keeps its own
// --leader-elect. Default "".
func WithPrefix(prefix string) FlagOption {
	return func(b *binding) { b.prefix = prefix }
}

// WithControllers adds the names of the host's own controllers to the help of --controllers.
func WithControllers(names ...string) FlagOption {
	return func(b *binding) { b.controllers = append(b.controllers, names...) }
}

func newBinding(opts []FlagOption) binding {
	b := binding{controllers: []string{
		names.CloudNodeController, names.CloudNodeLifecycleController,
		names.ServiceLBController, names.NodeRouteController,
	}}
	for _, opt := range opts {
		opt(&b)
	}
	return b
}

// text adds the prefix to the flags in a text.
func (b binding) text(s string) string { return strings.ReplaceAll(s, "--", "--"+b.prefix) }

// AddFlags adds every flag to fs. If fs already has one of them, it adds none and returns an error.
func (o *Options) AddFlags(fs *pflag.FlagSet, opts ...FlagOption) error {
	b := newBinding(opts)
	sets, bound := o.bind(b)
	var taken []string
	for _, f := range bound {
		if fs.Lookup(f.flag.Name) != nil {
			taken = append(taken, "--"+f.flag.Name)
		}
	}
	if len(taken) > 0 {
		slices.Sort(taken)
		return fmt.Errorf("options: the flag set %q already has %s: "+
			"use a prefix (options.WithPrefix) other than %q",
			fs.Name(), strings.Join(taken, ", "), b.prefix)
	}
	for _, name := range sets.Order {
		fs.AddFlagSet(sets.FlagSets[name])
	}
	o.bound = append(o.bound, bound...)
	return nil
}

// Flags returns every flag in upstream's named groups, for a help text in sections
// (cliflag.PrintSections). The caller adds the groups to its flag set. [Options.AddFlags] is safer,
// because pflag's AddFlagSet silently drops a flag whose name is in use.
func (o *Options) Flags(opts ...FlagOption) cliflag.NamedFlagSets {
	sets, bound := o.bind(newBinding(opts))
	o.bound = append(o.bound, bound...)
	return sets
}

func (o *Options) bind(b binding) (cliflag.NamedFlagSets, []boundFlag) {
	sets := cliflag.NamedFlagSets{FlagSets: map[string]*pflag.FlagSet{}}
	var bound []boundFlag
	for _, group := range flagTable(b.controllers) {
		// NamedFlagSets.FlagSet would create a set that exits the process on a parse error.
		set := pflag.NewFlagSet(group.name, pflag.ContinueOnError)
		for _, spec := range group.flags {
			name := b.prefix + spec.name
			spec.add(set, o, name, b.text(spec.usage))
			flag := set.Lookup(name)
			if spec.deprecated != "" {
				flag.Deprecated, flag.Hidden = b.text(spec.deprecated), true
			}
			bound = append(bound, boundFlag{spec: spec, flag: flag})
		}
		sets.Order = append(sets.Order, group.name)
		sets.FlagSets[group.name] = set
	}
	return sets, bound
}
