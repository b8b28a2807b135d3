package controlplane

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
)

func (c *ControlPlane) etcdURL() string { return "https://" + loopback(c.etcdPort) }

func (c *ControlPlane) etcdArgs() []string {
	return []string{
		"--name=default",
		"--data-dir=" + filepath.Join(c.dir.path, "etcd"),
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
		// The data need to outlive the process (StopEtcd, StartEtcd), but not the machine.
		"--unsafe-no-fsync",
		// The only member need not wait a second to elect itself.
		"--heartbeat-interval=20",
		"--election-timeout=200",
	}
}

// etcdHealth asks etcd whether it has a leader and serves.
type etcdHealth struct {
	url       string
	client    *http.Client
	transport *http.Transport
}

func (c *ControlPlane) newEtcdHealth() (*etcdHealth, error) {
	pair, err := c.pki.etcd.issue(pkix.Name{CommonName: "health"}, false)
	if err != nil {
		return nil, fmt.Errorf("make a certificate to ask etcd with: %w", err)
	}
	cert, err := tls.X509KeyPair(pair.cert, pair.key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate to ask etcd with: %w", err)
	}
	roots := x509.NewCertPool()
	roots.AddCert(c.pki.etcd.cert)
	transport := &http.Transport{TLSClientConfig: &tls.Config{
		RootCAs:      roots,
		Certificates: []tls.Certificate{cert},
		MinVersion:   tls.VersionTLS12,
	}}
	return &etcdHealth{
		url:       c.etcdURL() + "/health",
		transport: transport,
		client:    &http.Client{Transport: transport},
	}, nil
}

func (h *etcdHealth) check(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.url, nil)
	if err != nil {
		return err
	}
	resp, err := h.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1024))
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s: %s", h.url, resp.Status, body)
	}
	return nil
}

func (h *etcdHealth) close() { h.transport.CloseIdleConnections() }
