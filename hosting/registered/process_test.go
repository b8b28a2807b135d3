package registered_test

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/hosting/process"
)

// The test binary of package process calls process.Main, and this one does not.
func TestNew_ProviderInAChildOfAProgramWithoutMain_IsRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		options process.Options
		want    string
	}{
		"a child of the same program": {
			process.Options{Name: "acme"}, "call process.Main first in main",
		},
		"another program": {process.Options{Name: "acme", Path: "/bin/acme"}, ""},
	} {
		_, err := ccm.New(ccm.Params{
			Config:     ccm.DefaultConfig(),
			Providers:  []ccm.Provider{process.Provider(c.options)},
			RESTConfig: &rest.Config{Host: "https://127.0.0.1:6443"},
		})
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %q", name, err, c.want)
		}
	}
}
