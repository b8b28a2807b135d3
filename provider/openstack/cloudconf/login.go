package cloudconf

import (
	"cmp"
	"fmt"
	"strings"
)

// These are the ways to log in.
const (
	loginNone                  = ""
	loginToken                 = "token"
	loginPassword              = "password"
	loginApplicationCredential = "application credential"
	loginTrust                 = "trust"
)

// Login returns the way to log in that the credentials select: "trust", "password", "token",
// "application credential", or "" without credentials. If there are several, which [Validate]
// reports, it selects as OCCM does, in this order.
func (g Global) Login() string {
	_, _, password := g.User()
	switch {
	case g.TrustID != "":
		return loginTrust
	case password != "":
		return loginPassword
	case g.Token != "":
		return loginToken
	case g.ApplicationCredentialID != "" || g.ApplicationCredentialName != "":
		return loginApplicationCredential
	}
	return loginNone
}

// User is the user that logs in: by ID or, if that is empty, by name in [Global.UserDomain]. With a
// trust it is the trustee.
func (g Global) User() (id, name string, password Secret) {
	if g.TrustID == "" {
		return g.UserID, g.Username, g.Password
	}
	return cmp.Or(g.TrusteeID, g.UserID), g.Username, cmp.Or(g.TrusteePassword, g.Password)
}

// UserDomain is the domain of the user's name: by ID or, if that is empty, by name.
func (g Global) UserDomain() (id, name string) {
	return domainOr(g.UserDomainID, g.UserDomainName, g.DomainID, g.DomainName)
}

// TenantDomain is the domain of the project's name: by ID or, if that is empty, by name.
func (g Global) TenantDomain() (id, name string) {
	return domainOr(g.TenantDomainID, g.TenantDomainName, g.DomainID, g.DomainName)
}

func domainOr(id, name, commonID, commonName string) (string, string) {
	if id != "" || name != "" {
		return id, name
	}
	return commonID, commonName
}

// loginProblems reports missing and contradictory credentials.
func (g Global) loginProblems(region string) []Problem {
	p := problemsOf{section: header("Global", region)}
	if g.AuthURL == "" {
		p.add(asError, "auth-url", "is missing; set it to the URL of Keystone")
	}
	switch g.Login() {
	case loginNone:
		if g.ApplicationCredentialSecret != "" {
			p.add(asError, "application-credential-id",
				"is missing, but application-credential-secret is set")
		} else {
			p.add(asError, "",
				"has no credentials: set a password, an application credential or a token")
		}
	case loginToken:
		p.add(asWarning, "token",
			"cannot be renewed: when it expires, all requests fail until a new one is set")
		g.project(&p)
	case loginPassword:
		g.user(&p, "the password")
		g.project(&p)
	case loginTrust:
		if _, _, password := g.User(); password == "" {
			p.add(asError, "trust-id", "needs the trustee and the trustee's password")
		} else {
			g.user(&p, "the trust")
		}
	case loginApplicationCredential:
		g.applicationCredential(&p)
	}
	g.several(&p)
	g.pairs(&p)
	return p.problems
}

type problemsOf struct {
	section  string
	problems []Problem
}

func (p *problemsOf) add(severity severity, key, text string) {
	p.problems = append(p.problems, Problem{
		severity: severity, Section: p.section,
		Key: key, Text: text,
	})
}

func (g Global) user(p *problemsOf, what string) {
	id, name, _ := g.User()
	domainID, domainName := g.UserDomain()
	switch {
	case id == "" && name == "":
		p.add(asError, "user-id", "is missing, and username too: "+what+" needs one of them")
	case id == "" && domainID == "" && domainName == "":
		p.add(asError, "username",
			"needs a domain: user-domain-id, user-domain-name, domain-id or domain-name")
	}
}

func (g Global) project(p *problemsOf) {
	domainID, domainName := g.TenantDomain()
	switch {
	case g.TenantID == "" && g.TenantName == "" && g.Login() == loginPassword:
		p.add(asWarning, "tenant-id",
			"is missing, and tenant-name too: Keystone uses the default project of the user, if "+
				"there is one")
	case g.TenantID == "" && g.TenantName != "" && domainID == "" && domainName == "":
		p.add(asError, "tenant-name",
			"needs a domain: tenant-domain-id, tenant-domain-name, domain-id or domain-name")
	}
}

func (g Global) applicationCredential(p *problemsOf) {
	if g.ApplicationCredentialSecret == "" {
		p.add(asError, "application-credential-secret", "is missing")
	}
	if g.ApplicationCredentialID == "" {
		g.user(p, "the name of an application credential")
	}
}

// several reports credentials of more than one kind, because it is not obvious which of them are
// used.
func (g Global) several(p *problemsOf) {
	var ways []string
	for _, way := range []struct {
		login string
		given bool
	}{
		{loginToken, g.Token != ""},
		{loginPassword, g.Password != "" || g.TrusteePassword != ""},
		{loginApplicationCredential, g.ApplicationCredentialID != "" ||
			g.ApplicationCredentialName != "" || g.ApplicationCredentialSecret != ""},
	} {
		if way.given {
			ways = append(ways, way.login)
		}
	}
	if len(ways) > 1 {
		p.add(asMistake, "", fmt.Sprintf("has several kinds of credentials (%s); fxccm uses the %s",
			strings.Join(ways, ", "), g.Login()))
	}
	if g.TrustID == "" && (g.TrusteeID != "" || g.TrusteePassword != "") {
		p.add(asMistake, "trust-id",
			"is missing, so trustee-id and trustee-password have no effect")
	}
	if g.Login() == loginApplicationCredential && (g.TenantID != "" || g.TenantName != "") {
		p.add(asWarning, "",
			"has a project that has no effect, because an application credential belongs to one")
	}
}

// pairs reports an ID and a name of the same object. Generated files often have both, but they may
// differ, and the name is ignored.
func (g Global) pairs(p *problemsOf) {
	for _, pair := range []struct{ id, name, idKey, nameKey string }{
		{g.UserID, g.Username, "user-id", "username"},
		{g.UserDomainID, g.UserDomainName, "user-domain-id", "user-domain-name"},
		{g.TenantDomainID, g.TenantDomainName, "tenant-domain-id", "tenant-domain-name"},
		{g.DomainID, g.DomainName, "domain-id", "domain-name"},
		{
			g.ApplicationCredentialID, g.ApplicationCredentialName, "application-credential-id",
			"application-credential-name",
		},
	} {
		if pair.id != "" && pair.name != "" {
			p.add(asWarning, pair.nameKey, "has no effect because "+pair.idKey+" is set")
		}
	}
}
