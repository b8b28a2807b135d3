package ccm

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/fxccm/fxccm/internal/cloudcontrollers"
)

// leaseJitter is client-go's leaderelection.JitterFactor. RenewDeadline must exceed
// RetryPeriod×leaseJitter to leave time for a second renewal.
const leaseJitter = 1.2

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
	errs = append(errs, notNegative("controllerStartInterval", c.ControllerStartInterval)...)
	errs = append(errs, notNegative("minResyncPeriod", c.MinResyncPeriod)...)
	errs = append(errs, aboveZero(field.NewPath("cacheSyncTimeout"), c.CacheSyncTimeout)...)
	errs = append(errs, aboveZero(field.NewPath("drainTimeout"), c.DrainTimeout)...)
	errs = append(errs, c.CloudProvider.validate(field.NewPath("cloudProvider"))...)
	errs = append(errs, c.ClientConnection.validate(field.NewPath("clientConnection"))...)
	errs = append(errs, c.LeaderElection.validate(field.NewPath("leaderElection"))...)
	errs = append(errs, c.Node.validate(field.NewPath("node"))...)
	errs = append(errs, c.NodeLifecycle.validate(field.NewPath("nodeLifecycle"))...)
	errs = append(errs, c.Service.validate(field.NewPath("service"))...)
	errs = append(errs, c.Route.validate(field.NewPath("route"))...)
	if len(errs) == 0 {
		return nil
	}
	return &ConfigError{Fields: errs}
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

func (c LeaderElectionConfig) validate(path *field.Path) field.ErrorList {
	if !c.LeaderElect {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, aboveZero(path.Child("leaseDuration"), c.LeaseDuration)...)
	errs = append(errs, aboveZero(path.Child("renewDeadline"), c.RenewDeadline)...)
	errs = append(errs, aboveZero(path.Child("retryPeriod"), c.RetryPeriod)...)
	if c.ResourceName == "" {
		errs = append(errs, field.Required(path.Child("resourceName"), "the lease needs a name"))
	}
	if c.ResourceNamespace == "" {
		errs = append(errs, field.Required(path.Child("resourceNamespace"),
			"the lease needs a namespace"))
	}
	if len(errs) > 0 {
		return errs
	}
	if c.LeaseDuration.Duration%time.Second != 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"),
			c.LeaseDuration.Duration.String(),
			"must be whole seconds: the Lease records nothing finer"))
	}
	if c.LeaseDuration.Duration <= c.RenewDeadline.Duration {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"),
			c.LeaseDuration.Duration.String(),
			fmt.Sprintf("must be longer than renewDeadline (%s)", c.RenewDeadline.Duration)))
	}
	least := time.Duration(leaseJitter * float64(c.RetryPeriod.Duration))
	if c.RenewDeadline.Duration <= least {
		errs = append(errs, field.Invalid(path.Child("renewDeadline"),
			c.RenewDeadline.Duration.String(),
			fmt.Sprintf("must be longer than 1.2 times retryPeriod (%s)", least)))
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
	for i, entry := range entries {
		if entry == "*" {
			sel.all = true
			continue
		}
		name, ok := canonical[strings.TrimPrefix(entry, "-")]
		if !ok {
			return sel, configError(field.NotSupported(field.NewPath("controllers").Index(i), entry,
				known))
		}
		if _, said := sel.named[name]; !said {
			sel.named[name] = !strings.HasPrefix(entry, "-")
		}
	}
	return sel, nil
}

func (s controllerSelection) enabled(c Controller) bool {
	if on, named := s.named[c.Name]; named {
		return on
	}
	return s.all && !c.DisabledByDefault
}
