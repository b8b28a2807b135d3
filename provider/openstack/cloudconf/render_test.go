package cloudconf

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestRender_IsParsedToTheSameConfig(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join("testdata", "full.conf"))
	if err != nil {
		t.Fatal(err)
	}
	full, _, err := Parse(content, Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	odd := Default()
	odd.Global.Username = " \"a\\b\"\n\tü#;= "
	odd.LoadBalancer.LBProvider = ""
	odd.LoadBalancer.Enabled = false
	odd.Networking.PublicNetworkNames = []string{"", "a,b", " "}
	odd.LoadBalancerClasses = map[string]LoadBalancerClass{
		"": {}, `a\"b`: {SubnetID: "x"},
		"tab\tand\rreturn": {},
	}
	regions, _, err := Parse([]byte(twoRegions), Options{Strict: true})
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Config{
		"full": full, "defaults": Default(), "odd": odd, "regions": regions,
	} {
		text, err := RenderWithSecrets(want)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := Parse([]byte(text), Options{})
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: the text\n%s\nwas read as %+v (%v), want %+v", name, text, got, err, want)
		}
	}
}

func TestRender_WritesOnlyDifferencesFromTheDefaults(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Global = Global{AuthURL: "https://keystone", Username: "a b", Password: "hunter2"}
	c.LoadBalancer.InternalLB = true
	c.LoadBalancerClasses = map[string]LoadBalancerClass{"a": {}}
	got, err := Render(c)
	want := `[Global]
auth-url = https://keystone
username = "a b"
# password is omitted

[LoadBalancer]
internal-lb = true

[LoadBalancerClass "a"]
`
	if err != nil || got != want {
		t.Errorf("the text is\n%s\nwant\n%s(%v)", got, want, err)
	}
}

func TestRender_SecretsOnlyOnRequest(t *testing.T) {
	t.Parallel()
	c := Default()
	c.Global.Password, c.Global.TrusteePassword = "s3cr3t", "s3cr3t"
	c.Global.ApplicationCredentialSecret, c.Global.Token = "s3cr3t", "s3cr3t"
	if got, err := Render(c); err != nil || strings.Contains(got, "s3cr3t") ||
		strings.Count(got, "is omitted") != 4 {
		t.Errorf("the text is\n%s(%v)", got, err)
	}
	if got, err := RenderWithSecrets(c); err != nil || strings.Count(got, "s3cr3t") != 4 {
		t.Errorf("with secrets, the text is\n%s(%v)", got, err)
	}
}

func TestRender_InexpressibleValue_IsAnError(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"a\rb", "a\x00b", "\xff"} {
		c := Default()
		c.Global.Password = Secret(value)
		if got, err := RenderWithSecrets(c); err == nil || strings.Contains(err.Error(), value) {
			t.Errorf("%q was written as %q (%v)", value, got, err)
		}
	}
	for _, name := range []string{"a\nb", "\x00", "\xff"} {
		c := Default()
		c.LoadBalancerClasses = map[string]LoadBalancerClass{name: {}}
		if got, err := Render(c); err == nil {
			t.Errorf("a class named %q was written as %q", name, got)
		}
	}
}
