package thirdparty_test

import (
	"os"
	"strings"
	"testing"

	"github.com/fxccm/fxccm/ccm/ccmtest"
	"github.com/fxccm/fxccm/ccm/status"
	"github.com/fxccm/fxccm/hosting/registered"
	"github.com/fxccm/fxccm/test/thirdparty/awsstub"
)

// Upstream's InitCloudProvider ends the process for the first case. Commands that are built on it
// end it for all cases.
func TestConfigFile_WrongAndThenCorrected_IsTheReasonInStatusAndThenRead(t *testing.T) {
	cloud := newCloud(t)
	signWith(t, "KEY")
	for name, wrong := range map[string]struct {
		content string // no file if empty
		want    string
	}{
		"missing":                 {"", "no such file"},
		"another format":          {"password: " + secretKey + "\n", "unable to read AWS cloud provider config file"},
		"refused by the provider": {"[ServiceOverride \"1\"]\nService = EC2\nRegion = " + secretKey + "\n", "url is missing"},
		"incomplete":              {"[Global]\nRegion = us-east-1\n", "ec2 metadata service"},
	} {
		t.Run(name, func(t *testing.T) {
			config, path := configure(t, wrong.content)
			if wrong.content == "" {
				if err := os.Remove(path); err != nil {
					t.Fatal(err)
				}
			}
			c := ccmtest.StartManager(t, shared.ControlPlane, nil, config,
				ccmtest.WithProvider(registered.Provider("aws")))
			reason := ccmtest.Eventually(t, "the Manager is degraded",
				ccmtest.State(c.Manager, status.Degraded)).Reason
			for _, want := range []string{`"aws"`, path, wrong.want} {
				if !strings.Contains(reason, want) {
					t.Errorf("the reason is %q, want one with %q", reason, want)
				}
			}
			if strings.Contains(reason, secretKey) {
				t.Errorf("the reason quotes the file: %q", reason)
			}

			writeFile(t, path, cloud.Config(awsstub.ClusterID))
			c.WaitReady()
		})
	}
}

func TestProvider_ThatIsNotRegistered_IsTheReasonInStatus(t *testing.T) {
	config, _ := configure(t, "")
	c := ccmtest.StartManager(t, shared.ControlPlane, nil, config,
		ccmtest.WithProvider(registered.Provider("hcloud")))
	reason := ccmtest.Eventually(t, "the Manager is degraded",
		ccmtest.State(c.Manager, status.Degraded)).Reason
	if !strings.Contains(reason, `"hcloud"`) ||
		!strings.Contains(reason, "import the package that registers it") {
		t.Errorf("the reason is %q, want the name of the provider and what to do",
			reason)
	}
}
