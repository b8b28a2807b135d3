package cloudconf_test

import (
	"errors"
	"fmt"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// A mistake is an error with its line, or a warning, and no error has a value of the file.
func ExampleRead() {
	const text = `[Global]
auth-url = https://identity.example.com/v3
application-credential-id = 0a1b2c3d4e5f60718293a4b5c6d7e8f9
application-credential-secret = secret
region = RegionOne
[LoadBalancer]
max-shared-lbs = 3
`
	loaded, err := cloudconf.Read([]byte(text), cloudconf.Options{Path: "cloud.conf"})
	fmt.Println(loaded.Config.Global.Region, loaded.Config.Global.ApplicationCredentialSecret, err)
	for _, warning := range loaded.Warnings {
		fmt.Println(warning)
	}

	_, err = cloudconf.Read([]byte(text), cloudconf.Options{Path: "cloud.conf", Strict: true})
	var problems cloudconf.Problems
	if errors.As(err, &problems) {
		fmt.Println("refused, line", problems[0].Line)
	}
	// Output:
	// RegionOne [redacted] <nil>
	// unknown key "max-shared-lbs" in [LoadBalancer] (cloud.conf line 7): did you mean "max-shared-lb"?
	// refused, line 7
}

// A host fills in a Config, and validates it before it uses it.
func ExampleValidate() {
	cfg := cloudconf.Default()
	cfg.Global.AuthURL = "https://identity.example.com/v3"
	cfg.Global.Region = "RegionOne"
	cfg.Global.Username, cfg.Global.Password, cfg.Global.DomainName = "fxccm", "secret", "Default"
	cfg.LoadBalancer.MonitorMaxRetries = 11
	_, err := cloudconf.Validate(cfg, true)
	fmt.Println(err)
	// Output:
	// monitor-max-retries in [LoadBalancer]: must be from 1 to 10
}
