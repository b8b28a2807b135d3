package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"path/filepath"
)

func (c *ControlPlane) etcdURL() string { return "https://" + c.etcdPort.Address() }

func (c *ControlPlane) etcdArgs() []string {
	return []string{
		"--name=default",
		"--data-dir=" + filepath.Join(c.dir, "etcd"),
		"--listen-client-urls=" + c.etcdURL(),
		"--advertise-client-urls=" + c.etcdURL(),
		"--client-cert-auth",
		"--trusted-ca-file=" + c.files.etcdCA,
		"--cert-file=" + c.files.etcd.cert,
		"--key-file=" + c.files.etcd.key,
		// A member without peers never dials this address, so any port will do.
		"--listen-peer-urls=https://127.0.0.1:0",
		"--peer-client-cert-auth",
		"--peer-trusted-ca-file=" + c.files.etcdCA,
		"--peer-cert-file=" + c.files.etcd.cert,
		"--peer-key-file=" + c.files.etcd.key,
		// The data must survive the process (StopEtcd, StartEtcd), but not the machine.
		"--unsafe-no-fsync",
		// Without this, the only member waits a second before it elects itself.
		"--heartbeat-interval=20",
		"--election-timeout=200",
	}
}

// etcdCheck returns a check whether etcd serves. A TLS handshake is enough: kube-apiserver is ready
// only with a healthy etcd.
func (c *ControlPlane) etcdCheck() (func(context.Context) error, error) {
	pair, err := c.pki.etcd.Issue("health")
	if err != nil {
		return nil, fmt.Errorf("make a client certificate for etcd: %w", err)
	}
	cert, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, fmt.Errorf("make a client certificate for etcd: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.pki.etcd.Certificate)
	dialer := &tls.Dialer{Config: &tls.Config{
		RootCAs: roots, Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12,
	}}
	return func(ctx context.Context) error {
		conn, err := dialer.DialContext(ctx, "tcp", c.etcdPort.Address())
		if err != nil {
			return err
		}
		return conn.Close()
	}, nil
}
