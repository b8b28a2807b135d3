package openstacktest

import (
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"sigs.k8s.io/yaml"
)

func TestCloudConf_EachMethod(t *testing.T) {
	s := start(t)
	c := s.Credentials()
	head := "[Global]\nauth-url = \"" + s.AuthURL() + "\"\nregion = \"RegionOne\"\n"
	for method, want := range map[AuthMethod]string{
		PasswordAuth: "username = \"demo-user\"\npassword = \"" + c.Password +
			"\"\ndomain-name = \"Default\"\ntenant-name = \"demo\"\n",
		TokenAuth: "token = \"" + c.Token + "\"\n",
		TrustAuth: "trust-id = \"" + c.TrustID + "\"\nuser-id = \"" + c.TrusteeID +
			"\"\npassword = \"" + c.TrusteePassword + "\"\n",
		ApplicationCredentialAuth: "application-credential-id = \"" + c.ApplicationCredentialID +
			"\"\napplication-credential-secret = \"" + c.ApplicationCredentialSecret + "\"\n",
	} {
		if got := c.CloudConf(method); got != head+want {
			t.Errorf("%s:\n%s, want\n%s", method, got, head+want)
		}
	}
}

func TestCloudConf_QuotesWhatGcfgWouldMisread(t *testing.T) {
	got := Credentials{
		Password:       "a#b;c\"d\\e",
		CertificatePEM: "line\nline\n",
	}.CloudConf(PasswordAuth)
	for _, want := range []string{
		`password = "a#b;c\"d\\e"` + "\n",
		`cafilecontents = "line\nline\n"` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestCloudsYAML_LogsIn(t *testing.T) {
	s := start(t)
	for _, method := range []AuthMethod{PasswordAuth, TokenAuth, ApplicationCredentialAuth} {
		var file struct {
			Clouds map[string]struct {
				Region string `json:"region_name"`
				Type   string `json:"auth_type"`
				Auth   map[string]string
			}
		}
		if err := yaml.UnmarshalStrict([]byte(s.CloudsYAML(method)), &file); err != nil {
			t.Fatal(err)
		}
		cloud := file.Clouds[CloudName]
		options := gophercloud.AuthOptions{
			IdentityEndpoint: cloud.Auth["auth_url"], Username: cloud.Auth["username"],
			Password:   cloud.Auth["password"],
			DomainName: cloud.Auth["user_domain_name"], TokenID: cloud.Auth["token"],
			ApplicationCredentialID:     cloud.Auth["application_credential_id"],
			ApplicationCredentialSecret: cloud.Auth["application_credential_secret"],
		}
		if name := cloud.Auth["project_name"]; name != "" {
			options.Scope = &gophercloud.AuthScope{
				ProjectName: name,
				DomainName:  cloud.Auth["project_domain_name"],
			}
		}
		if cloud.Region != "RegionOne" || !strings.HasPrefix(cloud.Type, "v3") {
			t.Errorf("%s: the cloud is %+v", method, cloud)
		}
		if _, err := tryLogin(t, options); err != nil {
			t.Errorf("%s: %v", method, err)
		}
	}
}

func TestConfiguration_OfAnUnknownMethod_Panics(t *testing.T) {
	for name, write := range map[string]func() string{
		"cloud.conf":               func() string { return Credentials{}.CloudConf("magic") },
		"clouds.yaml":              func() string { return Credentials{}.CloudsYAML("magic") },
		"clouds.yaml with a trust": func() string { return Credentials{}.CloudsYAML(TrustAuth) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			write()
		}()
	}
}
