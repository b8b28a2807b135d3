package initfunc

import (
	"context"
	"maps"
	"slices"

	"k8s.io/cloud-provider/app"
	cpconfig "k8s.io/cloud-provider/config"

	"github.com/fxccm/fxccm/ccm"
)

// An Option changes how a controller is adapted.
type Option func(*settings)

type settings struct {
	aliases   []string
	disabled  bool
	configure []func(*cpconfig.CloudControllerManagerConfiguration)
}

// WithAliases adds names that --controllers accepts.
func WithAliases(aliases ...string) Option {
	return func(s *settings) { s.aliases = append(s.aliases, aliases...) }
}

// DisabledByDefault leaves the controller out unless --controllers names it. So does its name in
// app.ControllersDisabledByDefault.
func DisabledByDefault() Option { return func(s *settings) { s.disabled = true } }

// WithComponentConfig changes only the configuration that the InitFunc finds in its
// CompletedConfig. It is for fields that [ccm.Config] does not have, such as
// KubeCloudShared.ExternalCloudVolumePlugin. change is called once a term, with that term's
// configuration. The option may be given several times.
func WithComponentConfig(change func(*cpconfig.CloudControllerManagerConfiguration)) Option {
	return func(s *settings) { s.configure = append(s.configure, change) }
}

// Controller adapts one controller. The name is for --controllers, logs and [status.Manager]. A
// constructor without a function is an error of [ccm.New].
func Controller(
	name string, constructor app.ControllerInitFuncConstructor, opts ...Option,
) ccm.Controller {
	s := settings{disabled: app.ControllersDisabledByDefault.Has(name)}
	for _, opt := range opts {
		opt(&s)
	}
	c := ccm.Controller{Name: name, Aliases: s.aliases, DisabledByDefault: s.disabled}
	if constructor.Constructor == nil {
		return c
	}
	if constructor.InitContext.ClientName == "" {
		constructor.InitContext.ClientName = name
	}
	a := adapter{name: name, constructor: constructor, configure: s.configure}
	c.New = func(ctx context.Context, t *ccm.Term) (ccm.Runnable, error) { return a.build(ctx, t) }
	return c
}

// Controllers adapts the arguments of app.NewCloudControllerManagerCommand: constructors by name,
// and names by alias, such as names.CCMControllerAliases(). Both may be nil. Aliases of other names
// are ignored. The options apply to all controllers, which are returned in name order.
func Controllers(
	constructors map[string]app.ControllerInitFuncConstructor,
	aliases map[string]string, opts ...Option,
) []ccm.Controller {
	adapted := make([]ccm.Controller, 0, len(constructors))
	for _, name := range slices.Sorted(maps.Keys(constructors)) {
		c := Controller(name, constructors[name], opts...)
		c.Aliases = append(slices.Clip(c.Aliases), aliasesOf(name, aliases)...)
		adapted = append(adapted, c)
	}
	return adapted
}

func aliasesOf(name string, aliases map[string]string) []string {
	var found []string
	for _, alias := range slices.Sorted(maps.Keys(aliases)) {
		if aliases[alias] == name && alias != name {
			found = append(found, alias)
		}
	}
	return found
}
