package cloudconf

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Each case was measured with OCCM, or read in the code of gcfg.
func TestParse_ReadsTheSyntaxOfGcfg(t *testing.T) {
	t.Parallel()
	const refused = "refused"
	for name, test := range map[string]struct {
		content string
		// want are the values of the option with the key.
		key, want string
	}{
		"names in any case":            {"[gLOBAL]\nPASSword = a", "password", "a"},
		"blanks do not count":          {"  [ Global ]\t\n\t password\t=  a b\t ", "password", "a b"},
		"ends of line of Windows":      {"[Global]\r\npassword = a\r\n", "password", "a"},
		"carriage returns never count": {"[Global]\npassword = a\rb\r\"\r\"", "password", "ab"},
		"last wins":                    {"[Global]\npassword = a\npassword = b", "password", "b"},
		"sections can be there again": {
			"[Global]\npassword = a\n[Route]\n[Global]\nusername = x",
			"password", "a",
		},
		"comments begin unquoted": {"[Global]\npassword = a#b", "password", "a"},
		"comments begin with a semicolon, too": {
			"; x\n[Global] ; x\npassword = a;b",
			"password", "a",
		},
		"quotes keep comments and blanks": {
			"[Global]\npassword = \" a#b;c \"  # x",
			"password", " a#b;c ",
		},
		"quotes in the middle": {"[Global]\npassword = a\"b  c\"d", "password", "ab  cd"},
		"escapes in quotes": {
			"[Global]\npassword = \"\\\\ \\\" \\n \\t\"",
			"password", "\\ \" \n \t",
		},
		"other escapes":                      {"[Global]\npassword = \"\\r\"", "password", refused},
		"an unquoted backslash":              {"[Global]\npassword = a\\b", "password", refused},
		"an unquoted quote with a backslash": {"[Global]\npassword = a\\\"b", "password", "a\"b"},
		"a value in several lines":           {"[Global]\npassword = a \\\n  b \\\r\nc", "password", "a   b c"},
		"no several lines in quotes":         {"[Global]\npassword = \"a\nb\"", "password", refused},
		"an unclosed quote":                  {"[Global]\npassword = \"a", "password", refused},
		"an empty value":                     {"[Global]\npassword =", "password", ""},
		"a text needs a value":               {"[Global]\npassword", "password", refused},
		"an underscore in a key":             {"[Global]\npass_word = a", "password", refused},
		"a key before any section":           {"password = a", "password", refused},
		"no section":                         {"[]\n", "password", refused},
		"an unclosed section":                {"[Global\n", "password", refused},
		"a comment in a header":              {"[Global # ]\n", "password", refused},
		"something behind a header":          {"[Global] password = a", "password", refused},
		"an empty name of a section":         {"[LoadBalancerClass \"\"]", "password", refused},
		"no equals sign":                     {"[Global]\npassword a", "password", refused},
		"a byte order mark":                  {"\ufeff[Global]\npassword = a", "password", refused},
		"a NUL in a comment":                 {"# \x00\n", "password", refused},
		"not UTF-8 in a comment":             {"# \xff\n", "password", refused},
		"a bare key is true":                 {"[Global]\nuse-clouds", "use-clouds", "true"},
		"yes is true":                        {"[Global]\nuse-clouds = yEs", "use-clouds", "true"},
		"on is true":                         {"[Global]\nuse-clouds = on", "use-clouds", "true"},
		"1 is true":                          {"[Global]\nuse-clouds = 1", "use-clouds", "true"},
		"off is false":                       {"[Global]\nuse-clouds\nuse-clouds = off", "use-clouds", "false"},
		"0 is false":                         {"[Global]\nuse-clouds\nuse-clouds = 0", "use-clouds", "false"},
		"nothing is neither":                 {"[Global]\nuse-clouds =", "use-clouds", refused},
		"y is neither":                       {"[Global]\nuse-clouds = y", "use-clouds", refused},
		"lists append": {
			"[Networking]\npublic-network-name = a\npublic-network-name = b",
			"public-network-name", "a|b",
		},
		"lists are not split": {
			"[Networking]\npublic-network-name = a,b",
			"public-network-name", "a,b",
		},
		"a bare key empties a list": {
			"[Networking]\npublic-network-name = a\npublic-network-name",
			"public-network-name", "",
		},
		"inline PEM, which OCCM has no docs for": {
			"[Global]\nCAFileContents = \"a\\nb\"",
			"cafilecontents", "a\nb",
		},
		"unknown keys": {
			"[LoadBalancer]\nsubnet-idd = x\nuse-octavia = true\n[Global]\nproject-id = x\n" +
				"password = a",
			"password", "a",
		},
		"unknown sections": {
			"[Foo]\nx = 1\n[Router]\n[BlockStorage]\nbs-version = v2\n[Global]\npassword = a",
			"password", "a",
		},
		"a name that the section does not take": {"[Global \"x\"]\npassword = a", "password", ""},
		"tls-insecure is true for true":         {"[Global]\ntls-insecure = true", "tls-insecure", "true"},
		"and not for yes":                       {"[Global]\ntls-insecure = yes", "tls-insecure", "false"},
		"nor for True":                          {"[Global]\ntls-insecure = True", "tls-insecure", "false"},
		"nor bare":                              {"[Global]\ntls-insecure", "tls-insecure", refused},
		"an endpoint type": {
			"[Global]\nos-endpoint-type = internal",
			"os-endpoint-type", "internal",
		},
		"in its long form":            {"[Global]\nos-endpoint-type = adminURL", "os-endpoint-type", "admin"},
		"or none":                     {"[Global]\nos-endpoint-type =", "os-endpoint-type", refused},
		"a duration":                  {"[LoadBalancer]\nmonitor-delay = 1m1s", "monitor-delay", "1m1s"},
		"seconds, which OCCM refuses": {"[LoadBalancer]\nmonitor-delay = 5", "monitor-delay", "5s"},
		"no duration":                 {"[LoadBalancer]\nmonitor-delay = 5x", "monitor-delay", refused},
		"a number out of range": {
			"[LoadBalancer]\nmonitor-max-retries = 99",
			"monitor-max-retries", "99",
		},
		"a hexadecimal number": {
			"[LoadBalancer]\nmonitor-max-retries = 0x0a",
			"monitor-max-retries", "10",
		},
		"no octal number": {
			"[LoadBalancer]\nmonitor-max-retries = 010",
			"monitor-max-retries", "10",
		},
		"a number without sign": {
			"[LoadBalancer]\nmonitor-max-retries = -1",
			"monitor-max-retries", refused,
		},
		"a number with sign": {"[LoadBalancer]\nmax-shared-lb = -1", "max-shared-lb", "-1"},
		"ranges of addresses": {
			"[Networking]\naddress-sort-order = 10.0.0.0/8 , 2001:db8::/32",
			"address-sort-order", "10.0.0.0/8,2001:db8::/32",
		},
		"request-rate of fxccm":   {"[Client]\nrequest-rate = 2.5", "request-rate", "2.5"},
		"max-retries of fxccm":    {"[Client]\nmax-retries = 0", "max-retries", "0"},
		"vanished-share of fxccm": {"[Instances]\nvanished-share = 0.5", "vanished-share", "0.5"},
		"regional of fxccm":       {"[Instances]\nregional", "regional", "true"},
	} {
		t.Run(name, func(t *testing.T) {
			got := refused
			if c, _, err := Parse([]byte(test.content), Options{}); err == nil {
				got = strings.Join(valuesOf(c, test.key), "|")
			}
			if got != test.want {
				t.Errorf("%s is read as %q, want %q", test.content, got, test.want)
			}
		})
	}
}

// valuesOf returns the values of an option by a key that only one section has.
func valuesOf(c Config, key string) []string {
	for _, s := range table(&c) {
		for _, o := range s.options {
			if o.key == key {
				return o.write()
			}
		}
	}
	panic("unknown key " + key)
}

// Mistakes that OCCM accepts silently are reported, and refused in strict mode.
func TestParse_Typos_AreReportedWithTheirLine(t *testing.T) {
	t.Parallel()
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
		t.Errorf("without strict mode the file was refused: %v", err)
	}
	for _, each := range slices.Concat(want, harmless) {
		if !strings.Contains(told(warnings), each) {
			t.Errorf("without strict mode this warning is missing: %s", each)
		}
	}
}

func TestParse_ReportsAllProblems(t *testing.T) {
	t.Parallel()
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
	want := `/etc/cloud.conf line 1: is before the first section; write [Global], or the section of the key, above it
password (/etc/cloud.conf line 3): has a quote that is not closed; a " of the value is written as \"
use-clouds in [Global] (/etc/cloud.conf line 4): must be true or false (yes, on, 1; no, off, 0)
/etc/cloud.conf line 5: has a "_" in a key; keys are written with "-"
/etc/cloud.conf line 6: needs "]" at the end of a section header
monitor-delay in [LoadBalancer] (/etc/cloud.conf line 9): must be a duration such as 5s or 1m30s, whole seconds, at least 1s
monitor-max-retries in [LoadBalancer] (/etc/cloud.conf line 10): must be a whole number, from 1 to 10
/etc/cloud.conf line 11: is not a section, a key or a comment
availability-zone (/etc/cloud.conf line 12): has an invalid escape; use \\ for a "\", or \" \n \t
/etc/cloud.conf line 13: needs "=" after a key
flavor-id (/etc/cloud.conf line 14): has a "\" outside of quotes; put the value in double quotes, and write it as \\`
	if got := told(refused(t, err)); got != want {
		t.Errorf("refused for\n%s\nwant\n%s", got, want)
	}
}

func TestParse_NumberThatCannotBeRead_NamesUnitAndLimits(t *testing.T) {
	t.Parallel()
	for option, want := range map[string]string{
		"[LoadBalancer]\nmonitor-max-retries = 50s": "whole number, from 1 to 10",
		"[LoadBalancer]\nmonitor-max-retries = -1":  "whole number without a sign, from 1 to 10",
		"[LoadBalancer]\nmax-shared-lb = many":      "whole number, at least 1",
		"[LoadBalancer]\nmonitor-delay = 5 s": "duration such as 5s or 1m30s, whole seconds, " +
			"at least 1s",
		"[LoadBalancer]\ndrift-period = daily":    "duration such as 5s or 1m30s, from 0s to 24h",
		"[Metadata]\nrequest-timeout = never":     "duration such as 5s or 1m30s, at least 1ms",
		"[Client]\nrequest-rate = 1/s":            "number, from 0.1 to 100000",
		"[Instances]\nvanished-share = half":      "number, from 0 to 1",
		"[Instances]\nvanished-number = 1.5":      "whole number, from 1 to 1000000",
		"[Instances]\nabsence-confirmation = 10%": "duration such as 5s or 1m30s, from 1s to 1h",
	} {
		_, _, err := Parse([]byte(option), Options{})
		if err == nil || !strings.HasSuffix(err.Error(), "(line 2): must be a "+want) {
			t.Errorf("%s is refused for %v, want that it must be a %s", option, err, want)
		}
	}
}

// The value that does not count is often the one that the operator reads.
func TestParse_KeyTwice_IsAMistakeIfTheValuesDiffer(t *testing.T) {
	t.Parallel()
	again := func(option string, first, second int) string {
		return fmt.Sprintf("%s (line %d): occurs twice, also in line %d, with another value; the "+
			"last one counts", option, second, first)
	}
	for content, want := range map[string]string{
		"[Global]\npassword = hunter2\n[Route]\n[global]\nPassword = hunter3": again(
			"password in [Global]", 2, 5),
		"[LoadBalancer]\nmonitor-delay = 5s\nmonitor-delay = 10s": again(
			"monitor-delay in [LoadBalancer]", 2, 3),
		"[Networking]\naddress-sort-order = 10.0.0.0/8\naddress-sort-order = fd00::/8": again(
			"address-sort-order in [Networking]", 2, 3),
		"[LoadBalancerClass \"a\"]\nsubnet-id = x\n[LoadBalancerClass \"b\"]\nsubnet-id = y": "",
		"[LoadBalancer]\nmonitor-delay = 60s\nmonitor-delay = 1m":                            "",
		"[Networking]\npublic-network-name = a\npublic-network-name = b\n":                   "",
	} {
		_, _, err := Parse([]byte(content), Options{Strict: true})
		got := ""
		if err != nil {
			got = err.Error()
		}
		_, warnings, lenient := Parse([]byte(content), Options{})
		if got != want || lenient != nil || told(warnings) != want {
			t.Errorf("%s\nis refused for %q, want %q; without strict mode the warnings are %q (%v)",
				content, got, want, warnings, lenient)
		}
	}
}

// gcfg drops what follows # or ;, and keeps single quotes.
func TestParse_ValueThatIsNotWhatWasWritten_IsAMistake(t *testing.T) {
	t.Parallel()
	const cutOff = "is cut at # or ;, which begin a comment; put the whole value in double quotes"
	const quotes = "keeps its quotes as a part of the value; use double quotes (\"...\") " +
		"instead of them, or around them"
	const comment = "ends at # or ;, which begin a comment; put the whole value in double " +
		"quotes if they are a part of it"
	const partly = "is partly in double quotes, which are left out; put the whole value in " +
		"double quotes, and write a \" of the value as \\\""
	const literal = "has a placeholder such as ${NAME}, which is taken literally: variables and " +
		"templates are not replaced in this file"
	for written, want := range map[string]string{
		"hunter2#def":        cutOff,
		"hunter2;def":        cutOff,
		"hunter2;":           cutOff,
		"#hunter2":           cutOff,
		";hunter2":           cutOff,
		"a\"b\"c#hunter2":    cutOff,
		"x \\\n  y#hunter2":  cutOff,
		"'hunter2":           "",
		"'hunter2'":          quotes,
		"'hunter2' # note":   quotes,
		"`hunter2`":          quotes,
		"“hunter2”":          quotes,
		"‘hunter2’":          quotes,
		"'hunter2 #def'":     cutOff,
		"'hunter2 ;def' ":    cutOff,
		"a\"hunter2\"c":      partly,
		"\"hunter2\"c":       partly,
		"\"\"hunter2\"\"":    partly,
		"a \"hunter2\" # no": partly,

		"hunter2":           "",
		"hunter2 # note":    comment,
		"hunter2 ;def":      comment,
		"hunter2\t; note":   comment,
		"# note":            comment,
		"; note":            comment,
		"#":                 comment,
		"hunter2 \\\n # no": comment,
		"\"hunter2#def\"":   "",
		"\"hunter2\"#note":  "",
		"\"'hunter2'\"":     "",
		"it's":              "",
		"a\\\"hunter2":      "",
		"\"a\\\"hunter2\"":  "",
		"\"hunter2\" ":      "",
		"'":                 "",
		"${hunter2}":        literal,
		"\"a${hunter2}b\"":  literal,
		"$(hunter2)":        literal,
		"$HUNTER2":          literal,
		"{{ .hunter2 }}":    literal,
		"$6$hunter2":        "",
		"hun$ter2":          "",
	} {
		content := []byte("[Global]\npassword = " + written + "\nusername = u\n")
		_, strict, err := Parse(content, Options{Strict: true})
		_, warnings, lenient := Parse(content, Options{})
		got := told(strict)
		isWarning := want == comment || want == literal
		if err != nil {
			got += err.Error()
		}
		if isWarning != (len(strict) > 0) {
			t.Errorf("of %q the strict warnings are %q", written, strict)
		}
		if lenient != nil || len(warnings) != min(len(want), 1) ||
			len(warnings) == 1 && warnings[0].String() != got {
			t.Errorf("of %q the warnings are %q and the error is %v", written, warnings, lenient)
		}
		if want != "" {
			want = "password in [Global] (line 2): " + want
		}
		if got != want || strings.Contains(got, "hunter2") {
			t.Errorf("the problem of %q is %q, want %q", written, got, want)
		}
	}
}

// A comment in a value that is not secret is common.
func TestParse_CommentAfterAnOption_HasNoWarning(t *testing.T) {
	t.Parallel()
	_, warnings, err := Parse([]byte("[Global]\nregion = a # note\nca-file = # none\n"),
		Options{Strict: true})
	if err != nil || len(warnings) > 0 {
		t.Errorf("the warnings are %q (%v)", warnings, err)
	}
}

// The cause is named, and not only its consequence.
func TestRead_SecretThatBeginsWithAComment_IsRefusedWithItsKey(t *testing.T) {
	t.Parallel()
	const base = "[Global]\nauth-url = https://k\nuser-id = u\ntenant-id = t\n"
	for written, want := range map[string]string{
		"password = #hunter2":  "password in [Global] (line 5): is cut at # or ;",
		"password = # hunter2": "password in [Global] (line 5): ends at # or ;",
		"application-credential-id = x\napplication-credential-secret = ;hunter2": "application-" +
			"credential-secret in [Global] (line 6): is cut at # or ;",
	} {
		for _, strict := range []bool{false, true} {
			_, err := Read([]byte(base+written+"\n"), Options{Strict: strict})
			got := refused(t, err)
			if len(got) != 1 || !strings.HasPrefix(told(got), want) ||
				strings.Contains(told(got), "hunter2") {
				t.Errorf("%q is refused for %q, want %q", written, told(got), want)
			}
		}
	}
}

func TestParse_NoSectionAboveTheKeys_IsOneProblem(t *testing.T) {
	t.Parallel()
	_, err := Read([]byte("\nauth-url = https://k\npassword = hunter2\nx\n[Route]\n"),
		Options{Strict: true})
	const want = "auth-url (line 2): is before the first section; write [Global], or the " +
		"section of the key, above it"
	if got := told(refused(t, err)); got != want {
		t.Errorf("refused for\n%s\nwant\n%s", got, want)
	}
}

func TestParse_LinesAreCountedThroughContinuations(t *testing.T) {
	t.Parallel()
	_, _, err := Parse([]byte("[Global]\nusername = a \\\n b \\\n c\nregion\n"), Options{})
	if got := refused(t, err); len(got) != 1 || got[0].Line != 5 {
		t.Errorf("refused for %v, want line 5", got)
	}
}

// A value can be a secret whatever its key, because it may be in the wrong line.
func TestProblems_NeverRepeatValues(t *testing.T) {
	t.Parallel()
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
					t.Errorf("the problem of %s = %s contains the value:\n%s", o.key, written, text)
				}
			}
		}
	}
}

func TestProblems_Many_AreTruncated(t *testing.T) {
	t.Parallel()
	_, _, err := Parse([]byte(strings.Repeat("!\n", 1000)), Options{})
	if got := err.Error(); len(refused(t, err)) != 1000 || strings.Count(got, "\n") != maxShown ||
		!strings.HasSuffix(got, "and 980 more") {
		t.Errorf("the error is %q", got)
	}
}
