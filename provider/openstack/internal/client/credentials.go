package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
)

// credentials are the parameters of a login.
type credentials struct {
	authURL *url.URL
	options tokens.AuthOptions
	// who describes the user and scope in messages.
	who string
	// secrets are removed from messages.
	secrets []string
}

// newCredentials reads the credentials of a valid configuration.
func newCredentials(g cloudconf.Global) (credentials, error) {
	authURL, err := url.Parse(g.AuthURL)
	if err != nil {
		// The error quotes the URL, which may contain a password.
		return credentials{}, errors.New("auth-url is not a URL")
	}
	c := credentials{authURL: authURL, secrets: secretsOf(g)}
	switch _, _, password := g.User(); g.Login() {
	case "trust", "password":
		c.options = user(g)
		c.options.Password = string(password)
		c.options.Scope = scope(g)
		c.who = describeUser(c.options)
	case "token":
		c.options.TokenID = string(g.Token)
		c.options.Scope = scope(g)
		c.who = "the owner of the token"
	case "application credential":
		c.options.ApplicationCredentialID = g.ApplicationCredentialID
		c.who = fmt.Sprintf("application credential %q", g.ApplicationCredentialID)
		if g.ApplicationCredentialID == "" {
			c.options = user(g)
			c.options.ApplicationCredentialName = g.ApplicationCredentialName
			c.who = fmt.Sprintf("application credential %q of %s", g.ApplicationCredentialName,
				describeUser(c.options))
		}
		c.options.ApplicationCredentialSecret = string(g.ApplicationCredentialSecret)
	}
	return c, c.check()
}

// check lets gophercloud build the request, which reports missing values.
func (c credentials) check() error {
	options := c.options
	asked, err := options.ToTokenV3ScopeMap()
	if err == nil {
		_, err = options.ToTokenV3CreateMap(asked)
	}
	if err != nil {
		return fmt.Errorf("log in as %s: %w", c.who, err)
	}
	return nil
}

// user is the user by ID, or by name and domain.
func user(g cloudconf.Global) tokens.AuthOptions {
	id, name, _ := g.User()
	if id != "" {
		return tokens.AuthOptions{UserID: id}
	}
	domainID, domainName := idOrName(g.UserDomain())
	return tokens.AuthOptions{Username: name, DomainID: domainID, DomainName: domainName}
}

// scope is the trust, or else the project by ID, or by name and domain. Without either, Keystone
// uses the default project of the user.
func scope(g cloudconf.Global) tokens.Scope {
	switch {
	case g.TrustID != "":
		return tokens.Scope{TrustID: g.TrustID}
	case g.TenantID != "":
		return tokens.Scope{ProjectID: g.TenantID}
	case g.TenantName != "":
		domainID, domainName := idOrName(g.TenantDomain())
		return tokens.Scope{ProjectName: g.TenantName, DomainID: domainID, DomainName: domainName}
	}
	return tokens.Scope{}
}

// idOrName is one of them, because Keystone accepts only one. The ID wins because it cannot change.
func idOrName(id, name string) (string, string) {
	if id != "" {
		return id, ""
	}
	return "", name
}

func describeUser(o tokens.AuthOptions) string {
	if o.UserID != "" {
		return fmt.Sprintf("user %q", o.UserID)
	}
	return fmt.Sprintf("user %q of domain %q", o.Username, o.DomainID+o.DomainName)
}

func secretsOf(g cloudconf.Global) []string {
	var all []string
	for _, secret := range []cloudconf.Secret{
		g.Password, g.TrusteePassword,
		g.ApplicationCredentialSecret, g.Token,
	} {
		if secret == "" {
			continue
		}
		all = append(all, string(secret))
		// In JSON form, in case Keystone or a proxy quotes the request.
		if quoted, err := json.Marshal(string(secret)); err == nil {
			all = append(all, string(quoted[1:len(quoted)-1]))
		}
	}
	return all
}

// scrub removes the secrets from a text of another program.
func (c credentials) scrub(text string) string {
	for _, secret := range c.secrets {
		text = strings.ReplaceAll(text, secret, "[redacted]")
	}
	return text
}
