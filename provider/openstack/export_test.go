package openstack

import (
	"k8s.io/utils/clock"

	"github.com/fxccm/fxccm/provider/openstack/internal/client"
)

// NewSharedAt is NewShared with a clock.
func NewSharedAt(c SharedConfig, clk clock.Clock) *Shared {
	s := NewShared(c)
	o := s.config.options()
	o.Clock = clk
	s.clients = client.NewShared(o)
	return s
}
