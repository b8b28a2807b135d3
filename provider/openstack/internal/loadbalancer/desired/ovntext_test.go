package desired

import (
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/events"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/octavia"
	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
)

func TestBuild_ProviderOVNIgnoresASetting_TextNamesProviderAndSetting(t *testing.T) {
	t.Parallel()
	_, notices := build(t, withFeatures(ovn()), withSettings(func(s *settings.Settings) {
		s.Algorithm = "LEAST_CONNECTIONS"
	}))
	const want = "option lb-method of cloud.conf LEAST_CONNECTIONS is ignored: the provider ovn " +
		"supports only SOURCE_IP_PORT; remove it, or set lb-provider to another provider"
	if len(notices) != 1 || notices[0].Reason != events.AlgorithmIgnored ||
		notices[0].Message != want {
		t.Errorf("the notices are %+v, want %q", notices, want)
	}
}

func TestBuild_ProviderOVNAndPROXYByAnnotation_RefusalNamesTheAnnotation(t *testing.T) {
	t.Parallel()
	err := refused(t, withFeatures(ovn()), annotated("proxy-protocol", "v2"),
		withSettings(func(s *settings.Settings) { s.ProxyProtocol = octavia.ProxyV2 }))
	const want = "port 80/TCP: the provider ovn does not support the PROXYV2 protocol " +
		"(annotation loadbalancer.openstack.org/proxy-protocol); remove it, or set lb-provider " +
		"to another provider"
	if err.Error() != want {
		t.Errorf("the refusal is %q, want %q", err, want)
	}
}
