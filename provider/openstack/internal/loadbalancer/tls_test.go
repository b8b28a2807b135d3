package loadbalancer

import (
	"slices"
	"testing"

	"github.com/fxccm/fxccm/provider/openstack/internal/loadbalancer/settings"
	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

func TestTLSVersions_OfAnExistingListener_AreWrittenOnceAndStay(t *testing.T) {
	t.Parallel()
	c, node := newCluster(t)
	s := c.site
	service := s.addService("web", 443)
	annotations("default-tls-container-ref", s.AddContainer(openstacktest.Container{}))(service)
	s.update(service)
	c.ensure(service, node)
	for _, step := range []struct {
		versions string
		want     []string
		writes   int
	}{
		{"TLSv1.3", []string{"TLSv1.3"}, 1},
		{"TLSv1.3", []string{"TLSv1.3"}, 0},
		{"TLSv1.3,TLSv1.2", []string{"TLSv1.2", "TLSv1.3"}, 1},
		{"TLSv1.2, TLSv1.3", []string{"TLSv1.2", "TLSv1.3"}, 0},
		{"", []string{"TLSv1.2", "TLSv1.3"}, 0},
	} {
		service = s.now(service)
		annotations("tls-versions", step.versions)(service)
		if step.versions == "" {
			delete(service.Annotations, settings.Prefix+"tls-versions")
		}
		s.update(service)
		mark := s.mark()
		c.ensure(service, node)
		if writes := s.writes(mark); len(writes) != step.writes {
			t.Errorf("%q writes %q, want %d writes", step.versions, writes, step.writes)
		}
		if got := s.LoadBalancers()[0].Listeners[0].TLSVersions; !slices.Equal(got, step.want) {
			t.Errorf("%q: the listener has %q, want %q", step.versions, got, step.want)
		}
	}
}
