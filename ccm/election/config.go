package election

import (
	"fmt"
	"math"
	"time"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Config configures the [Elector] of [NewLease], a coordination.k8s.io/v1 Lease.
type Config struct {
	// LeaderElect campaigns for the lease before acting (--leader-elect). Default true. False is
	// only for clusters with a single replica.
	LeaderElect bool `json:"leaderElect"`

	// LeaseDuration is how long a standby waits after the last renewal that it saw before it takes
	// the lease (--leader-elect-lease-duration). Whole seconds. Default 15s.
	LeaseDuration metav1.Duration `json:"leaseDuration"`

	// RenewDeadline is how long the leader tries to renew before it gives up
	// (--leader-elect-renew-deadline). Less than LeaseDuration. Default 10s.
	RenewDeadline metav1.Duration `json:"renewDeadline"`

	// RetryPeriod is the pause between two attempts (--leader-elect-retry-period). RenewDeadline
	// must be more than 1.2 times as long. Default 2s.
	RetryPeriod metav1.Duration `json:"retryPeriod"`

	// ResourceName and ResourceNamespace name the lease (--leader-elect-resource-name,
	// --leader-elect-resource-namespace). Default cloud-controller-manager in kube-system, as
	// upstream, so that an upstream CCM and this one never act at the same time.
	ResourceName      string `json:"resourceName"`
	ResourceNamespace string `json:"resourceNamespace"`

	// Identity is written to the lease. Default "": host name and a random suffix. It must be
	// unique among the replicas.
	Identity string `json:"identity,omitempty"`
}

// leaseJitter is client-go's leaderelection.JitterFactor. RenewDeadline must exceed
// RetryPeriod×leaseJitter to leave time for a second renewal.
const leaseJitter = 1.2

// Validate returns an error for each invalid field. path is the place of c. Without LeaderElect
// nothing is checked.
func (c Config) Validate(path *field.Path) field.ErrorList {
	if !c.LeaderElect {
		return nil
	}
	var errs field.ErrorList
	errs = append(errs, aboveZero(path.Child("leaseDuration"), c.LeaseDuration)...)
	errs = append(errs, aboveZero(path.Child("renewDeadline"), c.RenewDeadline)...)
	errs = append(errs, aboveZero(path.Child("retryPeriod"), c.RetryPeriod)...)
	errs = append(errs, validName(path.Child("resourceName"), c.ResourceName,
		"the lease needs a name", validation.NameIsDNSSubdomain)...)
	errs = append(errs, validName(path.Child("resourceNamespace"), c.ResourceNamespace,
		"the lease needs a namespace", validation.ValidateNamespaceName)...)
	if len(errs) > 0 {
		return errs
	}
	if c.LeaseDuration.Duration%time.Second != 0 {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"),
			c.LeaseDuration.Duration.String(),
			"must be whole seconds: the Lease records nothing finer"))
	}
	if c.LeaseDuration.Duration > math.MaxInt32*time.Second {
		errs = append(errs, field.Invalid(path.Child("leaseDuration"),
			c.LeaseDuration.Duration.String(), "must be at most 2147483647s"))
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

// validName checks a name by a rule of the API server.
func validName(
	path *field.Path, name, missing string, rule validation.ValidateNameFunc,
) (errs field.ErrorList) {
	if name == "" {
		return field.ErrorList{field.Required(path, missing)}
	}
	for _, message := range rule(name, false) {
		errs = append(errs, field.Invalid(path, name, message))
	}
	return errs
}

func aboveZero(path *field.Path, d metav1.Duration) field.ErrorList {
	if d.Duration <= 0 {
		return field.ErrorList{field.Invalid(path, d.Duration.String(), "must be longer than 0")}
	}
	return nil
}
