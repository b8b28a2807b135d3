package openstacktest

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/barbican"

type (
	// Secret is a secret of Barbican.
	Secret = barbican.Secret
	// Container is a set of secrets of Barbican, such as a certificate with its key.
	Container = barbican.Container
)

// AddSecret adds a secret and returns its reference, as used by Barbican and Octavia.
func (s *Cloud) AddSecret(secret Secret) (ref string) { return s.barbican.AddSecret(secret) }

// AddContainer adds a container and returns its reference, which default-tls-container-ref accepts.
func (s *Cloud) AddContainer(c Container) (ref string) { return s.barbican.AddContainer(c) }
