package ccm

import (
	"errors"
	"fmt"
	"reflect"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"
)

// inputs are the values that a module takes from an app. A [NamedModule] takes the fields with the
// tag "named" under its name, and its own groups.
//
// fx.Supply registers a value under its concrete type, so a field of an interface type alone would
// not receive the values that hosts usually supply. A second field has the concrete type, and is
// used if the first is empty.
type inputs struct {
	fx.In

	Lifecycle  fx.Lifecycle
	Shutdowner fx.Shutdowner

	Config           Config        `optional:"true" named:"true"`
	Providers        []Provider    `group:"ccm.providers"`
	Provider         Provider      `optional:"true" named:"true"`
	Replacements     []replacement `group:"ccm.replacements"`
	Controllers      []Controller  `group:"ccm.controllers"`
	Controller       Controller    `optional:"true" named:"true"`
	SurroundingHooks []fx.Hook     `group:"ccm.surroundingHooks"`

	RESTConfig        *rest.Config                       `optional:"true" named:"true"`
	Clients           ClientBuilder                      `optional:"true" named:"true"`
	ClientFunc        func(string) (*rest.Config, error) `optional:"true" named:"true"`
	Informers         informers.SharedInformerFactory    `optional:"true" named:"true"`
	Elector           Elector                            `optional:"true" named:"true"`
	HostElector       *HostElector                       `optional:"true" named:"true"`
	AlwaysLead        *always                            `optional:"true" named:"true"`
	EventRecorders    EventRecorderSource                `optional:"true" named:"true"`
	EventRecorderFunc func(string) record.EventRecorder  `optional:"true" named:"true"`

	Logger      *logr.Logger                            `optional:"true"`
	LoggerValue logr.Logger                             `optional:"true"`
	Registerer  prometheus.Registerer                   `optional:"true"`
	Registry    *prometheus.Registry                    `optional:"true"`
	Clock       clock.Clock                             `optional:"true"`
	Policy      DrainTimeoutPolicy                      `optional:"true"`
	PolicyFunc  func(*DrainTimeoutError, fx.Shutdowner) `optional:"true"`
}

// replacement holds the providers that [ReplaceProviders] substitutes.
type replacement struct{ providers []Provider }

// params returns the Params of the named Manager.
func (in inputs) params(name string) (Params, error) {
	if reflect.ValueOf(in.Config).IsZero() {
		return Params{}, errNoConfig(name)
	}
	p := Params{
		Name:           name,
		Config:         in.Config,
		Controllers:    in.Controllers,
		RESTConfig:     in.RESTConfig,
		Clients:        in.Clients,
		Informers:      SharedInformers{Factory: in.Informers},
		Logger:         in.Logger,
		EventRecorders: in.EventRecorders,
		Registerer:     in.Registerer,
		Clock:          in.Clock,
	}
	if in.Controller.Name != "" || in.Controller.New != nil {
		p.Controllers = append(p.Controllers, in.Controller)
	}
	if p.Logger == nil && in.LoggerValue.GetSink() != nil {
		p.Logger = &in.LoggerValue
	}
	if p.Registerer == nil && in.Registry != nil {
		p.Registerer = in.Registry
	}
	if in.ClientFunc != nil {
		if p.Clients != nil {
			return Params{}, errTwo("ClientBuilder")
		}
		p.Clients = in.ClientFunc
	}
	if in.EventRecorderFunc != nil {
		if p.EventRecorders != nil {
			return Params{}, errTwo("EventRecorderSource")
		}
		p.EventRecorders = in.EventRecorderFunc
	}
	var err error
	if p.Providers, err = in.providers(); err != nil {
		return Params{}, err
	}
	p.Elector, err = in.elector()
	return p, err
}

func (in inputs) providers() ([]Provider, error) {
	switch len(in.Replacements) {
	case 0:
	case 1:
		return in.Replacements[0].providers, nil
	default:
		return nil, errors.New("ccm: the app calls ReplaceProviders more than once: " +
			"keep one of the calls")
	}
	if in.Provider.Name != "" || in.Provider.New != nil {
		return append(in.Providers, in.Provider), nil
	}
	return in.Providers, nil
}

func (in inputs) elector() (Elector, error) {
	switch {
	case in.Elector != nil:
		return in.Elector, nil
	case in.HostElector != nil && in.AlwaysLead != nil:
		return nil, errTwo("Elector")
	case in.HostElector != nil:
		return in.HostElector, nil
	case in.AlwaysLead != nil:
		return in.AlwaysLead, nil
	}
	return nil, nil
}

func (in inputs) policy() (DrainTimeoutPolicy, error) {
	switch {
	case in.Policy != nil && in.PolicyFunc != nil:
		return nil, errTwo("DrainTimeoutPolicy")
	case in.Policy != nil:
		return in.Policy, nil
	case in.PolicyFunc != nil:
		return in.PolicyFunc, nil
	}
	return ShutDownIfActing, nil
}

func errNoConfig(name string) error {
	add := "fx.Supply(cfg)"
	if name != "" {
		add = fmt.Sprintf("ccm.Named(%q).Supply(cfg)", name)
	}
	return fmt.Errorf("ccm: no Config in the app, or its constructor lacks a dependency: "+
		"add %s with a cfg that began as ccm.DefaultConfig()", add)
}

func errTwo(kind string) error {
	return fmt.Errorf("ccm: the app has two values for ccm.%s: keep one of them", kind)
}

const optionalTag = `optional:"true"`

// gathered are the inputs of a [NamedModule]. Only that module has this type.
type gathered struct {
	name   string
	inputs inputs
}

// gather returns a constructor of [gathered] for fx.Provide. The tags of inputs are those of the
// unnamed Manager, and fx cannot change the tags of a struct. So gather makes a function with a
// parameter for each field, and tags the parameters.
func (n NamedModule) gather() any {
	of := reflect.TypeFor[inputs]()
	var types []reflect.Type
	var tags []string
	for i := 1; i < of.NumField(); i++ { // the first is fx.In
		field := of.Field(i)
		_, optional := field.Tag.Lookup("optional")
		_, named := field.Tag.Lookup("named")
		tag := ""
		switch group := field.Tag.Get("group"); {
		case group != "":
			tag = n.group(group)
		case named:
			tag = n.tag(optionalTag)
		case optional:
			tag = optionalTag
		}
		types, tags = append(types, field.Type), append(tags, tag)
	}
	signature := reflect.FuncOf(types, []reflect.Type{reflect.TypeFor[gathered]()}, false)
	constructor := reflect.MakeFunc(signature, func(args []reflect.Value) []reflect.Value {
		var all inputs
		for i, arg := range args {
			reflect.ValueOf(&all).Elem().Field(i + 1).Set(arg)
		}
		return []reflect.Value{reflect.ValueOf(gathered{n.name, all})}
	})
	return fx.Annotate(constructor.Interface(), fx.ParamTags(tags...))
}
