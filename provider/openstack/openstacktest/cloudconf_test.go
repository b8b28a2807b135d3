package openstacktest

import (
	"strings"
	"testing"
)

func TestCloudConf_EachMethod(t *testing.T) {
	s := start(t)
	c := s.Credentials()
	head := "[Global]\nauth-url = \"" + s.AuthURL() + "\"\nregion = \"RegionOne\"\n"
	for method, want := range map[string]string{
		"password": "username = \"demo-user\"\npassword = \"" + c.Password +
			"\"\ndomain-name = \"Default\"\ntenant-name = \"demo\"\n",
		"token": "token = \"" + c.Token + "\"\n",
		"trust": "trust-id = \"" + c.TrustID + "\"\nuser-id = \"" + c.TrusteeID +
			"\"\npassword = \"" + c.TrusteePassword + "\"\n",
		"application-credential": "application-credential-id = \"" + c.ApplicationCredentialID +
			"\"\napplication-credential-secret = \"" + c.ApplicationCredentialSecret + "\"\n",
	} {
		if got := c.CloudConf(method); got != head+want {
			t.Errorf("%s:\n%s, want\n%s", method, got, head+want)
		}
	}
}

func TestCloudConf_SpecialCharacters_AreQuoted(t *testing.T) {
	got := Credentials{
		Password:       "a#b;c\"d\\e",
		CertificatePEM: "line\nline\n",
	}.CloudConf("password")
	for _, want := range []string{
		`password = "a#b;c\"d\\e"` + "\n",
		`cafilecontents = "line\nline\n"` + "\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %s in\n%s", want, got)
		}
	}
}

func TestConfiguration_OfAnUnknownMethod_Panics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	Credentials{}.CloudConf("magic")
}
