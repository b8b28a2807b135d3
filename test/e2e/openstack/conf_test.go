package openstack_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/provider/openstack"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/suite"
)

// writeConf writes a cloud.conf, and returns its path.
func writeConf(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cloud.conf")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// fromFile takes the configuration from a cloud.conf.
func fromFile(path string) func(*launch) {
	return func(l *launch) { l.Config.CloudProvider.ConfigFile = path }
}

// quick is what the section Instances is for a test with a hasty clock.
const quick = "\n[Instances]\nstatus-max-age = 1s\nmetadata-max-age = 1s\nabsence-confirmation = 3s\n"

// misspelt is a cloud.conf with a mistake in its last line but one, and a secret beside the last.
func misspelt(s *site) (content string, line int) {
	content = s.CloudConf(openstacktest.PasswordAuth) +
		"\n[LoadBalancer]\nsubnet-idd = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f\n"
	return content, strings.Count(content, "\n")
}

func TestConf_AMistakeFailsNewAndSaysWhereAndWhatWasMeant(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	content, line := misspelt(s)
	path := writeConf(t, content)
	params := ccm.Params{
		Config: managerConfig(), RESTConfig: suite.Confine(t, shared.Identity),
		Providers: []ccm.Provider{openstack.Provider()},
	}
	params.Config.CloudProvider.ConfigFile = path
	_, err := ccm.New(params)
	var wrong *ccm.ConfigError
	if !errors.As(err, &wrong) {
		t.Fatalf("New returned %v, want a *ccm.ConfigError", err)
	}
	for _, text := range []string{
		path, fmt.Sprint("line ", line), `"subnet-idd"`, "[LoadBalancer]",
		`did you mean "subnet-id"`,
	} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error does not tell %s: %v", text, err)
		}
	}
	s.secrets.scan("the error of New", err.Error())
	if calls := s.Calls(); len(calls) > 0 {
		t.Errorf("OpenStack was asked for something:\n%s", describe(calls))
	}
}

func TestConf_WithoutStrictMode_AMistakeIsAWarning(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	content, line := misspelt(s)
	m := s.addServer("lenient-1")
	r := ready(t, s, fromFile(writeConf(t, content)),
		func(l *launch) { l.Config.CloudProvider.ConfigStrict = false })
	tainted(t, m.name)
	initialised(t, m.name)
	if told := r.log.linesWith("warning", `subnet-idd`, fmt.Sprint("line ", line),
		`subnet-id\"`); len(told) != 1 {
		t.Errorf("the mistake was told %d times, want once in the term: %q", len(told), told)
	}
}

func TestConf_WhatNewCannotBeginWith(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	given := s.config()
	ageless, nameless := given, given
	ageless.Instances.AbsenceConfirmation = 0
	nameless.Global.AuthURL = ""
	for name, test := range map[string]struct {
		file    string
		options []openstack.Option
		tells   string
	}{
		"nothing":      {tells: "--cloud-config"},
		"no such file": {file: filepath.Join(t.TempDir(), "missing.conf"), tells: "missing.conf"},
		"two at once": {
			file:    writeConf(t, s.CloudConf(openstacktest.PasswordAuth)),
			options: []openstack.Option{openstack.WithConfig(given)}, tells: "only one",
		},
		"a value of data":  {options: []openstack.Option{openstack.WithConfig(ageless)}, tells: "absence-confirmation"},
		"no Keystone":      {options: []openstack.Option{openstack.WithConfig(nameless)}, tells: "auth-url"},
		"an unquoted hash": {file: writeConf(t, "[Global]\nauth-url = http://keystone/v3\npassword = \\unquoted-secret\n"), tells: "line 3"},
	} {
		t.Run(name, func(t *testing.T) {
			params := ccm.Params{
				Config:     managerConfig(),
				RESTConfig: suite.Confine(t, shared.Identity),
				Providers:  []ccm.Provider{openstack.Provider(test.options...)},
			}
			params.Config.CloudProvider.ConfigFile = test.file
			_, err := ccm.New(params)
			var wrong *ccm.ConfigError
			if !errors.As(err, &wrong) || !strings.Contains(err.Error(), test.tells) {
				t.Fatalf("New returned %v, want a *ccm.ConfigError that tells %q", err, test.tells)
			}
			s.secrets.scan("the error of New", err.Error())
			if strings.Contains(err.Error(), "unquoted-secret") {
				t.Errorf("the error tells a secret: %v", err)
			}
		})
	}
}

// OCCM takes it from a variable; the library heeds the environment only where the host says so.
func TestConf_TheEnvironmentCountsOnlyIfTheHostLetsIt(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	m := s.addServer("environment-1")
	getenv := func(name string) string {
		if name == "OS_CCM_REGIONAL" {
			return "true"
		}
		return ""
	}
	ready(t, s, fromFile(writeConf(t, s.CloudConf(openstacktest.ApplicationCredentialAuth)+quick)),
		func(l *launch) { l.options = append(l.options, openstack.WithEnvironment(getenv)) })
	tainted(t, m.name)
	if got, want := initialised(t, m.name).Spec.ProviderID,
		"openstack://RegionOne/"+m.id; got != want {
		t.Errorf("provider ID %q, want %q", got, want)
	}
}

func TestConf_AllWaysToLogInLeadToAnInitialisedNode(t *testing.T) {
	t.Parallel()
	s := newSite(t, openstacktest.WithTLS())
	for _, method := range []openstacktest.AuthMethod{
		openstacktest.PasswordAuth, openstacktest.TokenAuth,
		openstacktest.ApplicationCredentialAuth, openstacktest.TrustAuth,
	} {
		t.Run(string(method), func(t *testing.T) {
			m := s.addServer("login-" + string(method))
			r := ready(t, s.in(t), fromFile(writeConf(t, s.CloudConf(method)+quick)))
			tainted(t, m.name)
			initialised(t, m.name)
			r.unbroken()
			r.stop()
			ccmtest.WaitState(t, r.Manager, ccm.StateStopped)
		})
	}
}
