package cloudconf

import (
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
`},
			want: Global{
				AuthURL: "https://keystone.example/v3", UserID: "u", Username: "n",
				Password: "0123", TenantID: "p", TenantName: "pn",
				DomainID: "d", DomainName: "dn", TenantDomainID: "pd", TenantDomainName: "pdn",
				UserDomainID: "ud", UserDomainName: "udn",
				TrustID: "tr", Region: "RegionOne", EndpointType: "internal", CAFile: "/ca",
				CertFile: "/cert", KeyFile: "/key", TLSInsecure: true,
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
		"a key twice": {
			files: map[string]string{"clouds.yaml": aCloud + "    region_name: x\n"},
			want: "region_name in clouds.prod (DIR/clouds.yaml line 11): occurs twice; the " +
				"last one counts",
		},
		"no YAML": {
			files: map[string]string{"clouds.yaml": "clouds:\n  prod:\n  hunter2\n  x: y\n"},
			want:  "DIR/clouds.yaml line 3: is not YAML",
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
			want: `os-endpoint-type in [Global] (DIR/clouds.yaml line 11): must be one of public, internal, admin; did you mean "public"?`,
		},
		"no profile": {
			files: map[string]string{"clouds.yaml": aCloud +
				"    profile: vendor\n"},
			want: "profile in clouds.prod (DIR/clouds.yaml line 11): names a cloud that does " +
				"not exist in clouds-public.yaml",
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
			want: "region in [Global]: is missing, and clouds.yaml has several regions for the " +
				"cloud",
		},
		"an invalid URL": {
			files: map[string]string{"clouds.yaml": strings.ReplaceAll(aCloud,
				"https://keystone.example/v3", "keystone")},
			want: "auth-url in [Global] (DIR/clouds.yaml line 5): must be an http or https URL",
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

// A mapping that merges itself is a loop. Merges of merges would grow without bound if each were
// followed.
func TestClouds_YAMLBombs_DoNoHarm(t *testing.T) {
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
