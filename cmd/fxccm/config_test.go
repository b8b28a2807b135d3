package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/internal/configfile"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// cloudsYAML has the clouds "right" and "wrong", of which only one can log in.
func cloudsYAML(t *testing.T, cloud *openstacktest.Cloud) string {
	t.Helper()
	var text strings.Builder
	text.WriteString("clouds:\n")
	login := cloud.Credentials()
	for name, password := range map[string]string{"right": login.Password, "wrong": "s3cret"} {
		fmt.Fprintf(&text, "  %s:\n    auth: {auth_url: %q, user_id: %q, password: %q, "+
			"project_id: %q}\n", name, cloud.AuthURL(), login.UserID, password, login.ProjectID)
	}
	return writeFile(t, "clouds.yaml", text.String())
}

func TestConfigCheck_EachFile_IsJudged(t *testing.T) {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	conf := cloud.CloudConf("password")
	valid := writeFile(t, "cloud.conf", conf)
	misspelt := writeFile(t, "cloud.conf", conf+"[LoadBalancer]\nsubnet-idd=a\n")
	clouds := cloudsYAML(t, cloud)
	for name, test := range map[string]struct {
		code  int
		args  []string
		wants []string
	}{
		"valid": {exitClean, []string{valid}, []string{"cloud.conf: valid\n"}},
		"login": {
			exitClean,
			[]string{valid, "--login"},
			[]string{
				"Keystone answers\n", "Nova answers in region ", "Neutron answers in region ",
				"Octavia answers in region ",
			},
		},
		"all clouds": {
			exitClean,
			[]string{clouds},
			[]string{"cloud right: valid\n", "cloud wrong: valid\n"},
		},
		"a cloud": {
			exitClean,
			[]string{clouds, "--cloud=right", "--login"},
			[]string{"Octavia answers\n"},
		},
		"a wrong password": {
			exitFailed,
			[]string{clouds, "--login"},
			[]string{"cloud right: valid\n", "error: Keystone: ", "cloud wrong: valid, but"},
		},
		"misspelt": {
			exitFailed,
			[]string{misspelt},
			[]string{"error: ", `did you mean "subnet-id"?`, "cloud.conf: refused\n"},
		},
		"misspelt, not strict": {
			exitClean,
			[]string{
				"--cloud-config-strict=false",
				misspelt,
			},
			[]string{"warning: ", `did you mean "subnet-id"?`, "cloud.conf: valid\n"},
		},
		"a manifest": {
			exitFailed,
			[]string{writeFile(t, "secret.yaml", "apiVersion: v1\nkind: Secret\n")},
			[]string{"a Kubernetes manifest"},
		},
		"broken YAML": {
			exitFailed,
			[]string{writeFile(t, "clouds.yaml", "clouds:\n  a: {\n  b: s3cret\n  c\n")},
			[]string{
				"clouds.yaml line ", ": is not YAML: did not find expected",
				"clouds.yaml: refused\n",
			},
		},
		"broken YAML, a cloud": {
			exitFailed,
			[]string{
				"--cloud=a",
				writeFile(t, "clouds.yaml", "# s3cret\n---\nclouds:\n\ta: b\n"),
			},
			[]string{"clouds.yaml line ", ": is not YAML: found character", "cloud a: refused\n"},
		},
		"a cloud without a URL": {
			exitFailed,
			[]string{writeFile(t, "clouds.yaml", "clouds: {a: {auth: {token: s3cret}}}\n")},
			[]string{"error: auth_url in clouds.a.auth (", "cloud a: refused\n"},
		},
		"no clouds": {
			exitFailed,
			[]string{writeFile(t, "clouds.yaml", "clouds: {}\n")},
			[]string{"has no clouds"},
		},
	} {
		code, stdout, stderr := runSubcommand(append([]string{"config", "check"}, test.args...)...)
		if code != test.code || stderr != "" || strings.Contains(stdout, "s3cret") {
			t.Errorf("%s: exit code %d, want %d: %s%s", name, code, test.code, stdout, stderr)
		}
		for _, want := range test.wants {
			if !strings.Contains(stdout, want) {
				t.Errorf("%s: it lacks %q:\n%s", name, want, stdout)
			}
		}
	}

	code, stdout, _ := runSubcommand("config", "check", clouds, "--login", "-ojson")
	var result checkedFile
	if err := json.Unmarshal([]byte(stdout), &result); err != nil || code != exitFailed ||
		result.Kind != "clouds.yaml" || len(result.Clouds) != 2 ||
		result.Clouds[0].hasFailed() || !result.Clouds[1].hasFailed() {
		t.Errorf("as JSON: exit code %d, %v, %s", code, err, stdout)
	}
	for path, want := range map[string]bool{valid: true, clouds: true, misspelt: false} {
		_, stdout, _ := runSubcommand("config", "check", path, "-oyaml")
		if strings.Count(stdout, "valid: ") < 2 ||
			strings.Contains(stdout, fmt.Sprintf("valid: %t\n", !want)) {
			t.Errorf("%s as YAML lacks valid: %t:\n%s", path, want, stdout)
		}
	}
	for _, call := range cloud.Calls() {
		if call.Method != "GET" && !strings.HasSuffix(call.Path, "/auth/tokens") {
			t.Errorf("the check sends %s %s", call.Method, call.Path)
		}
	}
}

func TestConfigCheck_FileWithoutEndOrTooLarge_IsRefused(t *testing.T) {
	large := writeFile(t, "cloud.conf", strings.Repeat("#\n", configfile.MaxBytes/2+1))
	for path, want := range map[string]string{
		large: "larger than 1 MiB", "/dev/zero": "neither a regular file nor a pipe",
	} {
		code, stdout, stderr := runSubcommand("config", "check", path)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d, %q, %q, want %q", path, code, stdout, stderr, want)
		}
	}
}

func TestConfigCheck_CloudsYAMLFromAPipe_IsChecked(t *testing.T) {
	reader, writer, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	const content = "clouds: {a: {auth: {auth_url: 'https://keystone.example', token: s3cret}}}\n"
	if _, err := writer.WriteString(content); err != nil { // fits into its buffer
		t.Fatal(err)
	}
	if err := writer.Close(); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := runSubcommand("config", "check",
		fmt.Sprintf("/dev/fd/%d", reader.Fd()))
	if code != exitClean || !strings.Contains(stdout, "cloud a: valid\n") {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
}

func TestConfigCheck_ManyUnknownKeys_AreCounted(t *testing.T) {
	path := writeFile(t, "cloud.conf", "[Global]\nauth-url=https://keystone.example/v3\n"+
		"token=s3cret\n"+strings.Repeat("nonsense=1\n", 50_000))
	code, stdout, _ := runSubcommand("config", "check", path)
	if lines := strings.Count(stdout, "\n"); code != exitFailed || lines > 30 ||
		!strings.Contains(stdout, "error: and 49980 more\n") {
		t.Errorf("exit code %d, %d lines, want at most 30: %.2000s", code, lines, stdout)
	}
}

func TestConfigCheck_AServiceFails_IsNamedWithItsCause(t *testing.T) {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	cloud.Inject(openstacktest.Fault{Service: openstacktest.ServiceLoadBalancer, Status: 503})
	code, stdout, _ := runSubcommand("config", "check", "--login",
		writeFile(t, "cloud.conf", cloud.CloudConf("password")))
	if code != exitFailed || !strings.Contains(stdout, "Neutron answers in region RegionOne\n") ||
		!strings.Contains(stdout, "error in region RegionOne: Octavia: 503 Service Unavailable") {
		t.Errorf("exit code %d: %s", code, stdout)
	}
}

func TestConfigCheck_CloudThatTheFileLacks_Fails(t *testing.T) {
	cloud := openstacktest.NewCloud()
	defer cloud.Close()
	for want, args := range map[string][]string{
		"has only right, wrong":        {"--cloud=rigth", cloudsYAML(t, cloud)},
		"--cloud is for a clouds.yaml": {"--cloud=a", writeFile(t, "cloud.conf", "[Global]\n")},
	} {
		code, stdout, stderr := runSubcommand(append([]string{"config", "check"}, args...)...)
		if code != exitFailed || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q, %q, want %q", args, code, stdout, stderr, want)
		}
	}
}

func TestConfigCheck_BadCommandLine_IsAUsageError(t *testing.T) {
	for want, args := range map[string][]string{
		`unknown command "chekc"; did you mean check?`: {"config", "chekc"},
		"want one file":     {"config", "check"},
		"want json or yaml": {"config", "check", "-oxml", "a"},
	} {
		code, stdout, stderr := runSubcommand(args...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %q, %q, want %q", args, code, stdout, stderr, want)
		}
	}
}
