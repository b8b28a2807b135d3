package serving

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
)

// certificates selects the serving certificate of a connection.
type certificates struct {
	main func() *tls.Certificate
	sni  []namedCertificate
}

// namedCertificate is one --tls-sni-cert-key.
type namedCertificate struct {
	pair  *reloaded[*tls.Certificate]
	names []string
}

// forClient implements tls.Config.GetCertificate. As in k8s.io/apiserver, an exact name wins over a
// wildcard, a name in the flag over a name in a certificate, and an earlier flag over a later one.
// Without a server name, the address of the connection selects the certificate.
func (c *certificates) forClient(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	names := []string{strings.TrimSuffix(hello.ServerName, ".")}
	if names[0] == "" {
		names[0] = localIP(hello.Conn)
	} else if _, domain, ok := strings.Cut(names[0], "."); ok {
		names = append(names, "*."+domain)
	} else {
		names = append(names, "*")
	}
	sources := []func(namedCertificate) []string{namedCertificate.flagNames, namedCertificate.own}
	for _, name := range names {
		matches := func(n string) bool { return strings.EqualFold(n, name) }
		for _, namesOf := range sources {
			for _, candidate := range c.sni {
				if slices.ContainsFunc(namesOf(candidate), matches) {
					return candidate.pair.get(), nil
				}
			}
		}
	}
	return c.main(), nil
}

func (n namedCertificate) flagNames() []string { return n.names }

// own returns the names in the certificate, unless the flag has names. IP addresses do not count,
// because a certificate with an address must not replace the main certificate.
func (n namedCertificate) own() []string {
	if len(n.names) > 0 {
		return nil
	}
	leaf := n.pair.get().Leaf
	if leaf == nil {
		return nil
	}
	return append(commonName(leaf), leaf.DNSNames...)
}

func commonName(leaf *x509.Certificate) []string {
	if cn := leaf.Subject.CommonName; cn != "" && net.ParseIP(cn) == nil {
		return []string{cn}
	}
	return nil
}

func localIP(conn net.Conn) string {
	if conn == nil {
		return ""
	}
	host, _, err := net.SplitHostPort(conn.LocalAddr().String())
	if err != nil {
		return ""
	}
	return host
}

// parseNamedCertificate reads the syntax of --tls-sni-cert-key.
func parseNamedCertificate(text string) (cliflag.NamedCertKey, error) {
	var named cliflag.NamedCertKey
	err := named.Set(text)
	return named, err
}
