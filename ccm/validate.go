package ccm

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
	"github.com/fxccm/fxccm/internal/rescue"
)

// Validate returns a *[ConfigError] that names every invalid field, or nil. [New] checks the names
// of controllers, because the host's own controllers are not part of Config.
func (c Config) Validate() error {
	var errs field.ErrorList
	if c.ClusterName == "" {
		errs = append(errs, field.Required(field.NewPath("clusterName"),
			"must not be empty: load balancers and routes are named after it"))
	}
	if c.ClusterCIDR != "" {
		if _, err := cloudcontrollers.ParseClusterCIDRs(c.ClusterCIDR); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("clusterCIDR"), c.ClusterCIDR,
				err.Error()))
		}
	}
	if _, err := labels.Parse(c.NodeSelector); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("nodeSelector"), c.NodeSelector,
			err.Error()))
	}
	errs = append(errs, notNegative("controllerStartInterval", c.ControllerStartInterval)...)
	errs = append(errs, notNegative("minResyncPeriod", c.MinResyncPeriod)...)
	errs = append(errs, aboveZero(field.NewPath("cacheSyncTimeout"), c.CacheSyncTimeout)...)
	errs = append(errs, aboveZero(field.NewPath("drainTimeout"), c.DrainTimeout)...)
	errs = append(errs, c.CloudProvider.validate(field.NewPath("cloudProvider"))...)
	errs = append(errs, c.ClientConnection.validate(field.NewPath("clientConnection"))...)
	errs = append(errs, c.LeaderElection.Validate(field.NewPath("leaderElection"))...)
	errs = append(errs, c.Node.validate(field.NewPath("node"))...)
	errs = append(errs, c.NodeLifecycle.validate(field.NewPath("nodeLifecycle"))...)
	errs = append(errs, c.Service.validate(field.NewPath("service"))...)
	errs = append(errs, c.Route.validate(field.NewPath("route"))...)
	if len(errs) == 0 {
		return nil
	}
	return &ConfigError{Fields: errs}
}

// validate returns what the Config selects, or a *[ConfigError] that names every invalid field.
func (p Params) validate() (
	provider Provider, all []Controller, selected controllerSelection, _ error,
) {
	var errs field.ErrorList
	note := func(path *field.Path, value any, err error) {
		if known, ok := errors.AsType[*ConfigError](err); ok {
			errs = append(errs, known.Fields...)
		} else if err != nil {
			errs = append(errs, field.Invalid(path, value, err.Error()))
		}
	}
	note(nil, nil, p.Config.Validate())
	isValid := len(errs) == 0
	provider, err := selectProvider(p.Config.CloudProvider.Name, p.Providers)
	note(nil, nil, err)
	if err == nil && provider.Validate != nil {
		err := rescue.Panic(func() error { return provider.Validate(p.Config) })
		if err != nil {
			path := field.NewPath("cloudProvider", "configFile")
			err = fmt.Errorf("the cloud provider %q rejects it: %w", provider.Name, err)
			note(path, p.Config.CloudProvider.ConfigFile, err)
		}
	}
	all, err = joinControllers(builtin(p.Config), p.Controllers)
	note(nil, nil, err)
	selected, err = selectControllers(p.Config.Controllers, all)
	note(nil, nil, err)
	for _, c := range all {
		if isValid && c.Validate != nil && selected.enabled(c) {
			err := rescue.Panic(func() error { return c.Validate(p.Config) })
			note(field.NewPath("Params", "Controllers").Key(c.Name), "", err)
		}
	}
	if p.RequireOwnerMark && p.Owner == "" {
		errs = append(errs, field.Required(field.NewPath("Params", "Owner"),
			"RequireOwnerMark needs the owner whose mark it requires"))
	}
	if len(errs) > 0 {
		return provider, all, selected, &ConfigError{Fields: errs}
	}
	return provider, all, selected, nil
}

// nodeSelector returns the parsed NodeSelector of a valid Config.
func (c Config) nodeSelector() labels.Selector {
	selector, err := labels.Parse(c.NodeSelector)
	if err != nil {
		return labels.Nothing()
	}
	return selector
}

func (c CloudProviderConfig) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if c.StartTimeout.Duration < 0 {
		errs = append(errs, field.Invalid(path.Child("startTimeout"),
			c.StartTimeout.Duration.String(), "must not be negative"))
	}
	for i, agent := range c.UserAgents {
		if strings.TrimSpace(agent) == "" ||
			strings.ContainsFunc(agent, func(r rune) bool { return r < ' ' || r > '~' }) {
			errs = append(errs, field.Invalid(path.Child("userAgents").Index(i), agent,
				"must be printable ASCII: it becomes part of an HTTP header"))
		}
	}
	return errs
}

func (c ClientConnectionConfig) validate(path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if qps := float64(c.QPS); math.IsNaN(qps) || math.IsInf(qps, 0) {
		errs = append(errs, field.Invalid(path.Child("qps"), c.QPS, "must be a finite number"))
	}
	if c.Burst < 0 {
		errs = append(errs, field.Invalid(path.Child("burst"), c.Burst, "must not be negative"))
	}
	return errs
}

func aboveZero(path *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration <= 0 {
		return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be longer than 0")}
	}
	return nil
}

func notNegative(name string, d metav1.Duration) field.ErrorList {
	if d.Duration < 0 {
		return field.ErrorList{field.Invalid(field.NewPath(name), d.Duration.String(),
			"must not be negative")}
	}
	return nil
}

// controllerSelection decides, from Config.Controllers, which controllers run. As upstream, an
// explicit name overrides "*", and the first entry for a name counts.
type controllerSelection struct {
	all   bool
	named map[string]bool
}

// selectControllers resolves aliases and rejects unknown names.
func selectControllers(entries []string, all []Controller) (controllerSelection, error) {
	canonical := map[string]string{}
	var known []string
	for _, c := range all {
		known = append(known, c.Name)
		canonical[c.Name] = c.Name
		for _, alias := range c.Aliases {
			canonical[alias] = c.Name
		}
	}
	slices.Sort(known)
	sel := controllerSelection{named: map[string]bool{}}
	var errs field.ErrorList
	for i, entry := range entries {
		if entry == "*" {
			sel.all = true
			continue
		}
		name, ok := canonical[strings.TrimPrefix(entry, "-")]
		if !ok {
			path := field.NewPath("controllers").Index(i)
			errs = append(errs, field.NotSupported(path, entry, known))
			continue
		}
		if _, said := sel.named[name]; !said {
			sel.named[name] = !strings.HasPrefix(entry, "-")
		}
	}
	if len(errs) > 0 {
		return sel, &ConfigError{Fields: errs}
	}
	return sel, nil
}

func (s controllerSelection) enabled(c Controller) bool {
	if on, named := s.named[c.Name]; named {
		return on
	}
	return s.all && !c.DisabledByDefault
}
