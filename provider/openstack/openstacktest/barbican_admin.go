package openstacktest

import "maps"

// Secret is a secret of Barbican's. Its payload cannot be read again: that a secret has one is all that is shown.
type Secret struct {
	// ID is made if it is empty.
	ID   string
	Name string
	// ProjectID is the owner. Default: [DefaultProject].
	ProjectID string
	// Type is "opaque" by default.
	Type string
	// Payload is nil for none, and is of ContentType, text/plain by default.
	Payload     []byte
	ContentType string
}

// Container is a set of secrets of Barbican's, such as a certificate with its key.
type Container struct {
	// ID is made if it is empty.
	ID   string
	Name string
	// ProjectID is the owner. Default: [DefaultProject].
	ProjectID string
	// Type is certificate, rsa or generic. Default: certificate.
	Type string
	// Secrets are references by name: certificate, private_key, intermediates, private_key_passphrase.
	Secrets map[string]string
}

// AddSecret adds a secret and returns its reference, as Barbican and Octavia name it.
func (s *Cloud) AddSecret(secret Secret) (ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.secretRef(s.addSecret(secret))
}

// AddContainer adds a container and returns its reference: what default-tls-container-ref takes.
func (s *Cloud) AddContainer(c Container) (ref string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.containerRef(s.addContainer(c))
}

// addSecret is called with the lock held.
func (s *Cloud) addSecret(secret Secret) (id string) {
	if secret.ID == "" {
		secret.ID = s.newID()
	}
	setDefault(&secret.ProjectID, s.identity.projects[0].id)
	setDefault(&secret.Type, "opaque")
	setDefault(&secret.ContentType, "text/plain")
	s.keyManager.secrets = append(s.keyManager.secrets, &secretRow{secret, s.clock.Now()})
	return secret.ID
}

// addContainer is called with the lock held.
func (s *Cloud) addContainer(c Container) (id string) {
	if c.ID == "" {
		c.ID = s.newID()
	}
	setDefault(&c.ProjectID, s.identity.projects[0].id)
	setDefault(&c.Type, "certificate")
	c.Secrets = maps.Clone(c.Secrets)
	s.keyManager.containers = append(s.keyManager.containers, &containerRow{c, s.clock.Now()})
	return c.ID
}
