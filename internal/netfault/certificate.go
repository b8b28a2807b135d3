package netfault

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"

	"github.com/fxccm/fxccm/internal/authority"
)

// newCertificate creates a certificate authority and a server certificate that it signs, for the
// loopback address, or localhost.
func newCertificate(name string) (caPEM []byte, server tls.Certificate, err error) {
	ca, err := authority.New(name + " CA")
	if err != nil {
		return nil, server, fmt.Errorf("create the certificate authority of %s: %w", name, err)
	}
	pair, err := ca.Issue(name, func(c *x509.Certificate) {
		c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
		c.DNSNames = []string{"localhost", Host}
	})
	if err == nil {
		server, err = tls.X509KeyPair(pair.Certificate, pair.Key)
	}
	if err != nil {
		return nil, server, fmt.Errorf("create the certificate of %s: %w", name, err)
	}
	return ca.PEM, server, nil
}
