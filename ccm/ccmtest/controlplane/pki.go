package controlplane

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"k8s.io/client-go/util/keyutil"

	"github.com/fxccm/fxccm/internal/authority"
)

// pki holds the three authorities of one control plane. They differ, as in a real cluster, because
// a client certificate of the cluster must neither open etcd nor pass for the front proxy, which
// may claim any identity.
type pki struct{ cluster, etcd, frontProxy *authority.Authority }

// pkiFiles are the PEM files of etcd and kube-apiserver.
type pkiFiles struct {
	clusterCA, etcdCA, frontProxyCA string
	apiserver, apiserverEtcdClient  keyPairFiles
	etcd                            keyPairFiles
	serviceAccountKey               string
}

type keyPairFiles struct{ cert, key string }

func newPKI() (*pki, error) {
	var p pki
	for name, ca := range map[string]**authority.Authority{
		"cluster": &p.cluster, "etcd": &p.etcd, "front-proxy": &p.frontProxy,
	} {
		created, err := authority.New(name + "-ca")
		if err != nil {
			return nil, fmt.Errorf("make the %s authority: %w", name, err)
		}
		*ca = created
	}
	return &p, nil
}

// onLoopback makes the certificate valid for a server on the loopback interface. It is valid for a
// client, too, because etcd's peers need both.
func onLoopback(c *x509.Certificate) {
	c.ExtKeyUsage = append(c.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	c.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}
	c.DNSNames = []string{"localhost", "kubernetes.default.svc"}
}

// write issues the certificates of the processes and writes them to dir.
func (p *pki) write(dir string) (pkiFiles, error) {
	w := &pemWriter{dir: dir}
	files := pkiFiles{
		clusterCA:    w.write("cluster-ca.crt", p.cluster.PEM, nil),
		etcdCA:       w.write("etcd-ca.crt", p.etcd.PEM, nil),
		frontProxyCA: w.write("front-proxy-ca.crt", p.frontProxy.PEM, nil),
		apiserver:    w.writePair("kube-apiserver", p.cluster, onLoopback),
		etcd:         w.writePair("etcd", p.etcd, onLoopback),
		apiserverEtcdClient: w.writePair("kube-apiserver-etcd-client", p.etcd,
			func(*x509.Certificate) {}),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return pkiFiles{}, err
	}
	keyPEM, err := keyutil.MarshalPrivateKeyToPEM(key)
	files.serviceAccountKey = w.write("service-account.key", keyPEM, err)
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
	name string, ca *authority.Authority, change func(*x509.Certificate),
) keyPairFiles {
	pair, err := ca.Issue(name, change)
	return keyPairFiles{
		cert: w.write(name+".crt", pair.Certificate, err),
		key:  w.write(name+".key", pair.Key, err),
	}
}
