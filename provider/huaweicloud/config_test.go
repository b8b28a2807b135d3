package huaweicloud

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/provider/huaweicloud/internal/stub"
)

var environment = map[string]string{
	"IDENTITY_ENDPOINT": "https://iam.cn-north-4.myhuaweicloud.com/v3",
	"PROJECT_ID":        stub.ProjectID,
	"DOMAIN_ID":         "0503dda87880252c0f78c009c5f5a6b7",
	"ACCESS_KEY_ID":     stub.AccessKeyID,
	"ACCESS_KEY_SECRET": stub.AccessKeySecret,
	"ROUTER_ID":         stub.VPC,
	"REGION":            "cn-north-4",
	"SUBNET_ID":         stub.Subnet,
}

// with returns getenv of the environment with a change.
func with(name, value string) func(string) string {
	return func(asked string) string {
		if asked == name {
			return value
		}
		return environment[asked]
	}
}

func TestConfig_FromEnvironment(t *testing.T) {
	c, _, err := source{getenv: with("", "")}.load("", true)
	want := Config{
		IdentityEndpoint: environment["IDENTITY_ENDPOINT"],
		ProjectID:        environment["PROJECT_ID"],
		DomainID:         environment["DOMAIN_ID"],
		AccessKeyID:      environment["ACCESS_KEY_ID"],
		AccessKeySecret:  Secret(environment["ACCESS_KEY_SECRET"]),
		RouterID:         environment["ROUTER_ID"],
		Region:           environment["REGION"],
		SubnetID:         environment["SUBNET_ID"],
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, %v, want %+v", c, err, want)
	}
}

func TestConfig_FromFile(t *testing.T) {
	c, _, err := source{}.load(writeFile(t, `
identityEndpoint: https://iam.cn-north-4.myhuaweicloud.com
projectID: project
domainID: domain
accessKeyID: key
accessKeySecret: secret
routerID: router
region: cn-north-4
subnetID: subnet
ecsEndpoint: https://ecs.example.com
elbEndpoint: https://elb.example.com
eipEndpoint: https://eip.example.com
removalTaints: [example.com/leaving]
loadBalancer:
  availabilityZones: [cn-north-4a]
  l4FlavorID: l4
  l7FlavorID: l7
  memberSubnets: {192.168.1.0/24: second}
`), true)
	want := Config{
		IdentityEndpoint: "https://iam.cn-north-4.myhuaweicloud.com",
		ProjectID:        "project", DomainID: "domain",
		AccessKeyID: "key", AccessKeySecret: "secret",
		RouterID: "router", Region: "cn-north-4", SubnetID: "subnet",
		ECSEndpoint: "https://ecs.example.com", ELBEndpoint: "https://elb.example.com",
		EIPEndpoint: "https://eip.example.com", RemovalTaints: []string{"example.com/leaving"},
		LoadBalancer: LoadBalancerConfig{
			AvailabilityZones: []string{"cn-north-4a"}, L4FlavorID: "l4", L7FlavorID: "l7",
			MemberSubnets: map[string]string{"192.168.1.0/24": "second"},
		},
	}
	if err != nil || !reflect.DeepEqual(c, want) {
		t.Errorf("got %+v, %v, want %+v", c, err, want)
	}
}

// writeFile returns the path of a new file.
func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "cloud.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestEndpoints_FollowFromTheIdentityEndpoint(t *testing.T) {
	for identity, want := range map[string]string{
		"https://iam.cn-north-4.example.com/v3": "https://ecs.cn-north-4.example.com",
		"https://iam.example.com:443":           "https://ecs.cn-north-4.example.com:443",
		"https://iam.cn-north-4.cloud.example":  "https://ecs.cn-north-4.cloud.example",
	} {
		got, err := Config{IdentityEndpoint: identity, Region: "cn-north-4"}.endpoints()
		if err != nil || got.ecs != want || got.elb != strings.Replace(want, "ecs", "elb", 1) ||
			got.eip != strings.Replace(want, "ecs", "vpc", 1) {
			t.Errorf("%s: %+v, %v", identity, got, err)
		}
	}
}

func TestConfig_Invalid_ErrorNamesTheKey(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"PROJECT_ID", "", "projectID (PROJECT_ID) is required"},
		{"ACCESS_KEY_ID", "", "accessKeyID (ACCESS_KEY_ID) is required"},
		{"ACCESS_KEY_SECRET", " ", "accessKeySecret (ACCESS_KEY_SECRET) is required"},
		{"ROUTER_ID", "", "routerID (ROUTER_ID) is required"},
		{"SUBNET_ID", "", "subnetID (SUBNET_ID) is required"},
		{"REGION", "a/b", "region (REGION) may contain only letters"},
		{"IDENTITY_ENDPOINT", "", "identityEndpoint (IDENTITY_ENDPOINT) is required"},
		{"IDENTITY_ENDPOINT", "iam.example.com", "identityEndpoint: it must be a URL"},
		{"IDENTITY_ENDPOINT", "http://iam.example.com", "http is allowed for this machine only"},
		{"IDENTITY_ENDPOINT", "https://u:p@iam.example.com", "must not contain credentials"},
		{"IDENTITY_ENDPOINT", "https://auth.example.com", "does not begin with iam."},
	} {
		_, _, err := source{getenv: with(c.name, c.value)}.load("", true)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s=%q: %v", c.name, c.value, err)
		}
	}
	if _, _, err := (source{}).load("", true); err == nil ||
		!strings.Contains(err.Error(), "--cloud-config") {
		t.Errorf("no configuration: %v", err)
	}
	if _, _, err := (source{given: &Config{}}).load("file", true); err == nil ||
		!strings.Contains(err.Error(), "only one") {
		t.Errorf("file and data: %v", err)
	}
}

func TestConfig_FileWithProblems_ErrorHasNoValue(t *testing.T) {
	const complete = `
identityEndpoint: https://iam.cn-north-4.myhuaweicloud.com
projectID: p
accessKeyID: a
accessKeySecret: hush-hush
routerID: r
region: cn-north-4
subnetID: s
loadBalancer:
  availabilityZones: [cn-north-4a]
`
	for _, c := range []struct {
		name, text string
		strict     bool
		want       string
		warnings   int
	}{
		{"complete", complete, true, "", 0},
		{
			"several subnets", complete + "  memberSubnets: {192.168.1.0/24: t}", true, "", 0,
		},
		{
			"subnet of one address", complete + "  memberSubnets: {192.168.1.1/24: t}", true,
			`"192.168.1.1/24" is not the IPv4 CIDR of a subnet`, 0,
		},
		{
			"subnet without ID", complete + "  memberSubnets: {192.168.1.0/24: \"\"}", true,
			"192.168.1.0/24 needs the ID of its subnet", 0,
		},
		{
			"taint with a value", complete + "removalTaints: [leaving=true]", true,
			`removalTaints: "leaving=true" is no key of a taint`, 0,
		},
		{"unknown key, strict", complete + "zone: x", true, "unknown key zone", 0},
		{"unknown key", complete + "zone: x", false, "", 1},
		{"key given twice", complete + "region: y", true, "key region is given twice", 0},
		{
			"wrong type", "accessKeySecret: [hush-hush]", false,
			"key accessKeySecret has a value of the wrong type", 0,
		},
		{"not YAML", "accessKeySecret: \"hush-hush", false, "the text cannot be parsed", 0},
	} {
		_, warnings, err := (source{}).load(writeFile(t, c.text), c.strict)
		switch {
		case len(warnings) != c.warnings:
			t.Errorf("%s: warnings %q", c.name, warnings)
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want == "":
		case err == nil || !strings.Contains(err.Error(), c.want) ||
			strings.Contains(err.Error(), "hush"):
			t.Errorf("%s: %v", c.name, err)
		}
	}
	if _, _, err := (source{}).load("does-not-exist", true); err == nil {
		t.Error("a missing file is no error")
	}
}

func TestSecret_IsNotPrinted(t *testing.T) {
	c := Config{AccessKeySecret: "hush-hush"}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		if text := fmt.Sprintf(verb, c); strings.Contains(text, "hush") {
			t.Errorf("%s prints %s", verb, text)
		}
	}
	if text, err := json.Marshal(c); err != nil || strings.Contains(string(text), "hush") {
		t.Errorf("JSON is %s, %v", text, err)
	}
}

func TestManager_InvalidConfiguration_IsRefusedBeforeTheFirstTerm(t *testing.T) {
	cfg := ccm.DefaultConfig()
	cfg.CloudProvider.Name = Name
	_, err := ccm.New(ccm.Params{
		Config: cfg, Providers: []ccm.Provider{Provider(WithConfig(Config{}))},
	})
	if err == nil || !strings.Contains(err.Error(), "subnetID (SUBNET_ID) is required") {
		t.Errorf("got %v", err)
	}
}
