package controlplane

import (
	"crypto/x509"
	"fmt"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/internal/authority"
)

const (
	adminUser = "controlplane-admin"
	// adminGroup may do anything: authorization is not even asked for it.
	adminGroup = "system:masters"
)

// RESTConfig is the cluster's administrator, without restrictions by RBAC. Like all configurations
// of this package it is a copy of the caller's own, and has client-side throttling off (QPS -1):
// the server's priority and fairness governs.
func (c *ControlPlane) RESTConfig() *rest.Config { return c.config(c.admin) }

// UserConfig is an identity of the given name and groups, by a client certificate. It may do what
// RBAC allows the user, the groups and the group system:authenticated.
func (c *ControlPlane) UserConfig(user string, groups ...string) (*rest.Config, error) {
	pair, err := c.pki.issueUser(user, groups...)
	if err != nil {
		return nil, err
	}
	return c.config(pair), nil
}

// ServiceAccountConfig is the identity of a ServiceAccount: RBAC treats it as the account, with its
// groups. It is a client certificate in the account's name and no token, so the account need not
// exist, and nothing expires or has to be refreshed while a test runs.
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

// ServiceAccountUser is the user name of a ServiceAccount, as RBAC and the audit log know it.
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
