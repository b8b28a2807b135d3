package controlplane

import (
	"crypto/x509"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/authority"
)

const (
	adminUser = "controlplane-admin"
	// adminGroup may do everything: it bypasses authorization.
	adminGroup = "system:masters"
)

// RESTConfig is the cluster's administrator, without restrictions by RBAC. Like all configurations
// of this package, it is a new copy, without client-side throttling (QPS -1), because the server's
// priority and fairness throttles.
func (c *ControlPlane) RESTConfig() *rest.Config { return c.config(c.admin) }

// UserConfig is an identity of the given name and groups, with a client certificate. RBAC decides
// its rights by the user, the groups and the group system:authenticated.
func (c *ControlPlane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.pki.issueUser(user, groups...)
	if err != nil {
		return nil, err
	}
	return c.config(pair), nil
}

// ServiceAccountConfig is the identity of a ServiceAccount with its groups. It has a client
// certificate in the account's name instead of a token, so the account need not exist, and the
// identity does not expire during a test.
func (c *ControlPlane) ServiceAccountConfig(namespace, name string) (*rest.Config, error) {
	if namespace == "" || name == "" {
		return nil,
			fmt.Errorf(
				"make the identity of ServiceAccount %q in namespace %q: both have to be given",
				name, namespace)
	}
	return c.UserConfig(ServiceAccountUser(namespace, name),
		"system:serviceaccounts", "system:serviceaccounts:"+namespace)
}

// ServiceAccountUser is the user name of a ServiceAccount in RBAC and in the audit log.
func ServiceAccountUser(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

func (p *pki) issueUser(user string, groups ...string) (authority.Pair, error) {
	if user == "" {
		return authority.Pair{}, fmt.Errorf("make a client certificate: the user has no name")
	}
	pair, err := p.cluster.Issue(user,
		func(c *x509.Certificate) { c.Subject.Organization = groups })
	if err != nil {
		return pair, fmt.Errorf("make a client certificate for %s: %w", user, err)
	}
	return pair, nil
}

func (c *ControlPlane) config(pair authority.Pair) *rest.Config {
	return &rest.Config{
		Host: c.apiServerURL(),
		QPS:  -1,
		TLSClientConfig: rest.TLSClientConfig{
			CAData:   c.pki.cluster.PEM,
			CertData: pair.Certificate,
			KeyData:  pair.Key,
		},
	}
}
