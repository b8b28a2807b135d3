package never

const module = "github.com/fxccm/fxccm/"

// Allowed lists the exceptions for this module's library. An entry that is no longer needed is
// reported.
func Allowed() []Allowance {
	return []Allowance{
		{
			module + "ccm", "termClients.ConfigOrDie", RulePanic,
			"upstream's interface has no error to return; the guard around the provider turns the panic into one",
		},
		{
			module + "ccm", "termClients.ClientOrDie", RulePanic,
			"upstream's interface has no error to return; the guard around the provider turns the panic into one",
		},
		{
			module + "hosting/registered", "boundClients.ConfigOrDie", RulePanic,
			"upstream's interface has no error to return; the guard around the provider turns the panic into one",
		},
		{
			module + "hosting/registered", "boundClients.ClientOrDie", RulePanic,
			"upstream's interface has no error to return; the guard around the provider turns the panic into one",
		},
		{
			module + "internal/cloudcontrollers", "k8s.io/controller-manager/pkg/features/register",
			RuleImport, "the route controller panics unless its feature gate is registered",
		},
		{
			module + "ccm/serving/endpoints", "collect", RuleRegistry,
			"it compares the registerer with that of the host, and registers nothing",
		},
		{
			module + "hosting/initfunc", "clients.ClientOrDie", RulePanic,
			"it makes a client of a configuration that is always valid",
		},
		{
			module + "hosting/initfunc", "clients.DiscoveryClientOrDie", RulePanic,
			"it makes a client of a configuration that is always valid",
		},
		{
			module + "ccm/ccmtest/controlplane", "Tests.Run", RuleOutput,
			"it is the main function of a test binary, which prints why it fails",
		},
		{
			module + "internal/rbac", "testsAreSelected", RuleFlag,
			"it reads the flags of go test, in a test binary",
		},
		{
			module + "hosting/process", "Main", RuleExit,
			"it is the main function of a child process, and returns at once in any other",
		},
		{
			module + "hosting/process", "Main", RuleSignal,
			"it is the main function of a child process, and returns at once in any other",
		},
		{
			module + "hosting/process", "os/signal", RuleImport,
			"it is the main function of a child process, and returns at once in any other",
		},
		{
			module + "hosting/process", "Main", RuleSetting,
			"it is the main function of a child process, and returns at once in any other",
		},
		{
			module + "hosting/process", "Main", RuleOutput,
			"it is the main function of a child process, which prints why it ends",
		},
		{
			module + "hosting/process", "hasMain", RuleVariable,
			"whether the program calls Main is a fact of the process, which no call can pass on",
		},
		{
			module + "hosting/process", "Main", RuleVariable,
			"whether the program calls Main is a fact of the process, which no call can pass on",
		},
		{
			module + "hosting/process", "clients.ConfigOrDie", RulePanic,
			"upstream's interface has no error to return; a panic is an error of Initialize",
		},
		{
			module + "hosting/process", "clients.ClientOrDie", RulePanic,
			"upstream's interface has no error to return; a panic is an error of Initialize",
		},
		{
			module + "hosting/process", "parent.unpack", RulePanic,
			"it is the panic of the provider in its process; the guard around the provider reports it",
		},
		{
			module + "provider/fake", Anywhere, RulePanic,
			"a mistake in the source of a test, or the panic that the test has configured",
		},
		{
			module + "provider/openstack/openstacktest", Anywhere, RulePanic,
			"a mistake in the source of a test, reported where it is made, as net/http/httptest does",
		},
		{
			module + "provider/openstack/openstacktest/internal/keystone", Anywhere, RulePanic,
			"a mistake in the source of a test, reported where it is made, as net/http/httptest does",
		},
		{
			module + "provider/openstack/openstacktest/internal/neutron", Anywhere, RulePanic,
			"a mistake in the source of a test, reported where it is made, as net/http/httptest does",
		},
		{
			module + "provider/openstack/openstacktest/internal/octavia", Anywhere, RulePanic,
			"a mistake in the source of a test, reported where it is made, as net/http/httptest does",
		},
		{
			module + "provider/openstack/openstacktest/internal/resource", Anywhere, RulePanic,
			"a mistake in the source of a test, reported where it is made, as net/http/httptest does",
		},
	}
}
