package cloudconf

import (
	"fmt"
	"strings"
	"testing"
)

const id1 = "2cb9b4d4-8a27-4a22-8b5a-5b7a2a6a7e11"

const noTaintKeys = "2: must be comma-separated keys of taints, such as example.com/leaving, " +
	"without value and effect"

// Each case is added to a valid file. A setting that OCCM refuses or fails with at once is an
// error; one with which OCCM fails later is a mistake.
func TestRead_ValidatesValues(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		content string
		// want is "severity: text", about the key in the line after the header unless it names
		// another; "" means no problem.
		want string
	}{
		{"[LoadBalancer]\nsubnet-id = " + id1, ""},
		{"[LoadBalancer]\nsubnet-id =", ""},
		{"[LoadBalancer]\nsubnet-id = my-subnet", "1: must be a UUID"},
		{"[LoadBalancer]\nsubnet-id = " + strings.ReplaceAll(id1, "-", ""), "1: must be a UUID"},
		{"[LoadBalancerClass \"a\"]\nfloating-network-id = x", "1: must be a UUID"},
		{"[Route]\nrouter-id = " + id1 + "/x", "1: must be a UUID"},
		{"[Global]\ntenant-id = 0123456789abcdef0123456789abcdef", ""},
		{"[Global]\ntenant-id = " + id1, ""},
		{"[Global]\ndomain-id = default", ""},
		{"[Global]\ntenant-id = a/../b", `1: must be an ID without blanks and "/"`},
		{"[Global]\nuser-id = a b", `1: must be an ID without blanks and "/"`},
		{"[Global]\nauth-url = keystone:5000", "2: must be an http or https URL"},
		{"[Global]\nauth-url = /v3", "2: must be an http or https URL"},
		{"[Global]\nauth-url = ftp://keystone", "2: must be an http or https URL"},
		{
			"[Global]\nauth-url = https://u:p@keystone/v3",
			"1: must not contain a user or a password",
		},
		{"[Global]\nauth-url = https://keystone/v3?x=y", "1: must not have a query or a fragment"},
		{
			"[Global]\nauth-url = https://keystone/v2.0/",
			"2: ends with v2.0: OpenStack Queens removed that version of Keystone's API; set the " +
				"URL that ends with v3",
		},
		{"[Global]\nos-endpoint-type = internal", ""},
		{
			"[Global]\nos-endpoint-type = intern",
			`2: must be one of public, internal, admin; did you mean "internal"?`,
		},
		{"[Global]\ncafilecontents = \"nothing\"", "2: must contain a certificate in PEM format"},
		{"[Global]\ncert-file = /a", "1: has no effect without key-file"},
		{"[Global]\nkey-file = /a", "1: has no effect without cert-file"},
		{
			"[Global]\ncloud = a",
			"1: use-clouds in [Global]: is not set, so clouds-file and cloud have no effect",
		},
		{"[Networking]\naddress-sort-order = 10.0.0.0/8,2001:db8::/32", ""},
		{
			"[Networking]\naddress-sort-order = 10.0.0.0/8,10.0.0.1",
			"1: must be comma-separated CIDRs; other items are ignored",
		},
		{
			"[Networking]\npublic-network-name =",
			"1: must not be empty, because no network has an empty name",
		},
		{"[LoadBalancer]\nlb-version =", ""},
		{
			"[LoadBalancer]\nlb-version = v2",
			"0: has no effect, and can be removed: only one version of Octavia's API exists",
		},
		{"[LoadBalancer]\nlb-version = v1", `2: must be one of v2; did you mean "v2"?`},
		{"[LoadBalancer]\nlb-method = LEAST_CONNECTIONS", ""},
		{
			"[LoadBalancer]\nlb-method = round-robin",
			`1: must be one of ROUND_ROBIN, LEAST_CONNECTIONS, SOURCE_IP, SOURCE_IP_PORT; did you mean "ROUND_ROBIN"?`,
		},
		{"[LoadBalancer]\nlb-provider = f5", ""},
		{"[LoadBalancer]\nlb-provider =", ""},
		{
			"[LoadBalancer]\nlb-provider = vendor",
			"0: is not one of the known values amphora, octavia, ovn, f5, amphorav2",
		},
		{
			"[LoadBalancer]\nlb-provider = ovn",
			"0: lb-method in [LoadBalancer]: must be SOURCE_IP_PORT, the only method that " +
				"the ovn provider supports",
		},
		{
			"[LoadBalancer]\ncontainer-store = barbicann",
			`1: must be one of barbican, external; did you mean "barbican"?`,
		},
		{
			"[LoadBalancer]\nmonitor-delay = 500ms\nmonitor-timeout = 100ms",
			"1: must be whole seconds, at least 1s\n1: monitor-timeout in [LoadBalancer] " +
				"(line 8): must be whole seconds, at least 1s",
		},
		{"[LoadBalancer]\nmonitor-delay = 5500ms", "1: must be whole seconds, at least 1s"},
		{"[LoadBalancer]\nmonitor-timeout = -1s", "1: must be whole seconds, at least 1s"},
		{
			"[LoadBalancer]\nmonitor-timeout = 5s",
			"0: should be shorter than monitor-delay; both are used",
		},
		{"[LoadBalancer]\nmonitor-timeout = 4s", ""},
		{"[LoadBalancer]\nmonitor-max-retries = 10\nmonitor-max-retries-down = 1", ""},
		{"[LoadBalancer]\nmonitor-max-retries = 0", "1: must be from 1 to 10"},
		{"[LoadBalancer]\nmonitor-max-retries-down = 11", "1: must be from 1 to 10"},
		{"[LoadBalancer]\nmax-shared-lb = 0", "1: must be at least 1"},
		{"[LoadBalancer]\nmax-shared-listeners = 0", "2: must be at least 1"},
		{"[LoadBalancer]\nfloating-subnet = public-*", ""},
		{"[LoadBalancer]\nfloating-subnet = \"!~^a(b)$\"", ""},
		{
			"[LoadBalancer]\nfloating-subnet = \"!~a(\"",
			`1: must be a valid regular expression after "~"`,
		},
		{
			"[LoadBalancer]\nfloating-subnet = \"~(aa|bb|cc|dd|ee|ff|gg|hh|ii|jj){1000}\"",
			"1: needs too much memory: the regular expression is too large: repeat fewer " +
				"things less often",
		},
		{"[LoadBalancer]\nnode-selector = \"role = worker, example.com/zone,a=\"", ""},
		{
			"[LoadBalancer]\nnode-selector = \"a=b=c\"",
			"1: must be comma-separated labels, each as key=value or key; no node can have " +
				"this label",
		},
		{
			"[LoadBalancer]\nnode-selector = \"=a\"",
			"1: must be comma-separated labels, each as key=value or key; no node can have " +
				"this label",
		},
		{"[LoadBalancer]\nmember-target = auto\npod-ranges = 10.0.0.0/8, 2001:db8::/32", ""},
		{
			"[LoadBalancer]\nmember-target = pod",
			"1: is pod, but pod-ranges is empty and [Route] has no router-id, so Services are refused",
		},
		{"[LoadBalancer]\nmember-target = pod\n[Route]\nrouter-id = 11111111-1111-4111-8111-111111111111", ""},
		{
			"[LoadBalancer]\nmember-target = pods",
			`2: must be one of node, pod, auto; did you mean "pod"?`,
		},
		{"[LoadBalancerClass \"a\"]\nmember-target =", ""},
		{
			"[LoadBalancerClass \"a\"]\nmember-target = nodes",
			`2: must be one of node, pod, auto; did you mean "node"?`,
		},
		{"[LoadBalancer]\npod-ranges = 10.0.0.1", "2: must be comma-separated CIDRs"},
		{"[LoadBalancer]\ningress-hostname-suffix = a b", "1: must be a domain name"},
		{
			"[Metadata]\nsearch-order = metadataService, configDrive",
			"0: has no effect, and can be removed: fxccm asks Nova, and reads no metadata of its " +
				"own machine",
		},
		{"[Metadata]\nsearch-order =\nrequest-timeout = 0", ""},
		{
			"[Metadata]\nsearch-order = configdrive",
			"2: must be configDrive, metadataService or both, separated by a comma",
		},
		{
			"[Metadata]\nsearch-order = configDrive,configDrive,configDrive",
			"2: must be configDrive, metadataService or both, separated by a comma",
		},
		{"[Metadata]\nrequest-timeout = -1s", "1: must be at least 1ms"},
		{"[Client]\nrequest-rate = 0", "2: must be from 0.1 to 100000"},
		{"[Client]\nrequest-rate = NaN", "2: must be from 0.1 to 100000"},
		{"[Client]\nrequest-burst = 0", "2: must be from 1 to 100000"},
		{"[Client]\nmax-retries = -1", "2: must be from 0 to 100"},
		{"[Instances]\nstatus-max-age = 0", ""},
		{"[Instances]\nmetadata-max-age = -1s", "2: must be from 0s to 1h"},
		{"[Instances]\nabsence-confirmation = 0", "2: must be from 1s to 1h"},
		{"[Instances]\nvanished-number = 0", "2: must be from 1 to 1000000"},
		{"[Instances]\nvanished-share = 1.1", "2: must be from 0 to 1"},
		{"[Instances]\nremoval-taints =", ""},
		{"[Instances]\nremoval-taints = ToBeDeleted, example.com/leaving", ""},
		{"[Instances]\nremoval-taints = ToBeDeleted=true:NoSchedule", noTaintKeys},
		{"[Instances]\nremoval-taints = ToBeDeleted:NoSchedule", noTaintKeys},
		{"[Instances]\nremoval-taints = ToBeDeleted=", noTaintKeys},
		{"[Instances]\nremoval-taints = ToBeDeleted example.com/leaving", noTaintKeys},
		{"[Instances]\nremoval-taints = ToBeDeleted,,example.com/leaving", noTaintKeys},
		{"[Instances]\nremoval-taints = example.com/a/b", noTaintKeys},
	} {
		header, assignment, _ := strings.Cut(test.content, "\n")
		key, _, _ := strings.Cut(assignment, " ")
		// The key is not there twice, and its line stays.
		others := strings.Replace(login, "\n"+key+" =", "\n# "+key+" =", 1)
		loaded, err := Read([]byte(others+test.content+"\n"), Options{})
		var got []string
		for _, p := range append(loaded.Warnings, refused(t, err)...) {
			got = append(got, fmt.Sprintf("%d: %s", p.severity, p))
		}
		place := fmt.Sprintf("%s in %s (line 7): ", key, header)
		if got := strings.Replace(strings.Join(got, "\n"), place, "", 1); got != test.want {
			t.Errorf("%s\nhas the problems\n%s\nwant\n%s", test.content, got, test.want)
		}
	}
}

func TestValidate_ConfigOfAHost(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Global = Global{AuthURL: "https://keystone", UserID: "u", Password: "p", TenantID: "t"}
	c.LoadBalancer.MonitorDelay = -1
	c.LoadBalancerClasses = map[string]LoadBalancerClass{
		"b": {SubnetID: "x"},
		"a": {NetworkID: "x"},
	}
	want := `monitor-delay in [LoadBalancer]: must be whole seconds, at least 1s
network-id in [LoadBalancerClass "a"]: must be a UUID
subnet-id in [LoadBalancerClass "b"]: must be a UUID
monitor-timeout in [LoadBalancer]: should be shorter than monitor-delay; both are used`
	if got := told(problemsIn(c)); got != want {
		t.Errorf("problems are\n%s\nwant\n%s", got, want)
	}
	if len(problemsIn(Config{})) == 0 {
		t.Error("a Config that was not made from Default has no problems")
	}
}

func TestClassify_RefusesMistakesInStrictModeOnly(t *testing.T) {
	t.Parallel()
	problems := []Problem{
		{severity: asWarning, Key: "a"},
		{severity: asMistake, Key: "b"},
		{severity: asError, Key: "c"},
	}
	for _, test := range []struct {
		strict         bool
		warned, refuse string
	}{{false, "a\nb", "c"}, {true, "a", "b\nc"}} {
		warnings, err := classify(problems, test.strict)
		if told(warnings) != test.warned || told(refused(t, err)) != test.refuse {
			t.Errorf("strict %t: warned %q, refused %q", test.strict, told(warnings), err)
		}
	}
	if _, err := classify(problems[:1], true); err != nil {
		t.Errorf("a warning is refused: %v", err)
	}
}
