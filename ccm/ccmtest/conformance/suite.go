package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// Suite describes the provider that is examined.
type Suite struct {
	// Provider is the provider. Required.
	Provider ccm.Provider

	// NewCloud starts a stub of the cloud, and ends it with t.Cleanup. A check may start two.
	// Required.
	NewCloud func(t testing.TB) Cloud

	// BadConfig is the content of a configuration file that the provider must refuse. Empty: the
	// check bad-configuration is skipped.
	BadConfig string

	// Configure changes the configuration of each Manager. Optional.
	Configure func(*ccm.Config)

	// Cluster returns the API server. It is not called in the processes of the checks. Nil: one is
	// started, which takes three seconds. The names of the checks' Nodes and Services begin with
	// "conformance-".
	Cluster func(t testing.TB) ccmtest.Cluster

	// Checks are the names of the checks to run. Nil: all.
	Checks []string

	// WaitLimit limits the wait for each effect of the provider. Default: 30 seconds.
	WaitLimit time.Duration
}

// Cloud is a stub of a cloud. A [Gate] has the last three methods. Its methods must be safe for
// concurrent use.
type Cloud interface {
	// ConfigFile is the provider's configuration file for this cloud, or empty.
	ConfigFile() string

	// AddInstance adds an instance for a node.
	AddInstance(node string)

	// RemoveInstance deletes the instance of a node, like the user of the cloud.
	RemoveInstance(node string)

	// Requests are the requests that have reached the cloud, in order of arrival.
	Requests() []Request

	// Hold blocks requests of an operation until release is called or the client disconnects.
	Hold(operation string) (release func())

	// Fail makes all requests fail until end is called.
	Fail() (end func())
}

// Adopter is a [Cloud] whose provider uses an existing load balancer if a Service names it.
type Adopter interface {
	Cloud

	// AddLoadBalancer creates a load balancer as a user does, and returns the annotations of a
	// Service that uses it.
	AddLoadBalancer() (id string, annotations map[string]string)

	// HasLoadBalancer reports whether the load balancer exists.
	HasLoadBalancer(id string) bool
}

// Identifier is a [Cloud] whose provider finds an instance by the provider ID that the kubelet has
// set on its Node.
type Identifier interface {
	Cloud

	// ProviderID is the provider ID of the instance for a node, which AddInstance has added.
	ProviderID(node string) string
}

// Request is a request to the cloud.
type Request struct {
	// Operation is a short name for requests of the same kind, such as "POST /servers".
	Operation string

	// Mutating requests change the cloud. A login does not.
	Mutating bool

	// Began is when the request reached the cloud. Ended is zero while it is in flight.
	Began, Ended time.Time
}

// Run examines the provider and logs the report. The test fails for each check that fails.
func Run(t *testing.T, s Suite) Report {
	t.Helper()
	report := Examine(t, s)
	t.Logf("\n%s", report)
	for _, r := range report.Results {
		if r.Outcome == Failed {
			t.Errorf("%s: %s\n%s", r.Check, r.Detail, r.Output)
		}
	}
	return report
}

// Examine is [Run] for providers with known problems: the test does not fail for a failed check.
// A test calls Run or Examine once; subtests may call it, too.
func Examine(t *testing.T, s Suite) Report {
	t.Helper()
	if s.Provider.New == nil || s.NewCloud == nil {
		t.Fatal("conformance: Suite needs Provider and NewCloud")
	}
	if s.WaitLimit == 0 {
		s.WaitLimit = 30 * time.Second
	}
	chosen := s.choose(t)
	if order, ok := ordered(t); ok {
		s.obey(t, order)
	}
	cluster := s.cluster(t)
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	if err := controlplane.WriteKubeconfig(kubeconfig, cluster.RESTConfig()); err != nil {
		t.Fatal(err)
	}
	leases, err := leaseKeys(t.Context(), cluster)
	if err != nil {
		t.Fatal(err)
	}
	report := Report{Provider: s.Provider.Name}
	for _, c := range chosen {
		result := runProcess(t, c, kubeconfig, leases)
		if err := removeObjects(t.Context(), cluster); err != nil {
			t.Fatalf("remove the objects of check %s: %v", c.name, err)
		}
		report.Results = append(report.Results, result)
	}
	return report
}

func (s Suite) choose(t *testing.T) []check {
	t.Helper()
	all := checks()
	for _, name := range s.Checks {
		if !slices.ContainsFunc(all, func(c check) bool { return c.name == name }) {
			t.Fatalf("conformance: unknown check %q", name)
		}
	}
	return slices.DeleteFunc(all, func(c check) bool {
		return s.Checks != nil && !slices.Contains(s.Checks, c.name)
	})
}

func (s Suite) cluster(t *testing.T) ccmtest.Cluster {
	t.Helper()
	if s.Cluster != nil {
		return s.Cluster(t)
	}
	return controlplane.ForTest(t)
}

// badConfigFile writes the configuration that the provider must refuse.
func (s Suite) badConfigFile(t testing.TB) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bad.conf")
	if err := os.WriteFile(path, []byte(s.BadConfig), 0o600); err != nil {
		t.Fatal(fmt.Errorf("write the bad configuration: %w", err))
	}
	return path
}
