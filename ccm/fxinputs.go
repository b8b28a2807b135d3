package ccm

import (
	"errors"
	"fmt"
	"log/slog"
	"reflect"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/fx"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	cloudprovider "k8s.io/cloud-provider"

	"github.com/fxccm/fxccm/ccm/election"
	"github.com/fxccm/fxccm/internal/fxinput"
)

// inputs are the values from which [Module] makes the Params of an app.
//
// fx.Supply registers a value under its concrete type, so a field of an interface type alone would
// not receive the values that hosts usually supply. A second field has the concrete type, and is
// used if the first is empty.
type inputs struct {
	fx.In

	Config         Config                    `optional:"true"`
	ConfigPtr      *Config                   `optional:"true"`
	Providers      []Provider                `group:"ccm.providers"`
	ProviderPtrs   []*Provider               `group:"ccm.providers"`
	Clouds         []cloudprovider.Interface `group:"ccm.providers"`
	Provider       Provider                  `optional:"true"`
	ProviderPtr    *Provider                 `optional:"true"`
	ProviderList   []Provider                `optional:"true"`
	Replacements   []replacement             `group:"ccm.replacements"`
	Controllers    []Controller              `group:"ccm.controllers"`
	ControllerPtrs []*Controller             `group:"ccm.controllers"`
	Controller     Controller                `optional:"true"`
	ControllerPtr  *Controller               `optional:"true"`
	ControllerList []Controller              `optional:"true"`

	RESTConfig     *rest.Config                       `optional:"true"`
	Clients        ClientBuilder                      `optional:"true"`
	ClientFunc     func(string) (*rest.Config, error) `optional:"true"`
	Informers      informers.SharedInformerFactory    `optional:"true"`
	Elector        election.Elector                   `optional:"true"`
	Host           *election.Host                     `optional:"true"`
	Alone          *election.Alone                    `optional:"true"`
	EventRecorders EventRecorderSource                `optional:"true"`
	RecorderFunc   func(string) record.EventRecorder  `optional:"true"`
	Shared         shared

	Graph fx.DotGraph
}

// shared are the values that all Managers of an app share.
type shared struct {
	fx.In

	Logger      *logr.Logger          `optional:"true"`
	LoggerValue logr.Logger           `optional:"true"`
	Slog        *slog.Logger          `optional:"true"`
	Registerer  prometheus.Registerer `optional:"true"`
	Registry    *prometheus.Registry  `optional:"true"`
	Tracer      Tracer                `optional:"true"`
}

// fill sets the fields of p that are nil.
func (s shared) fill(p *Params) {
	switch {
	case p.Logger != nil:
	case s.Logger != nil:
		p.Logger = s.Logger
	case s.LoggerValue.GetSink() != nil:
		p.Logger = &s.LoggerValue
	case s.Slog != nil:
		log := logr.FromSlogHandler(s.Slog.Handler())
		p.Logger = &log
	}
	switch {
	case p.Registerer != nil:
	case s.Registerer != nil:
		p.Registerer = s.Registerer
	case s.Registry != nil:
		p.Registerer = s.Registry
	}
	if p.Tracer == nil {
		p.Tracer = s.Tracer
	}
}

// replacement holds the providers that [ReplaceProviders] substitutes.
type replacement struct{ providers []Provider }

// appParams returns the Params of the app's Config. If the app has none, they have no Config.
func appParams(in inputs) (Params, error) {
	err := errors.Join(fxinput.Dropped(in, in.Graph), fxinput.Dropped(in.Shared, in.Graph))
	if err != nil {
		return Params{}, fmt.Errorf("ccm: %w", err)
	}
	p := Params{
		Config:         in.Config,
		Controllers:    in.Controllers,
		RESTConfig:     in.RESTConfig,
		Clients:        in.Clients,
		Informers:      SharedInformers{Factory: in.Informers},
		EventRecorders: in.EventRecorders,
	}
	in.Shared.fill(&p)
	if in.ClientFunc != nil {
		if p.Clients != nil {
			return Params{}, errTwo("Clients")
		}
		p.Clients = in.ClientFunc
	}
	if in.RecorderFunc != nil {
		if p.EventRecorders != nil {
			return Params{}, errTwo("EventRecorders")
		}
		p.EventRecorders = in.RecorderFunc
	}
	if in.ConfigPtr != nil {
		if !isZero(in.Config) {
			return Params{}, errTwo("Config")
		}
		p.Config = *in.ConfigPtr
	}
	for _, controller := range in.ControllerPtrs {
		if controller == nil {
			return Params{}, errNil("AsController")
		}
		p.Controllers = append(p.Controllers, *controller)
	}
	if in.Controller.Name != "" || in.Controller.New != nil {
		p.Controllers = append(p.Controllers, in.Controller)
	}
	if in.ControllerPtr != nil {
		p.Controllers = append(p.Controllers, *in.ControllerPtr)
	}
	p.Controllers = append(p.Controllers, in.ControllerList...)
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
	all := in.Providers
	for _, provider := range in.ProviderPtrs {
		if provider == nil {
			return nil, errNil("AsProvider")
		}
		all = append(all, *provider)
	}
	for _, cloud := range in.Clouds {
		if cloud == nil {
			return nil, errNil("AsProvider")
		}
		all = append(all, StaticProvider(cloud))
	}
	if in.Provider.Name != "" || in.Provider.New != nil {
		all = append(all, in.Provider)
	}
	if in.ProviderPtr != nil {
		all = append(all, *in.ProviderPtr)
	}
	return append(all, in.ProviderList...), nil
}

func (in inputs) elector() (election.Elector, error) {
	switch {
	case in.Elector != nil:
		return in.Elector, nil
	case in.Host != nil && in.Alone != nil:
		return nil, errTwo("Elector")
	case in.Host != nil:
		return in.Host, nil
	case in.Alone != nil:
		return in.Alone, nil
	}
	return nil, nil
}

var errNoConfig = errors.New("ccm: no Config in the app: add fx.Supply(cfg) with a cfg that began " +
	"as ccm.DefaultConfig(), or a constructor with ccm.AsParams")

func errTwo(kind string) error {
	return fmt.Errorf("ccm: the app has two values for Params.%s: keep one of them", kind)
}

func errNil(annotation string) error {
	return fmt.Errorf("ccm: a constructor with %s has returned nil", annotation)
}

func isZero(cfg Config) bool { return reflect.ValueOf(cfg).IsZero() }
