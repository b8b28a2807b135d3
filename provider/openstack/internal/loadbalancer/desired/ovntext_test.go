package desired

import (
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func TestBuild_ProviderOVNIgnoresASetting_TextNamesProviderAndSetting(t *testing.T) {
	_, notices := build(t, withFeatures(ovn()), withSettings(func(s *settings.Settings) {
		s.Algorithm = "LEAST_CONNECTIONS"
	}))
	const want = "option lb-method of cloud.conf LEAST_CONNECTIONS is ignored: the provider ovn " +
		"supports only SOURCE_IP_PORT"
	if len(notices) != 1 || notices[0].Reason != events.AlgorithmIgnored ||
		notices[0].Message != want {
		t.Errorf("the notices are %+v, want %q", notices, want)
	}
}
