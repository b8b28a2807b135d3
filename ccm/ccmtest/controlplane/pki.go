package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// pki holds the authorities of one control plane. They are three, as in a real cluster: a client
// certificate of the cluster must not open etcd, and must not pass for the front proxy, which may
// claim any identity.
type pki struct {
	cluster, etcd, frontProxy *authority
}

// pkiFiles are the PEM files that etcd and kube-apiserver are started with.
type pkiFiles struct {
	clusterCA, etcdCA, frontProxyCA string
	apiserver, apiserverEtcdClient  keyPairFiles
	etcd                            keyPairFiles
	serviceAccountKey               string
}

type keyPairFiles struct{ cert, key string }

// authority is a certificate authority.
type authority struct {
	cert    *x509.Certificate
	key     *ecdsa.PrivateKey
	certPEM []byte
}

// keyPair is a certificate with its key, both PEM.
type keyPair struct{ cert, key []byte }

// lifetime of all certificates: longer than any test or demo, and not for ever.
const lifetime = 90 * 24 * time.Hour

func newPKI() (*pki, error) {
	var p pki
	for name, ca := range map[string]**authority{
		"cluster": &p.cluster, "etcd": &p.etcd,
		"front-proxy": &p.frontProxy,
	} {
		made, err := newAuthority(name + "-ca")
		if err != nil {
			return nil, fmt.Errorf("make the %s authority: %w", name, err)
		}
		*ca = made
	}
	return &p, nil
}

func newAuthority(name string) (*authority, error) {
	template, err := newTemplate(pkix.Name{CommonName: name})
	if err != nil {
		return nil, err
	}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &authority{cert: cert, key: key, certPEM: encodePEM("CERTIFICATE", der)}, nil
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, err
	}
	now := time.Now()
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      subject,
		NotBefore:    now.Add(-time.Hour), // a clock that is stepped back while the tests run
		NotAfter:     now.Add(lifetime),
	}, nil
}

// issue signs a certificate for a server on the loopback interface, or for a client; a server's
// serves as a client's, too, because etcd's peers need both.
func (a *authority) issue(subject pkix.Name, server bool) (keyPair, error) {
	template, err := newTemplate(subject)
	if err != nil {
		return keyPair{}, err
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
	if server {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
		template.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
		template.DNSNames = []string{"localhost", "kubernetes.default.svc"}
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return keyPair{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{cert: encodePEM("CERTIFICATE", der), key: keyPEM}, nil
}

// write issues what the processes need and writes it to dir.
func (p *pki) write(dir string) (pkiFiles, error) {
	w := &pemWriter{dir: dir}
	files := pkiFiles{
		clusterCA:    w.write("cluster-ca.crt", p.cluster.certPEM, nil),
		etcdCA:       w.write("etcd-ca.crt", p.etcd.certPEM, nil),
		frontProxyCA: w.write("front-proxy-ca.crt", p.frontProxy.certPEM, nil),
		apiserver: w.writePair("apiserver", p.cluster, pkix.Name{CommonName: "kube-apiserver"},
			true),
		etcd: w.writePair("etcd", p.etcd, pkix.Name{CommonName: "etcd"}, true),
		apiserverEtcdClient: w.writePair("apiserver-etcd-client", p.etcd,
			pkix.Name{CommonName: "kube-apiserver-etcd-client"}, false),
		serviceAccountKey: w.writeNewKey("service-account.key"),
	}
	if w.err != nil {
		return pkiFiles{}, fmt.Errorf("write the certificates of the control plane: %w", w.err)
	}
	return files, nil
}

// pemWriter writes files until the first error, which it keeps.
type pemWriter struct {
	dir string
	err error
}

func (w *pemWriter) write(name string, data []byte, err error) string {
	path := filepath.Join(w.dir, name)
	if w.err == nil {
		w.err = err
	}
	if w.err == nil {
		w.err = os.WriteFile(path, data, 0o600)
	}
	return path
}

func (w *pemWriter) writePair(
	name string, ca *authority, subject pkix.Name, server bool,
) keyPairFiles {
	pair, err := ca.issue(subject, server)
	return keyPairFiles{
		cert: w.write(name+".crt", pair.cert, err),
		key:  w.write(name+".key", pair.key, err),
	}
}

func (w *pemWriter) writeNewKey(name string) string {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return w.write(name, nil, err)
	}
	data, err := encodeKey(key)
	return w.write(name, data, err)
}

func encodeKey(key *ecdsa.PrivateKey) ([]byte, error) {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	return encodePEM("EC PRIVATE KEY", der), nil
}

func encodePEM(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}
