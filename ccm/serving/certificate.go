package serving

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
	certutil "k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"
)

// pairName names the files in Config.CertDirectory as upstream does.
const pairName = "cloud-controller-manager"

// selfSignedLifetime is long because no component replaces the certificate. Clients either skip
// verification or trust this certificate alone.
const selfSignedLifetime = 10 * 365 * 24 * time.Hour

func loadKeyPair(log logr.Logger, certFile, keyFile string) (*reloaded[*tls.Certificate], error) {
	return load(log, func(contents [][]byte) (*tls.Certificate, error) {
		pair, err := tls.X509KeyPair(contents[0], contents[1])
		return &pair, err
	}, certFile, keyFile)
}

// pairFiles are the files in a --cert-dir.
func pairFiles(dir string) (certFile, keyFile string) {
	return filepath.Join(dir, pairName+".crt"), filepath.Join(dir, pairName+".key")
}

// selfSigned creates a self-signed certificate for this host. Its key is ECDSA, which is fast to
// generate, unless the allowed cipher suites need RSA.
func selfSigned(bind net.IP, useRSA bool) (certPEM, keyPEM []byte, err error) {
	key, err := generateKey(useRSA)
	if err != nil {
		return nil, nil, err
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: fmt.Sprintf("%s@%d", pairName, now.Unix())},
		NotBefore:    now.Add(-time.Hour), // clocks may differ
		NotAfter:     now.Add(selfSignedLifetime),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageKeyEncipherment |
			x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		DNSNames:              []string{"localhost"},
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	if host, err := os.Hostname(); err == nil {
		template.DNSNames = append(template.DNSNames, host)
	}
	if bind != nil && !bind.IsUnspecified() && !bind.IsLoopback() {
		template.IPAddresses = append(template.IPAddresses, bind)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, nil, err
	}
	if keyPEM, err = keyutil.MarshalPrivateKeyToPEM(key); err != nil {
		return nil, nil, err
	}
	certPEM = pem.EncodeToMemory(&pem.Block{Type: certutil.CertificateBlockType, Bytes: der})
	return certPEM, keyPEM, nil
}

func generateKey(useRSA bool) (crypto.Signer, error) {
	if useRSA {
		return rsa.GenerateKey(rand.Reader, 2048)
	}
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

// caBundle is a set of certificate authorities.
type caBundle struct {
	certificates []*x509.Certificate
	pool         *x509.CertPool
}

func parseCAs(content []byte) (*caBundle, error) {
	certificates, err := certutil.ParseCertsPEM(content)
	if err != nil {
		return nil, errors.New("no PEM certificate found")
	}
	bundle := &caBundle{certificates: certificates, pool: x509.NewCertPool()}
	for _, c := range certificates {
		bundle.pool.AddCert(c)
	}
	return bundle, nil
}

func loadCAs(log logr.Logger, file string) (*reloaded[*caBundle], error) {
	parse := func(contents [][]byte) (*caBundle, error) { return parseCAs(contents[0]) }
	return load(log, parse, file)
}
