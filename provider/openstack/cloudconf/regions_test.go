package cloudconf

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const twoRegions = `[Global]
auth-url = https://keystone.example:5000/v3
username = fxccm
password = first
tenant-name = shop
domain-name = Default
region = one
ca-file = /etc/ssl/cloud.pem
os-endpoint-type = internal

[LoadBalancer]
create-monitor = true
subnet-id = 7f1a1f2e-3a5d-4f3c-9c5e-1d2b3c4d5e6f

[Instances]
vanished-number = 7

[Global "two"]

[Networking "two"]
public-network-name = outside

[LoadBalancer "two"]
floating-network-id = 2cb9b4d4-8a27-4a22-8b5a-5b7a2a6a7e11

[Global "other project"]
region = one
application-credential-id = abc
application-credential-secret = second

[Global "own cloud"]
auth-url = https://keystone.two.example:5000/v3
region = far
token = third
`

func regionOf(t *testing.T, c Config, name string) Config {
	t.Helper()
	region, ok := c.In(name)
	if !ok || len(region.Regions) > 0 {
		t.Fatalf("region %q is missing or has regions", name)
	}
	return region
}

func TestRegions_SectionsWithNames_EachRegionIsComplete(t *testing.T) {
	t.Parallel()
	loaded, err := Read([]byte(twoRegions), Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	c := loaded.Config
	if got, want := c.RegionNames(), []string{"one", "other project", "own cloud", "two"}; !slices.
		Equal(got, want) {
		t.Fatalf("the regions are %q, want %q", got, want)
	}
	one, two := regionOf(t, c, "one"), regionOf(t, c, "two")
	if one.Global != c.Global || !one.LoadBalancer.CreateMonitor || !one.Instances.Regional {
		t.Errorf("the default region is %+v", one)
	}
	want := c.Global
	want.Region = "two"
	if two.Global != want {
		t.Errorf("without options, [Global \"two\"] is %+v, want %+v", two.Global, want)
	}
	if two.LoadBalancer.CreateMonitor || two.LoadBalancer.SubnetID != "" ||
		!two.LoadBalancer.Enabled || two.LoadBalancer.FloatingNetworkID == "" ||
		!slices.Equal(two.Networking.PublicNetworkNames, []string{"outside"}) {
		t.Errorf("the region has not its own networks and defaults: %+v", two)
	}
	if two.Instances.VanishedNumber != 7 || !two.Instances.Regional {
		t.Errorf("[Instances] is %+v in the region", two.Instances)
	}
	project, far := regionOf(t, c, "other project").Global, regionOf(t, c, "own cloud").Global
	if project.Password != "" || project.Username != "" || project.DomainName != "" ||
		project.TenantName != "" || project.AuthURL != c.Global.AuthURL ||
		project.CAFile != c.Global.CAFile || project.EndpointType != "internal" ||
		project.Region != "one" {
		t.Errorf("with own credentials, the region is %+v", project)
	}
	if far.Password != "" || far.Username != "" || far.Region != "far" || far.Token != "third" {
		t.Errorf("at another Keystone, the region is %+v", far)
	}
	if _, ok := c.In("three"); ok {
		t.Error("a region that is not in the file exists")
	}
}

func TestRegions_CloudsYAML_IsReadForEach(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	clouds := `clouds:
  prod:
    auth: {auth_url: "https://keystone.example/v3", application_credential_id: abc,
      application_credential_secret: first}
  lab:
    auth: {auth_url: "https://keystone.lab.example/v3", application_credential_id: def,
      application_credential_secret: second}
`
	path := filepath.Join(dir, "clouds.yaml")
	if err := os.WriteFile(path, []byte(clouds), 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := Read([]byte(`[Global]
use-clouds = true
clouds-file = `+path+`
cloud = prod
region = one
[Global "two"]
[Global "lab"]
use-clouds = true
clouds-file = `+path+`
cloud = lab
`), Options{Strict: true, CloudsDirs: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	two, lab := loaded.Config.Regions["two"].Global, loaded.Config.Regions["lab"].Global
	if two.ApplicationCredentialSecret != "first" || two.Region != "two" ||
		lab.ApplicationCredentialSecret != "second" || lab.Region != "lab" {
		t.Errorf("two is %+v, lab is %+v", two, lab)
	}
	if !slices.Equal(loaded.Files, []string{path}) {
		t.Errorf("the files are %q", loaded.Files)
	}
}

func TestRegions_Mistakes_AreRefusedWithTheirPlace(t *testing.T) {
	t.Parallel()
	const login = "[Global]\nauth-url = http://k/v3\ntoken = t\n"
	for name, test := range map[string]struct{ text, want string }{
		"default region without a name": {
			login + "[Global \"two\"]\n", "region in [Global]: is missing",
		},
		"name of the default region": {
			login + "region = one\n[Global \"one\"]\n", `[Global "one"]: needs a name`,
		},
		"no [Global]": {
			login + "region = one\n[Route \"two\"]\n",
			`[Route "two"] (line 5): is ignored: its region needs a section [Global "two"]`,
		},
		"same project twice": {
			login + "region = one\n[Global \"two\"]\nregion = one\n",
			`[Global "two"]: is the same region and project as [Global]`,
		},
		"router in one region": {
			login + "region = one\n[Global \"two\"]\n[Route \"two\"]\n" +
				"router-id = 2cb9b4d4-8a27-4a22-8b5a-5b7a2a6a7e11\n",
			`router-id in [Route "two"] (line 7): must be set for all regions`,
		},
		"another Keystone without credentials": {
			login + "region = one\n[Global \"two\"]\nauth-url = http://other/v3\n",
			`[Global "two"]: has no credentials`,
		},
		"bad value": {
			login + "region = one\n[Global \"two\"]\n[LoadBalancer \"two\"]\nsubnet-id = x\n",
			`subnet-id in [LoadBalancer "two"] (line 7): must be a UUID`,
		},
		"unknown key": {
			login + "region = one\n[Global \"two\"]\n[Route \"two\"]\nrouter = x\n",
			`unknown key "router" in [Route "two"] (line 7)`,
		},
		"section that is not of a region": {
			login + "region = one\n[Client \"two\"]\n", `[Client "two"] (line 5): has no name`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Read([]byte(test.text), Options{Strict: true})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
		})
	}
}

// The addresses of the services differ between regions.
func TestRegions_EndpointOverrides_AreNotInherited(t *testing.T) {
	t.Parallel()
	loaded, err := Read([]byte(`[Global]
auth-url = https://keystone.example/v3
user-id = u
password = p
tenant-id = t
region = one
compute-endpoint-override = https://nova.one.example
network-endpoint-override = https://neutron.one.example
[Global "two"]
network-endpoint-override = https://neutron.two.example
`), Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	two := loaded.Config.Regions["two"].Global
	if two.ComputeEndpoint != "" || two.NetworkEndpoint != "https://neutron.two.example" ||
		two.Password != "p" {
		t.Errorf("the second region has %+v", two)
	}
}
