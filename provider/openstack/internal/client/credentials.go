package client

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
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

// newCredentials chooses the credentials in the order of gophercloud and OCCM: password, token,
// application credential. A trust is used with a password. The error names the keys of cloud.conf.
func newCredentials(g cloudconf.Global) (credentials, error) {
	authURL, err := parseAuthURL(g.AuthURL)
	if err != nil {
		return credentials{}, err
	}
	c := credentials{authURL: authURL, secrets: secretsOf(g)}
	userID, password := g.UserID, g.Password
	if g.TrustID != "" && g.TrusteeID != "" {
		userID, password = g.TrusteeID, cmp.Or(g.TrusteePassword, g.Password)
	}
	switch {
	case password != "":
		c.options = user(userID, g)
		c.options.Password = string(password)
		c.options.Scope = scope(g)
		c.who = describeUser(c.options)
	case g.Token != "":
		c.options.TokenID = string(g.Token)
		c.options.Scope = scope(g)
		c.who = "the owner of the token"
	case g.ApplicationCredentialID != "":
		c.options.ApplicationCredentialID = g.ApplicationCredentialID
		c.options.ApplicationCredentialSecret = string(g.ApplicationCredentialSecret)
		c.who = fmt.Sprintf("application credential %q", g.ApplicationCredentialID)
	case g.ApplicationCredentialName != "":
		c.options = user(userID, g)
		c.options.ApplicationCredentialName = g.ApplicationCredentialName
		c.options.ApplicationCredentialSecret = string(g.ApplicationCredentialSecret)
		c.who = fmt.Sprintf("application credential %q of %s", g.ApplicationCredentialName,
			describeUser(c.options))
	default:
		return credentials{},
			errors.New("no credentials: set password, token, or application-credential-id " +
				"(or -name) and -secret")
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

func parseAuthURL(text string) (*url.URL, error) {
	if text == "" {
		return nil, errors.New("auth-url is not set")
	}
	// The error of url.Parse quotes the URL, which may contain a password.
	u, err := url.Parse(text)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, errors.New("auth-url is not a URL that begins with http:// or https://")
	}
	if isVersion2(u.Path) {
		return nil, errors.New("auth-url ends with v2.0: OpenStack Queens removed that version " +
			"of Keystone's API; set the URL that ends with v3")
	}
	return u, nil
}

func isVersion2(path string) bool {
	segments := split(path)
	return len(segments) > 0 && slices.Contains([]string{"v2", "v2.0"}, segments[len(segments)-1])
}

// user is the user by ID, or by name and domain.
func user(id string, g cloudconf.Global) tokens.AuthOptions {
	if id != "" {
		return tokens.AuthOptions{UserID: id}
	}
	domainID, domainName := domain(g.UserDomainID, g.UserDomainName, g)
	return tokens.AuthOptions{Username: g.Username, DomainID: domainID, DomainName: domainName}
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
		domainID, domainName := domain(g.TenantDomainID, g.TenantDomainName, g)
		return tokens.Scope{ProjectName: g.TenantName, DomainID: domainID, DomainName: domainName}
	}
	return tokens.Scope{}
}

// domain is the specific domain, or else the common one. Keystone accepts either an ID or a name:
// the ID wins because it cannot change.
func domain(id, name string, g cloudconf.Global) (string, string) {
	if id == "" && name == "" {
		id, name = g.DomainID, g.DomainName
	}
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
