package cloudconf

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// Each case was measured at OCCM, or read in gcfg.
func TestParse_ReadsTheSyntaxOfGcfg(t *testing.T) {
	password := func(c Config) any { return string(c.Global.Password) }
	networks := func(c Config) any { return c.Networking.PublicNetworkNames }
	useClouds := func(c Config) any { return c.Global.UseClouds }
	for name, test := range map[string]struct {
		content string
		get     func(Config) any
		want    any // nil: refused
	}{
		"names in any case": {"[gLOBAL]\nPASSword = a", password, "a"},
		"blanks do not count": {
			"  [ Global ]\t\n\t password\t=  a b\t ",
			password, "a b",
		},
		"ends of line of Windows": {"[Global]\r\npassword = a\r\n", password, "a"},
		"carriage returns never count": {
			"[Global]\npassword = a\rb\r\"\r\"", password,
			"ab",
		},
		"last wins": {
			"[Global]\npassword = a\npassword = b", password,
			"b",
		},
		"sections can be there again": {"[Global]\npassword = " +
			"a\n[Route]\n[Global]\nusername = x", password, "a"},
		"comments begin unquoted": {"[Global]\npassword = a#b", password, "a"},
		"comments begin with a semicolon, too": {
			"; x\n[Global] ; x\npassword = a;b", password,
			"a",
		},
		"quotes keep comments and blanks": {
			"[Global]\npassword = \" a#b;c \"  # x",
			password, " a#b;c ",
		},
		"quotes in the middle": {
			"[Global]\npassword = a\"b  c\"d",
			password, "ab  cd",
		},
		"escapes in quotes": {
			`[Global]` + "\n" + `password = "\\ \" \n \t"`,
			password, "\\ \" \n \t",
		},
		"other escapes": {`[Global]` + "\n" +
			`password = "\r"`, password, nil},
		"an unquoted backslash":              {"[Global]\npassword = a\\b", password, nil},
		"an unquoted quote with a backslash": {"[Global]\npassword = a\\\"b", password, "a\"b"},
		"a value in several lines": {
			"[Global]\npassword = a \\\n  b \\\r\nc",
			password, "a   b c",
		},
		"no several lines in quotes": {"[Global]\npassword = \"a\nb\"", password, nil},
		"an unclosed quote":          {"[Global]\npassword = \"a", password, nil},
		"an empty value":             {"[Global]\npassword =", password, ""},
		"a text needs a value":       {"[Global]\npassword", password, nil},
		"an underscore in a key":     {"[Global]\npass_word = a", password, nil},
		"a key before any section":   {"password = a", password, nil},
		"no section":                 {"[]\n", password, nil},
		"an unclosed section":        {"[Global\n", password, nil},
		"a comment in a header":      {"[Global # ]\n", password, nil},
		"something behind a header":  {"[Global] password = a", password, nil},
		"an empty name of a section": {"[LoadBalancerClass \"\"]", password, nil},
		"no equals sign":             {"[Global]\npassword a", password, nil},
		"a byte order mark":          {"\ufeff[Global]\npassword = a", password, nil},
		"a NUL in a comment":         {"# \x00\n", password, nil},
		"not UTF-8 in a comment":     {"# \xff\n", password, nil},
		"a bare key is true":         {"[Global]\nuse-clouds", useClouds, true},
		"yes is true":                {"[Global]\nuse-clouds = yEs", useClouds, true},
		"on is true":                 {"[Global]\nuse-clouds = on", useClouds, true},
		"1 is true":                  {"[Global]\nuse-clouds = 1", useClouds, true},
		"off is false": {
			"[Global]\nuse-clouds\nuse-clouds = off",
			useClouds, false,
		},
		"0 is false": {
			"[Global]\nuse-clouds\nuse-clouds = 0",
			useClouds, false,
		},
		"nothing is neither": {"[Global]\nuse-clouds =", useClouds, nil},
		"y is neither":       {"[Global]\nuse-clouds = y", useClouds, nil},
		"lists append": {"[Networking]\npublic-network-name = " +
			"a\npublic-network-name = b", networks, []string{"a", "b"}},
		"lists are not split": {
			"[Networking]\npublic-network-name = a,b",
			networks,
			[]string{"a,b"},
		},
		"a bare key empties a list": {"[Networking]\npublic-network-name = " +
			"a\npublic-network-name", networks, []string(nil)},
		"inline PEM, which OCCM has no docs for": {
			"[Global]\nCAFileContents = \"a\\nb\"",
			func(c Config) any { return c.Global.CAFileContents }, "a\nb",
		},
		"unknown keys": {"[LoadBalancer]\nsubnet-idd = x\nuse-octavia " +
			"= true\n[Global]\nproject-id = x\npassword = a", password, "a"},
		"unknown sections": {"[Foo]\nx = " +
			"1\n[Router]\n[BlockStorage]\nbs-version = v2\n[Global]\npassword = a", password, "a"},
		"a name that the section does not take": {"[Global \"x\"]\npassword = a", password, ""},
		"tls-insecure is true for true": {
			"[Global]\ntls-insecure = true",
			func(c Config) any { return c.Global.TLSInsecure }, true,
		},
		"and not for yes": {
			"[Global]\ntls-insecure = yes",
			func(c Config) any { return c.Global.TLSInsecure }, false,
		},
		"nor for True": {
			"[Global]\ntls-insecure = True",
			func(c Config) any { return c.Global.TLSInsecure }, false,
		},
		"nor bare": {"[Global]\ntls-insecure", func(c Config) any {
			return c.Global.TLSInsecure
		}, nil},
		"an endpoint type": {
			"[Global]\nos-endpoint-type = internal",
			func(c Config) any { return c.Global.EndpointType }, "internal",
		},
		"in its long form": {
			"[Global]\nos-endpoint-type = adminURL",
			func(c Config) any { return c.Global.EndpointType }, "admin",
		},
		"or none": {
			"[Global]\nos-endpoint-type =",
			func(c Config) any { return c.Global.EndpointType }, nil,
		},
		"a duration": {
			"[LoadBalancer]\nmonitor-delay = 1m1s",
			func(c Config) any { return c.LoadBalancer.MonitorDelay }, 61 * time.Second,
		},
		"seconds, which OCCM refuses": {
			"[LoadBalancer]\nmonitor-delay = 5",
			func(c Config) any { return c.LoadBalancer.MonitorDelay }, 5 * time.Second,
		},
		"no duration": {
			"[LoadBalancer]\nmonitor-delay = 5x",
			func(c Config) any { return c.LoadBalancer.MonitorDelay }, nil,
		},
		"a number out of range": {
			"[LoadBalancer]\nmonitor-max-retries = 99",
			func(c Config) any { return c.LoadBalancer.MonitorMaxRetries }, 99,
		},
		"a hexadecimal number": {
			"[LoadBalancer]\nmonitor-max-retries = 0x0a",
			func(c Config) any { return c.LoadBalancer.MonitorMaxRetries }, 10,
		},
		"no octal number": {
			"[LoadBalancer]\nmonitor-max-retries = 010",
			func(c Config) any { return c.LoadBalancer.MonitorMaxRetries }, 10,
		},
		"a number without sign": {
			"[LoadBalancer]\nmonitor-max-retries = -1",
			func(c Config) any { return c.LoadBalancer.MonitorMaxRetries }, nil,
		},
		"a number with sign": {
			"[LoadBalancer]\nmax-shared-lb = -1",
			func(c Config) any { return c.LoadBalancer.MaxSharedLB }, -1,
		},
		"ranges of addresses": {"[Networking]\naddress-sort-order = " +
			"10.0.0.0/8 , 2001:db8::/32", func(c Config) any {
			return c.Networking.AddressSortOrder
		}, []string{"10.0.0.0/8", "2001:db8::/32"}},
		"a class": {
			"[LoadBalancerClass \"a \\\"b\"]\nsubnet-id = x\n[LoadBalancerClass \"c\"]\n",
			func(c Config) any { return c.LoadBalancerClasses },
			map[string]LoadBalancerClass{`a "b`: {SubnetID: "x"}, "c": {}},
		},
		"options of fxccm": {
			"[Client]\nrequest-rate = 2.5\nrequest-burst = 7\nmax-retries = 0\n[Instances]\nregional\nvanished-share = 0.5",
			func(c Config) any {
				return []any{c.Client, c.Instances.Regional, c.Instances.VanishedShare}
			},
			[]any{Client{2.5, 7, 0}, true, 0.5},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, err := Parse([]byte(test.content), Options{})
			switch {
			case test.want == nil && err == nil:
				t.Errorf("it was read as %v, want it refused", test.get(c))
			case test.want != nil && err != nil:
				t.Errorf("it was refused: %v", err)
			case test.want != nil && !reflect.DeepEqual(test.get(c), test.want):
				t.Errorf("it was read as %#v, want %#v", test.get(c), test.want)
			}
		})
	}
}

// This is how OCCM's own test reads a file.
func TestParse_ReadsAWholeFile(t *testing.T) {
	c, warnings, err := Parse([]byte(`
# A comment.
[Global]
auth-url = http://auth.example
user-id = user
password = mypass
user-domain-name = Default
user-domain-id = d1
tenant-name = demo
region = RegionOne
trust-id = t1
[LoadBalancer]
create-monitor = yes
monitor-delay = 1m
monitor-timeout = 30s
monitor-max-retries = 3
[Metadata]
search-order = configDrive, metadataService
`), Options{Strict: true})
	if err != nil || len(warnings) > 0 {
		t.Fatalf("error %v, warnings %s", err, told(warnings))
	}
	want := Default()
	want.Global = Global{
		AuthURL: "http://auth.example", UserID: "user", Password: "mypass",
		UserDomainName: "Default", UserDomainID: "d1",
		TenantName: "demo", Region: "RegionOne", TrustID: "t1",
	}
	want.LoadBalancer.CreateMonitor = true
	want.LoadBalancer.MonitorDelay = time.Minute
	want.LoadBalancer.MonitorTimeout = 30 * time.Second
	want.LoadBalancer.MonitorMaxRetries = 3
	want.Metadata.SearchOrder = "configDrive, metadataService"
	if !reflect.DeepEqual(c, want) {
		t.Errorf("read was %+v, want %+v", c, want)
	}
}

// What OCCM takes in silence is told, and refused if the user asks for it.
func TestParse_Typos_AreReportedWithTheirLine(t *testing.T) {
	content := `[Global]
project-id = p
os-authURL = x
router-id = r
xyzzy = 1
[LoadBalancer]
subnet-idd = x
use-octavia
[BlockStorage]
bs-version = v2
[Router]
router-id = x
[Foobarbaz]
[LoadBalancerClass]
[Route "x"]
router-id = x
[Global]
tls-insecure = yes
`
	want := []string{
		`unknown key "project-id" in [Global] (line 2): it is called "tenant-id" here`,
		`unknown key "os-authURL" in [Global] (line 3): it is called "auth-url" here`,
		`unknown key "router-id" in [Global] (line 4): it belongs to [Route]`,
		`unknown key "xyzzy" in [Global] (line 5)`,
		`unknown key "subnet-idd" in [LoadBalancer] (line 7): did you mean "subnet-id"?`,
		`unknown section [Router] (line 11): did you mean [Route]?`,
		`unknown section [Foobarbaz] (line 13)`,
		`[LoadBalancerClass] (line 14): needs a name: [LoadBalancerClass "name"]`,
		`[Route "x"] (line 15): is ignored: its region needs a section [Global "x"]`,
		`tls-insecure in [Global] (line 18): is treated as false; only "true" enables it`,
	}
	harmless := []string{
		`use-octavia in [LoadBalancer] (line 8): has no effect: load balancers are always created in Octavia`,
		`[BlockStorage] (line 9): has no effect: OCCM dropped it in 2022, and only the Cinder CSI driver reads it`,
	}

	_, warnings, err := Parse([]byte(content), Options{Strict: true})
	if got := told(refused(t, err)); got != strings.Join(want, "\n") {
		t.Errorf("refused for\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
	if got := told(warnings); got != strings.Join(harmless, "\n") {
		t.Errorf("warnings are\n%s\nwant\n%s", got, strings.Join(harmless, "\n"))
	}

	_, warnings, err = Parse([]byte(content), Options{})
	if err != nil {
		t.Errorf("without strict mode it was refused: %v", err)
	}
	for _, each := range slices.Concat(want, harmless) {
		if !strings.Contains(told(warnings), each) {
			t.Errorf("without strict mode it was not told that %s", each)
		}
	}
}

func TestParse_ReportsAllProblems(t *testing.T) {
	_, _, err := Parse([]byte(`early = 1
[Global]
password = "open
use-clouds = perhaps
pass_word = a
[LoadBalancer
subnet-id
[LoadBalancer]
monitor-delay = soon
monitor-max-retries = many
%
availability-zone = "a \
b"
flavor-id = \x
`), Options{Path: "/etc/cloud.conf"})
	want := `/etc/cloud.conf line 1: is before the first section
/etc/cloud.conf line 3: has a quote that is not closed
use-clouds in [Global] (/etc/cloud.conf line 4): must be true or false (yes, on, 1; no, off, 0)
/etc/cloud.conf line 5: has a "_" in a key; keys are written with "-"
/etc/cloud.conf line 6: needs "]" at the end of a section header
monitor-delay in [LoadBalancer] (/etc/cloud.conf line 9): must be a duration such as 5s or 1m30s
monitor-max-retries in [LoadBalancer] (/etc/cloud.conf line 10): must be a whole number
/etc/cloud.conf line 11: is not a section, a key or a comment
/etc/cloud.conf line 12: has an invalid escape; use \\ \" \n or \t
/etc/cloud.conf line 13: needs "=" after a key
/etc/cloud.conf line 14: has a "\" outside of quotes`
	if got := told(refused(t, err)); got != want {
		t.Errorf("refused for\n%s\nwant\n%s", got, want)
	}
}

func TestParse_LinesAreCountedThroughContinuations(t *testing.T) {
	_, _, err := Parse([]byte("[Global]\nusername = a \\\n b \\\n c\nregion\n"), Options{})
	if got := refused(t, err); len(got) != 1 || got[0].Line != 5 {
		t.Errorf("refused for %v, want line 5", got)
	}
}

// A value can be a secret whatever its key: it may stand in the wrong line.
func TestProblems_NeverRepeatValues(t *testing.T) {
	const value = "s3cr3t-Value"
	for _, section := range table(&Config{}) {
		for _, o := range section.options {
			for _, written := range []string{
				value, `"` + value, `"` + value + `\x"`, value + `\`,
				"https://u:" + value + "@%zz", "~(" + value, "* " + value,
			} {
				content := header(section.name, map[bool]string{true: "x"}[section.named]) + "\n" +
					o.key + " = " + written + "\n"
				loaded, err := Read([]byte(content+login), Options{Strict: true})
				if text := told(append(loaded.Warnings, refused(t, err)...)); strings.Contains(text,
					value) {
					t.Errorf("%s = %s was told with its value:\n%s", o.key, written, text)
				}
			}
		}
	}
}

func TestProblems_Many_AreTruncated(t *testing.T) {
	_, _, err := Parse([]byte(strings.Repeat("!\n", 1000)), Options{})
	if got := err.Error(); len(refused(t, err)) != 1000 || strings.Count(got, "\n") != maxShown ||
		!strings.HasSuffix(got, "and 950 more") {
		t.Errorf("the error is %q", got)
	}
}
