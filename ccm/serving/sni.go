package serving

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"slices"
	"strings"

	cliflag "k8s.io/component-base/cli/flag"
)

// certificates chooses what a client is shown.
type certificates struct {
	main func() *tls.Certificate
	sni  []namedCertificate
}

// namedCertificate is one --tls-sni-cert-key.
type namedCertificate struct {
	pair  *reloaded[*tls.Certificate]
	names []string
}

// forClient is a tls.Config's GetCertificate. An exact name wins over a wildcard, a name given with the flag over one that stands in a
// certificate, an earlier flag over a later one; as k8s.io/apiserver. A client that names nobody is known by the address it has called.
func (c *certificates) forClient(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	names := []string{strings.TrimSuffix(hello.ServerName, ".")}
	if names[0] == "" {
		names[0] = localIP(hello.Conn)
	} else if _, domain, ok := strings.Cut(names[0], "."); ok {
		names = append(names, "*."+domain)
	} else {
		names = append(names, "*")
	}
	for _, name := range names {
		for _, byName := range []func(namedCertificate) []string{namedCertificate.given, namedCertificate.own} {
			for _, candidate := range c.sni {
				if slices.ContainsFunc(byName(candidate), func(n string) bool { return strings.EqualFold(n, name) }) {
					return candidate.pair.get(), nil
				}
			}
		}
	}
	return c.main(), nil
}

func (n namedCertificate) given() []string { return n.names }

// own are the names in the certificate, if none were given. IP addresses in it do not count: a certificate that happens to hold one
// must not take the place of the main one.
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
