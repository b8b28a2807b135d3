package cloudconf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// inDir writes files into a new directory, which is the only search directory.
func inDir(t *testing.T, files map[string]string) (dir string, o Options) {
	t.Helper()
	dir = t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, Options{Strict: true, CloudsDirs: []string{dir}}
}

const aCloud = `
clouds:
  prod:
    auth:
      auth_url: https://keystone.example/v3
      username: ccm
      password: hunter2
      project_name: project
      domain_name: Default
    region_name: RegionOne
`

func TestClouds_FillEmptyOptions(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		conf  string
		files map[string]string
		want  Global // without the keys about clouds.yaml itself
	}{
		"all keys": {
			files: map[string]string{"clouds.yaml": `
clouds:
  prod:
    auth:
      auth_url: https://keystone.example/v3
      user_id: u
      username: n
      password: 0123
      project_id: p
      project_name: pn
      domain_id: d
      domain_name: dn
      project_domain_id: pd
      project_domain_name: pdn
      user_domain_id: ud
      user_domain_name: udn
      trust_id: tr
    region_name: RegionOne
    endpoint_type: internalURL
    cacert: /ca
    cert: /cert
    key: /key
    verify: false
    identity_api_version: 3
    volume_api_version: 3
    network_endpoint_override: https://neutron.example
    compute_endpoint: https://nova.example/v2.1
    load-balancer-endpoint-override: https://octavia.example/v2.0
    load_balancer_endpoint: https://other.example
    key_manager_endpoint_override: https://barbican.example
    volume_endpoint_override: https://cinder.example
`},
			want: Global{
				AuthURL: "https://keystone.example/v3", UserID: "u", Username: "n",
				Password: "0123", TenantID: "p", TenantName: "pn",
				DomainID: "d", DomainName: "dn", TenantDomainID: "pd", TenantDomainName: "pdn",
				UserDomainID: "ud", UserDomainName: "udn",
				TrustID: "tr", Region: "RegionOne", EndpointType: "internal", CAFile: "/ca",
				CertFile: "/cert", KeyFile: "/key", TLSInsecure: true,
				ComputeEndpoint:      "https://nova.example/v2.1",
				NetworkEndpoint:      "https://neutron.example",
				LoadBalancerEndpoint: "https://octavia.example/v2.0",
				KeyManagerEndpoint:   "https://barbican.example",
			},
		},
		"insecure beats verify": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    verify: true\n    insecure: true\n"},
			want: Global{
				AuthURL: "https://keystone.example/v3", Username: "ccm",
				Password: "hunter2", TenantName: "project", DomainName: "Default",
				Region: "RegionOne", TLSInsecure: true,
			},
		},
		"insecure is false": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    verify: false\n    insecure: false\n"},
			want: Global{
				AuthURL: "https://keystone.example/v3", Username: "ccm",
				Password: "hunter2", TenantName: "project", DomainName: "Default",
				Region: "RegionOne", TLSInsecure: true,
			},
		},
		"an application credential": {
			files: map[string]string{"clouds.yaml": `
clouds:
  prod:
    auth_type: v3applicationcredential
    auth: {auth_url: https://k, application_credential_id: a, application_credential_name: n, application_credential_secret: s}
    interface: admin
`},
			want: Global{
				AuthURL: "https://k", ApplicationCredentialID: "a",
				ApplicationCredentialName: "n", ApplicationCredentialSecret: "s",
				EndpointType: "admin",
			},
		},
		"a token": {
			files: map[string]string{"clouds.yaml": "clouds: {prod: {auth_type: token, auth: " +
				"{auth_url: https://k, token: x, project_id: p}}}"},
			want: Global{AuthURL: "https://k", Token: "x", TenantID: "p"},
		},
		"endpoint_type beats interface": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    interface: admin\n    endpoint_type: public\n"},
			want: Global{
				AuthURL: "https://keystone.example/v3", Username: "ccm",
				Password: "hunter2", TenantName: "project", DomainName: "Default",
				Region: "RegionOne", EndpointType: "public",
			},
		},
		"cloud.conf beats it, field by field": {
			conf: "auth-url = https://other\npassword = mine\ntls-insecure = " +
				"false\ncafilecontents = \"\"\nca-file = /mine\nos-endpoint-type = public\n",
			files: map[string]string{"clouds.yaml": aCloud +
				"    verify: no\n    cacert: /theirs\n    endpoint_type: internal\n"},
			want: Global{
				AuthURL: "https://other", Username: "ccm", Password: "mine",
				TenantName: "project", DomainName: "Default", Region: "RegionOne", CAFile: "/mine",
				EndpointType: "public",
			},
		},
		"secure.yaml beats it": {
			files: map[string]string{
				"clouds.yaml": strings.ReplaceAll(aCloud, "password: hunter2", "password: ''") +
					"    verify: true\n",
				"secure.yaml": "clouds: {prod: {auth: {password: hidden, username: ''}, verify: " +
					"false}, other: {}}",
			},
			want: Global{
				AuthURL: "https://keystone.example/v3", Username: "ccm",
				Password: "hidden", TenantName: "project", DomainName: "Default",
				Region: "RegionOne", TLSInsecure: true,
			},
		},
		"a profile is the weakest": {
			files: map[string]string{
				"clouds.yaml": "clouds: {prod: {profile: vendor, auth: {username: ccm, " +
					"password: p, project_id: t, domain_id: d}, region_name: two}}",
				"clouds-public.yml": "public-clouds: {vendor: {auth: {auth_url: https://vendor, " +
					"username: x}, region_name: one}}",
			},
			want: Global{
				AuthURL: "https://vendor", Username: "ccm", Password: "p", TenantID: "t",
				DomainID: "d", Region: "two",
			},
		},
		"the only region, with its values": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"region_name: RegionOne",
				"regions:\n    - name: two\n      values: {cacert: /two, auth: {project_name: "+
					"second}}")},
			want: Global{
				AuthURL: "https://keystone.example/v3", Username: "ccm",
				Password: "hunter2", TenantName: "second", DomainName: "Default",
				Region: "two", CAFile: "/two",
			},
		},
		"the region of cloud.conf, of several": {
			conf: "region = three\n",
			files: map[string]string{"clouds.yaml": aCloud +
				"    regions: [two, {name: three, values: {cacert: /three}}, {name: RegionOne, " +
				"values: {cacert: /one}}]\n"},
			want: Global{
				AuthURL: "https://keystone.example/v3", Username: "ccm",
				Password: "hunter2", TenantName: "project", DomainName: "Default",
				Region: "three", CAFile: "/three",
			},
		},
		"a default domain": {
			files: map[string]string{"clouds.yaml": "clouds: {prod: {auth: {auth_url: " +
				"https://k, user-name: u, password: p, tenant_name: t, default_domain: default, " +
				"project_domain_name: x}}}"},
			want: Global{
				AuthURL: "https://k", Username: "u", Password: "p", TenantName: "t",
				UserDomainID: "default", TenantDomainName: "x",
			},
		},
		"aliases and merged mappings": {
			files: map[string]string{"clouds.yaml": "base: &b {auth_url: https://k, user_id: " +
				"x}\nclouds:\n  prod:\n    auth:\n      <<: [*b, {password: p}]\n      user_id: " +
				"u\n      project_id: &t t\n    region_name: *t\n"},
			want: Global{
				AuthURL: "https://k", UserID: "u", Password: "p",
				TenantID: "t", Region: "t",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, o := inDir(t, test.files)
			loaded, err := Read([]byte("[Global]\nuse-clouds\n"+test.conf), o)
			if err != nil {
				t.Fatalf("the configuration was refused: %v", err)
			}
			test.want.UseClouds = true
			if !reflect.DeepEqual(loaded.Config.Global, test.want) {
				got, _ := RenderWithSecrets(loaded.Config)
				want, _ := RenderWithSecrets(Config{Global: test.want})
				t.Errorf("the configuration is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

func TestClouds_TheirCloudIsChosen(t *testing.T) {
	t.Parallel()
	several := aCloud + "  test: {auth: {auth_url: https://test, token: x, project_id: t}}\n"
	for name, test := range map[string]struct {
		conf, clouds, secure string
		environment          string
		want                 string // the URL
		err                  string
	}{
		"the only one": {clouds: aCloud, want: "https://keystone.example/v3"},
		"the one that is named": {
			conf: "cloud = test", clouds: several,
			want: "https://test",
		},
		"the one of the environment": {environment: "test", clouds: several, want: "https://test"},
		"cloud.conf comes first": {
			conf: "cloud = test", environment: "prod", clouds: several,
			want: "https://test",
		},
		"the only one of secure.yaml": {
			clouds: "{}", secure: aCloud,
			want: "https://keystone.example/v3",
		},
		"none is named": {
			clouds: several,
			err: "cloud in [Global]: is missing, and DIR/clouds.yaml contains several clouds: " +
				"prod, test",
		},
		"none has the name": {
			conf: "cloud = tes", clouds: several,
			err: `cloud in [Global] (line 3): does not exist in DIR/clouds.yaml, which contains prod, test; did you mean "test"?`,
		},
		"no cloud": {
			clouds: "clouds:\n",
			err:    "cloud in [Global]: cannot be chosen: DIR/clouds.yaml contains no clouds",
		},
	} {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{"clouds.yaml": test.clouds}
			if test.secure != "" {
				files["secure.yaml"] = test.secure
			}
			dir, o := inDir(t, files)
			o.Environment = func(name string) string {
				return map[string]string{"OS_CLOUD": test.environment}[name]
			}
			loaded, err := Read([]byte("[Global]\nuse-clouds\n"+test.conf), o)
			if got := strings.ReplaceAll(told(refused(t, err)), dir, "DIR"); got != test.err {
				t.Errorf("refused for %q, want %q", got, test.err)
			}
			if got := loaded.Config.Global.AuthURL; got != test.want {
				t.Errorf("the cloud is at %q, want %q", got, test.want)
			}
		})
	}
}

func TestClouds_AreSearchedFor(t *testing.T) {
	t.Parallel()
	dir, o := inDir(t, map[string]string{
		"first/clouds.yml":   aCloud,
		"second/clouds.yaml": strings.ReplaceAll(aCloud, "RegionOne", "second"),
		"third/clouds.yaml":  strings.ReplaceAll(aCloud, "RegionOne", "third"),
		"other/mine.yaml":    strings.ReplaceAll(aCloud, "RegionOne", "mine"),
		"other/secure.yaml":  "clouds: {prod: {region_name: secure}}",
	})
	o.CloudsDirs = nil
	for _, sub := range []string{"first", "second", "third"} {
		o.CloudsDirs = append(o.CloudsDirs, filepath.Join(dir, sub))
	}
	missing, mine := filepath.Join(dir, "missing.yaml"), filepath.Join(dir, "other", "mine.yaml")
	for name, test := range map[string]struct {
		conf, environment string
		lax               bool
		dirs              []string
		region            string
		files             []string
		err               string
	}{
		".yaml before .yml, then by directory": {
			region: "second",
			files:  []string{"second/clouds.yaml"},
		},
		"named, with secure.yaml beside it": {
			conf: "clouds-file = " + mine, region: "secure",
			files: []string{"other/mine.yaml", "other/secure.yaml"},
		},
		"named in the environment": {
			environment: mine, region: "secure",
			files: []string{"other/mine.yaml", "other/secure.yaml"},
		},
		"cloud.conf before the environment": {
			conf:        "clouds-file = " + mine,
			environment: missing, region: "secure",
			files: []string{"other/mine.yaml", "other/secure.yaml"},
		},
		"named and missing": {
			conf: "clouds-file = " + missing,
			err: "clouds-file in [Global] (line 3): names a file that does not exist; searching " +
				"the default locations",
		},
		"named and missing, as in OCCM": {
			lax: true, conf: "clouds-file = " + missing,
			region: "second", files: []string{"second/clouds.yaml"},
		},
		"none": {
			dirs: []string{dir},
			err:  "use-clouds in [Global] (line 2): is set, but no clouds.yaml exists",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.Strict = !test.lax
			if test.dirs != nil {
				o.CloudsDirs = test.dirs
			}
			o.Environment = func(name string) string {
				return map[string]string{"OS_CLIENT_CONFIG_FILE": test.environment}[name]
			}
			loaded, err := Read([]byte("[Global]\nuse-clouds\n"+test.conf), o)
			if got := told(refused(t, err)); got != test.err {
				t.Errorf("refused for %q, want %q", got, test.err)
			}
			if got := loaded.Config.Global.Region; got != test.region {
				t.Errorf("the region is %q, want %q", got, test.region)
			}
			var want []string
			for _, file := range test.files {
				want = append(want, filepath.Join(dir, file))
			}
			if !slices.Equal(loaded.Files, want) {
				t.Errorf("files are %q, want %q", loaded.Files, want)
			}
		})
	}
}

func TestClouds_Mistakes_AreReportedWithTheirLine(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files map[string]string
		want  string
	}{
		"unknown keys": {
			files: map[string]string{
				"clouds.yaml": aCloud +
					"    regionname: x\n    zzzzz: 1\n  other: {nonsense: 1}\n",
				"secure.yaml": "clouds:\n  prod:\n    auth:\n      pasword: x\n",
			},
			want: `unknown key "regionname" in clouds.prod (DIR/clouds.yaml line 11): did you mean "region_name"?
unknown key "zzzzz" in clouds.prod (DIR/clouds.yaml line 12)
unknown key "pasword" in clouds.prod.auth (DIR/secure.yaml line 4): did you mean "password"?`,
		},
		"a key of the cloud in auth": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"    region_name", "      region_name")},
			want: `unknown key "region_name" in clouds.prod.auth (DIR/clouds.yaml line 10): it belongs beside auth, and not inside`,
		},
		"a key twice": {
			files: map[string]string{"clouds.yaml": aCloud + "    region_name: x\n"},
			want: "region_name in clouds.prod (DIR/clouds.yaml line 11): occurs twice; the " +
				"last one counts",
		},
		"a cloud twice": {
			files: map[string]string{
				"clouds.yaml": aCloud + strings.TrimPrefix(aCloud, "\nclouds:\n"),
			},
			want: "prod in clouds (DIR/clouds.yaml line 11): occurs twice; the last one counts",
		},
		"all clouds twice": {
			files: map[string]string{"clouds.yaml": "clouds: {prod: {}}\n" + aCloud},
			want:  "clouds (DIR/clouds.yaml line 3): occurs twice; the last one counts",
		},
		"no YAML": {
			files: map[string]string{"clouds.yaml": "clouds:\n  prod:\n  hunter2\n  x: y\n"},
			want:  "DIR/clouds.yaml line 3: is not YAML: could not find expected ':'",
		},
		"a quote without an end": {
			files: map[string]string{"clouds.yaml": "clouds:\n  prod:\n    auth: {a: 'hunter2\n"},
			want:  "DIR/clouds.yaml line 3: is not YAML: found unexpected end of stream",
		},
		"an unquoted asterisk": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"hunter2", "*hunter2")},
			want: `DIR/clouds.yaml: is not YAML; a value that begins with "*" or "&" must be in quotes`,
		},
		"no mapping": {
			files: map[string]string{"clouds.yaml": "- hunter2\n"},
			want:  "DIR/clouds.yaml: must be a mapping that contains clouds",
		},
		"a cloud as text": {files: map[string]string{"clouds.yaml": "clouds:\n  prod: " +
			"hunter2\n"}, want: "clouds.prod (DIR/clouds.yaml line 2): must be a mapping"},
		"auth as text": {
			files: map[string]string{"clouds.yaml": "clouds:\n  prod:\n    " +
				"auth: hunter2\n"},
			want: "auth in clouds.prod (DIR/clouds.yaml line 3): must be a mapping",
		},
		"a list as a value": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"hunter2", "[hunter2]")},
			want: "password in clouds.prod.auth (DIR/clouds.yaml line 7): must be a single value",
		},
		"no truth": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    verify: maybe\n"},
			want: "verify in clouds.prod (DIR/clouds.yaml line 11): must be true or false",
		},
		"no endpoint type": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    interface: pubic\n"},
			want: `endpoint_type in clouds.prod (DIR/clouds.yaml line 11): must be one of public, internal, admin; did you mean "public"?`,
		},
		"no profile": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"auth_url", "domain_id") + "    profile: vendor\n"},
			want: "profile in clouds.prod (DIR/clouds.yaml line 11): names a cloud that does " +
				"not exist in clouds-public.yaml; write auth_url and region_name instead",
		},
		"another way to login": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    auth_type: v3oidcpassword\n"},
			want: "auth_type in clouds.prod (DIR/clouds.yaml line 11): is not supported; use " +
				"password, v3password, token, v3token or v3applicationcredential",
		},
		"several regions": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"region_name: RegionOne", "regions: [one, two]")},
			want: "region in [Global]: is missing, and clouds.yaml has several regions and no " +
				"region_name for the cloud",
		},
		"no truth of insecure": {
			files: map[string]string{"clouds.yaml": aCloud + "    insecure: maybe\n"},
			want:  "insecure in clouds.prod (DIR/clouds.yaml line 11): must be true or false",
		},
		"an invalid endpoint": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    compute_endpoint_override: nova.example\n"},
			want: "compute_endpoint_override in clouds.prod (DIR/clouds.yaml line 11): must be an " +
				"http or https URL",
		},
		"an invalid URL": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"https://keystone.example/v3", "keystone")},
			want: "auth_url in clouds.prod.auth (DIR/clouds.yaml line 5): must be an http or https URL",
		},
		"no URL": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"https://keystone.example/v3", "")},
			want: "auth_url in clouds.prod.auth (DIR/clouds.yaml): is missing; set it to the URL of " +
				"Keystone",
		},
		"no credentials": {
			files: map[string]string{"clouds.yaml": "clouds:\n  prod:\n    auth:\n" +
				"      auth_url: https://keystone.example/v3\n"},
			want: "clouds.prod (DIR/clouds.yaml): has no credentials: set a password, an application " +
				"credential or a token",
		},
		"no domain": {
			files: map[string]string{"clouds.yaml": "clouds:\n  prod:\n    auth:\n" +
				"      auth_url: https://keystone.example/v3\n      username: u\n" +
				"      password: hunter2\n      project_id: p\n"},
			want: "username in clouds.prod.auth (DIR/clouds.yaml line 5): needs a domain: " +
				"user_domain_id, user_domain_name, domain_id or domain_name",
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, o := inDir(t, test.files)
			_, err := Read([]byte("[Global]\nuse-clouds\ncloud = prod\n"), o)
			if got := strings.ReplaceAll(told(refused(t, err)), dir, "DIR"); got != test.want {
				t.Errorf("refused for\n%s\nwant\n%s", got, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error contains the password: %v", err)
			}
		})
	}
}

// openstacksdk reads these, or has no use for them.
func TestClouds_KeysOfOpenstacksdk_AreAccepted(t *testing.T) {
	t.Parallel()
	const login = "auth_url: https://keystone.example/v3, username: ccm, password: hunter2, " +
		"project_name: project, domain_name: Default"
	for _, test := range []struct {
		cloud   string
		is      func(Global) bool
		warning string
	}{
		{cloud: "{" + login + ", region_name: RegionOne}"},
		{cloud: "{auth: {auth_url: https://keystone.example/v3}, " + login + "}"},
		{cloud: "{auth: {" + login + "}, username: other, project_name: other}"},
		{cloud: "{auth: {" + login + "}, auth_plugin: v3password}"},
		{cloud: "{auth: {" + login + "}, api_timeout: 5, compute_timeout: 5, timeout: 5}"},
		{cloud: "{auth: {" + login + "}, identity_interface: internal, volume_api_version: '3'}"},
		{
			cloud:   "{auth: {" + login + "}, identity-endpoint-override: https://other.example}",
			warning: "identity-endpoint-override in clouds.prod",
		},
		{
			cloud:   "{auth: {" + login + "}, load_balancer_interface: internal}",
			warning: "load_balancer_interface in clouds.prod",
		},
		{
			cloud:   "{auth: {" + login + "}, key-manager-region-name: RegionTwo}",
			warning: "key-manager-region-name in clouds.prod",
		},
		{
			cloud: "{auth: {" + login + "}, regions: [{name: one, values: " +
				"{network_endpoint_type: internal}}]}",
			warning: "network_endpoint_type in clouds.prod.regions.one.values",
		},
		{
			cloud:   "{auth: {" + login + "}, profile: vexxhost}",
			warning: "profile in clouds.prod",
		},
		{
			cloud: "{auth: {" + login + "}, region_name: [one]}",
			is:    func(g Global) bool { return g.Region == "one" },
		},
		{
			cloud: "{auth: {" + login + "}, verify: 'False'}",
			is:    func(g Global) bool { return g.TLSInsecure },
		},
		{
			cloud: "{auth: {" + login + "}, verify: /etc/ca.pem}",
			is:    func(g Global) bool { return g.CAFile == "/etc/ca.pem" && !g.TLSInsecure },
		},
		{
			cloud: "{auth: {" + login + "}, cacert: /mine.pem, verify: /etc/ca.pem}",
			is:    func(g Global) bool { return g.CAFile == "/mine.pem" },
		},
	} {
		_, o := inDir(t, map[string]string{"clouds.yaml": "clouds: {prod: " + test.cloud + "}"})
		loaded, err := Read([]byte("[Global]\nuse-clouds\n"), o)
		if err != nil {
			t.Errorf("%s is refused: %v", test.cloud, err)
			continue
		}
		g := loaded.Config.Global
		if g.Username != "ccm" || g.Password != "hunter2" || g.TenantName != "project" ||
			g.DomainName != "Default" || test.is != nil && !test.is(g) {
			t.Errorf("%s is read as %+v", test.cloud, g)
		}
		if got := told(loaded.Warnings); !strings.HasPrefix(got, test.warning) ||
			test.warning == "" && got != "" {
			t.Errorf("the warnings of %s are %q, want %q", test.cloud, got, test.warning)
		}
	}
}

func TestClouds_Placeholder_IsTakenLiterallyWithAWarning(t *testing.T) {
	t.Parallel()
	dir, o := inDir(t, map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud, "hunter2",
		"${hunter2}")})
	loaded, err := Read([]byte("[Global]\nuse-clouds\n"), o)
	const want = "password in clouds.prod.auth (DIR/clouds.yaml line 7): has a placeholder such " +
		"as ${NAME}, which is taken literally: variables and templates are not replaced in this file"
	got := strings.ReplaceAll(told(loaded.Warnings), dir, "DIR")
	if err != nil || got != want || loaded.Config.Global.Password != "${hunter2}" {
		t.Errorf("the warnings are %q (%v), want %q", got, err, want)
	}
}

// YAML begins a comment only after a blank.
func TestClouds_SecretWithACommentAfterIt_HasAWarning(t *testing.T) {
	t.Parallel()
	for written, want := range map[string]struct{ password, warning string }{
		"hunter2 #1":        {"hunter2", "password in clouds.prod.auth"},
		"hunter2#1":         {"hunter2#1", ""},
		"'hunter2 #1'":      {"hunter2 #1", ""},
		"\"hunter2\" #1":    {"hunter2", ""},
		"hunter2\n      #1": {"hunter2", ""},
	} {
		_, o := inDir(t, map[string]string{
			"clouds.yaml": strings.ReplaceAll(aCloud, "hunter2", written),
		})
		loaded, err := Read([]byte("[Global]\nuse-clouds\n"), o)
		if err != nil {
			t.Errorf("%q is refused: %v", written, err)
			continue
		}
		got := told(loaded.Warnings)
		if string(loaded.Config.Global.Password) != want.password ||
			!strings.HasPrefix(got, want.warning) || want.warning == "" && got != "" ||
			strings.Contains(got, "hunter2") {
			t.Errorf("%q is read with the warnings %q, want %q", written, got, want.warning)
		}
	}
}

func TestClouds_SecretThatBeginsWithAComment_IsRefusedAsCutAtIt(t *testing.T) {
	t.Parallel()
	cut := strings.ReplaceAll(aCloud, "hunter2", "#hunter2")
	_, o := inDir(t, map[string]string{"clouds.yaml": cut})
	_, err := Read([]byte("[Global]\nuse-clouds\n"), o)
	if err == nil || !strings.Contains(err.Error(), "password in clouds.prod.auth") ||
		!strings.Contains(err.Error(), "line 7): ends at #") ||
		strings.Contains(err.Error(), "has no credentials") ||
		strings.Contains(err.Error(), "hunter2") {
		t.Errorf("the error is %v, want one about the #", err)
	}
	// The password of another file has effect.
	_, o = inDir(t, map[string]string{
		"clouds.yaml": cut, "secure.yaml": "clouds: {prod: {auth: {password: hidden}}}",
	})
	loaded, err := Read([]byte("[Global]\nuse-clouds\n"), o)
	if err != nil || loaded.Config.Global.Password != "hidden" {
		t.Errorf("with a password elsewhere, the error is %v", err)
	}
}

// An alternative key in one file is not weaker than the usual key in a weaker file.
func TestClouds_AlternativeKey_BeatsAWeakerFile(t *testing.T) {
	t.Parallel()
	_, o := inDir(t, map[string]string{
		"clouds.yaml": aCloud + "    profile: vendor\n    interface: internal\n",
		"secure.yaml": "clouds: {prod: {password: hidden}}",
		"clouds-public.yaml": "public-clouds: {vendor: {endpoint_type: public, " +
			"auth: {tenant_name: x}}}",
	})
	loaded, err := Read([]byte("[Global]\nuse-clouds\n"), o)
	g := loaded.Config.Global
	if err != nil || g.EndpointType != "internal" || g.Password != "hidden" ||
		g.TenantName != "project" {
		t.Errorf("the cloud is %+v (%v)", g, err)
	}
}

// openstacksdk reads the settings of TLS only beside auth.
func TestClouds_SettingOfTLSInAuth_HasNoEffectAndAWarning(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"cacert", "cert", "key", "verify", "insecure"} {
		_, o := inDir(t, map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
			"username:", key+": hunter2\n      username:")})
		loaded, err := Read([]byte("[Global]\nuse-clouds\ncloud = prod\n"), o)
		if err != nil {
			t.Errorf("%s in auth is refused: %v", key, err)
			continue
		}
		g := loaded.Config.Global
		if g.CAFile != "" || g.CertFile != "" || g.KeyFile != "" || g.TLSInsecure {
			t.Errorf("%s in auth has an effect: %+v", key, g)
		}
		want := key + " in clouds.prod.auth"
		if len(loaded.Warnings) != 1 || !strings.HasPrefix(loaded.Warnings[0].String(), want) ||
			strings.Contains(loaded.Warnings[0].String(), "hunter2") {
			t.Errorf("the warnings are %q, want one that begins with %q", loaded.Warnings, want)
		}
	}
}

// A mapping that merges itself is a loop. Merges of merges would grow without bound if each were
// followed.
func TestClouds_YAMLBombs_DoNoHarm(t *testing.T) {
	t.Parallel()
	var bomb strings.Builder
	bomb.WriteString("a0: &a0 {x: 1}\n")
	for i := range 30 {
		n, m := string(rune('a'+i%26))+string(rune('a'+i/26)), "a0"
		if i > 0 {
			m = string(rune('a'+(i-1)%26)) + string(rune('a'+(i-1)/26))
		}
		bomb.WriteString(n + ": &" + n + " {<<: [*" + m + ", *" + m + ", *" + m + "]}\n")
	}
	for _, content := range []string{
		"clouds: &c\n  <<: *c\n  prod: &p\n    <<: [*p, *c]\n    auth: {auth_url: https://k, " +
			"token: x, project_id: p}\n",
		bomb.String() + "clouds:\n  prod:\n    <<: *db\n    auth: {<<: *db, auth_url: " +
			"https://k, token: x, project_id: p}\n",
	} {
		_, o := inDir(t, map[string]string{"clouds.yaml": content})
		o.Strict = false
		if _, err := Read([]byte("[Global]\nuse-clouds\n"), o); err != nil {
			t.Errorf("the file was refused: %v", err)
		}
	}
}

func TestClouds_ReadFileIsSet_ReadsNothingOfThisMachine(t *testing.T) {
	t.Parallel()
	dir, o := inDir(t, map[string]string{"clouds.yaml": aCloud, "secure.yaml": aCloud})
	there := strings.ReplaceAll(aCloud, "RegionOne", "there")
	for name, test := range map[string]struct {
		files       map[string]string
		region, err string
	}{
		"it has the file": {
			files:  map[string]string{filepath.Join(dir, "clouds.yaml"): there},
			region: "there",
		},
		"it has none": {
			err: "use-clouds in [Global] (line 2): is set, but no clouds.yaml exists",
		},
		"it cannot read one": {
			files: map[string]string{filepath.Join(dir, "clouds.yaml"): ""},
			err:   filepath.Join(dir, "clouds.yaml") + ": cannot be read: only the node has it",
		},
	} {
		t.Run(name, func(t *testing.T) {
			o := o
			o.ReadFile = func(path string) ([]byte, error) {
				switch content, found := test.files[path]; {
				case !found:
					return nil, fs.ErrNotExist
				case content == "":
					return nil, errors.New("only the node has it")
				default:
					return []byte(content), nil
				}
			}
			loaded, err := Read([]byte("[Global]\nuse-clouds\n"), o)
			if got := told(refused(t, err)); got != test.err {
				t.Errorf("refused for %q, want %q", got, test.err)
			}
			if got := loaded.Config.Global.Region; got != test.region {
				t.Errorf("the region is %q, want %q", got, test.region)
			}
		})
	}
}
