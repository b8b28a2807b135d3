package cloudconf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestLoad_NamesTheFilesThatItDependsOn(t *testing.T) {
	t.Parallel()
	dir, o := inDir(t, map[string]string{
		"cloud.conf":  "[Global]\nuse-clouds\nca-file = /ca.pem\n",
		"clouds.yaml": aCloud + "    cert: /cert.pem\n    key: /key.pem\n",
		"secure.yaml": "clouds:",
	})
	loaded, err := Load(filepath.Join(dir, "cloud.conf"), o)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		filepath.Join(dir, "cloud.conf"), filepath.Join(dir, "clouds.yaml"),
		filepath.Join(dir, "secure.yaml"), "/ca.pem", "/cert.pem", "/key.pem",
	}
	if !slices.Equal(loaded.Files, want) {
		t.Errorf("files are %q, want %q", loaded.Files, want)
	}
}

func TestLoad_FailsWithoutAFile(t *testing.T) {
	t.Parallel()
	_, err := Load(filepath.Join(t.TempDir(), "none"), Options{})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v, want one about the missing file", err)
	}
}

func TestLoad_ErrorsNameFileAndLine(t *testing.T) {
	t.Parallel()
	dir, o := inDir(t, map[string]string{"cloud.conf": login + "[Foo]\n[Route]\nrouter-id = x\n"})
	path := filepath.Join(dir, "cloud.conf")
	loaded, err := Load(path, o)
	want := "unknown section [Foo] (PATH line 6)\nrouter-id in [Route] (PATH line 8): must be a " +
		"UUID"
	if got := strings.ReplaceAll(told(refused(t, err)), path, "PATH"); got != want {
		t.Errorf("refused for\n%s\nwant\n%s", got, want)
	}
	if loaded.Config.Global.AuthURL != "" || loaded.Files != nil {
		t.Error("a refused configuration was returned")
	}
	o.Strict = false
	loaded, err = Load(path, o)
	if got := strings.ReplaceAll(told(loaded.Warnings), path, "PATH"); err != nil || got != want {
		t.Errorf("without strict mode, error %v and warnings\n%s\nwant\n%s", err, got, want)
	}
	if loaded.Config.Route.RouterID != "x" {
		t.Error("without strict mode, a value was changed")
	}
}

// An unreadable value is not also reported as missing.
func TestRead_UnreadableValue_IsReportedOnce(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]string{
		"[Global]\nauth-url\nuser-id = u\npassword = p\ntenant-id = " +
			"t\n": "auth-url in [Global] (line 2): needs a value",
		"[Global]\nauth-url = https://k\nuser-id = u\npassword = \"p\ntenant-id = " +
			"t\n": `password (line 4): has a quote that is not closed; a " of the value is written as \"`,
		"[Global\nauth-url = https://k\nuser-id = u\npassword = p\ntenant-id = " +
			"t\n": `line 1: needs "]" at the end of a section header`,
		login + "[Metadata]\nrequest-timeout = soon\n[LoadBalancer]\nmax-shared-lb = " +
			"x": "request-timeout in [Metadata] (line 7): must be a duration such as 5s or " +
			"1m30s, at least 1ms\nmax-shared-lb in [LoadBalancer] (line 9): must be a whole " +
			"number, at least 1",
	} {
		_, err := Read([]byte(content), Options{Strict: true})
		if got := told(refused(t, err)); got != want {
			t.Errorf("%q was refused for\n%s\nwant\n%s", content, got, want)
		}
	}
}

func TestRead_EmptyValuesStandForOCCMsDefaults(t *testing.T) {
	t.Parallel()
	loaded, err := Read([]byte(login+"[Metadata]\nsearch-order =\nrequest-timeout = 0s\n"),
		Options{Strict: true})
	if err != nil || loaded.Config.Metadata != Default().Metadata {
		t.Errorf("read was %+v (%v), want the defaults", loaded.Config.Metadata, err)
	}
}

func TestRead_TakesTheEnvironmentThatItIsGiven(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		conf, regional, steps string
		want                  bool
		told                  string
	}{
		{regional: "true", want: true},
		{regional: "True"},
		{regional: "false"},
		{conf: "[Instances]\nregional = false\n", regional: "true"},
		{conf: "[Instances]\nregional\n", regional: "false", want: true},
		{steps: "7", told: "OCCM_WAIT_LB_ACTIVE_STEPS in the environment: has no effect: the " +
			"provider waits for load balancers without a limit"},
	} {
		o := Options{Environment: func(name string) string {
			return map[string]string{
				"OS_CCM_REGIONAL":           test.regional,
				"OCCM_WAIT_LB_ACTIVE_STEPS": test.steps,
			}[name]
		}}
		loaded, err := Read([]byte(login+test.conf), o)
		if err != nil || loaded.Config.Instances.Regional != test.want ||
			told(loaded.Warnings) != test.told {
			t.Errorf("%+v: regional %t, warnings %q, error %v", test,
				loaded.Config.Instances.Regional, told(loaded.Warnings), err)
		}
	}
}

// The environment of the process is not read, whatever its content.
func TestRead_LeavesTheProcessEnvironmentAlone(t *testing.T) {
	dir, o := inDir(t, map[string]string{
		"clouds.yaml": aCloud,
		"theirs.yaml": "clouds: {theirs: {auth: {auth_url: https://theirs}}}",
	})
	for name, value := range map[string]string{
		"OS_CLIENT_CONFIG_FILE": filepath.Join(dir, "theirs.yaml"), "OS_CLOUD": "theirs",
		"OS_AUTH_URL": "https://theirs", "OS_PASSWORD": "theirs",
		"OS_CCM_REGIONAL": "true", "OCCM_WAIT_LB_ACTIVE_STEPS": "7",
	} {
		t.Setenv(name, value)
	}
	before := os.Environ()
	loaded, err := Read([]byte("[Global]\nuse-clouds\nclouds-file = "+filepath.Join(dir,
		"clouds.yaml")), o)
	if err != nil {
		t.Fatal(err)
	}
	if c := loaded.Config; c.Instances.Regional || c.Global.Password != "hunter2" {
		t.Errorf("the environment was read: %+v", c)
	}
	if !slices.Equal(before, os.Environ()) {
		t.Error("the environment was changed")
	}
}

func TestLoad_FileWithoutEndOrTooLarge_IsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	large, conf := filepath.Join(dir, "large"), filepath.Join(dir, "cloud.conf")
	for path, content := range map[string]string{
		large: "[Global]\n" + strings.Repeat("#\n", 1<<19),
		conf:  "[Global]\nuse-clouds\nclouds-file = " + large + "\n",
	} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		os.DevNull: "neither a regular file nor a pipe",
		large:      "larger than 1 MiB",
		conf:       large + ": cannot be read: larger than 1 MiB",
	} {
		if _, err := Load(path, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", path, err, want)
		}
	}
}
