package ccmtest

import (
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"os"
	"strings"
	"testing"

	utilrand "k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/ccm/ccmtest/controlplane"
)

// A Cluster is an API server for tests, such as a [*controlplane.ControlPlane]. [ClusterAt] makes
// one of any other API server.
type Cluster interface {
	// RESTConfig is the client configuration of an administrator.
	RESTConfig() *rest.Config
}

var _ Cluster = (*controlplane.ControlPlane)(nil)

// userMaker is a [Cluster] that can create a user for the CCM.
type userMaker interface {
	UserConfig(user string, groups ...string) (*rest.Config, error)
}

// ClusterAt is the API server that cfg leads to, with an administrator's rights: one that envtest
// has started, a kind cluster, …
func ClusterAt(cfg *rest.Config) Cluster { return clusterAt{cfg} }

type clusterAt struct{ cfg *rest.Config }

func (c clusterAt) RESTConfig() *rest.Config { return rest.CopyConfig(c.cfg) }

// masters is the group of administrators in every cluster.
const masters = "system:masters"

// identityOf names a CCM after its test, so that logs, leases and records show it.
func identityOf(t testing.TB) string {
	return strings.NewReplacer("/", "-", " ", "_").Replace(t.Name()) + "-" + utilrand.String(5)
}

// administrator is the default identity of a CCM.
func administrator(cluster Cluster, name string) (*rest.Config, error) {
	if maker, ok := cluster.(userMaker); ok {
		cfg, err := maker.UserConfig(name, masters)
		if err != nil {
			return nil, fmt.Errorf("make the user %s for the CCM: %w", name, err)
		}
		return cfg, nil
	}
	return cluster.RESTConfig(), nil
}

// userOf is the user name of a client certificate. It is "" if cfg has no client certificate: only
// the API server knows the name then.
func userOf(cfg *rest.Config) (string, error) {
	data := cfg.CertData
	if len(data) == 0 && cfg.CertFile != "" {
		var err error
		if data, err = os.ReadFile(cfg.CertFile); err != nil {
			return "", fmt.Errorf("read the client certificate: %w", err)
		}
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return "", nil
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", fmt.Errorf("read the client certificate: %w", err)
	}
	return cert.Subject.CommonName, nil
}
