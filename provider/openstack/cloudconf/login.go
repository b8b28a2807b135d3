package cloudconf

import (
	"cmp"
	"fmt"
	"strings"
)

// A Login is a way to get a token of Keystone.
type Login string

// The ways there are.
const (
	LoginNone                  Login = ""
	LoginToken                 Login = "token"
	LoginPassword              Login = "password"
	LoginApplicationCredential Login = "application credential"
	LoginTrust                 Login = "trust"
)

// Login is the way that the credentials lead. If there are several, which [Validate] tells, it is the one that OCCM takes: a trust,
// then a token, then a password, then an application credential.
func (g Global) Login() Login {
	_, _, password := g.User()
	switch {
	case g.TrustID != "":
		return LoginTrust
	case g.Token != "":
		return LoginToken
	case password != "":
		return LoginPassword
	case g.ApplicationCredentialID != "" || g.ApplicationCredentialName != "":
		return LoginApplicationCredential
	}
	return LoginNone
}

// User is who logs in: by id or, if that is empty, by name in [Global.UserDomain]. With a trust it is the trustee.
func (g Global) User() (id, name string, password Secret) {
	if g.TrustID == "" {
		return g.UserID, g.Username, g.Password
	}
	return cmp.Or(g.TrusteeID, g.UserID), g.Username, cmp.Or(g.TrusteePassword, g.Password)
}

// UserDomain is the domain of the user's name: by id or, if that is empty, by name.
func (g Global) UserDomain() (id, name string) {
	return domainOr(g.UserDomainID, g.UserDomainName, g.DomainID, g.DomainName)
}

// TenantDomain is the domain of the project's name: by id or, if that is empty, by name.
func (g Global) TenantDomain() (id, name string) {
	return domainOr(g.TenantDomainID, g.TenantDomainName, g.DomainID, g.DomainName)
}

func domainOr(id, name, commonID, commonName string) (string, string) {
	if id != "" || name != "" {
		return id, name
	}
	return commonID, commonName
}

// loginProblems tells what is missing and what contradicts itself, as far as Keystone minds.
func (g Global) loginProblems() []Problem {
	p := problemsOf{section: header("Global", "")}
	if g.AuthURL == "" {
		p.add(Error, "auth-url", "is missing; it is Keystone's URL")
	}
	switch g.Login() {
	case LoginNone:
		if g.ApplicationCredentialSecret != "" {
			p.add(Error, "application-credential-id", "is missing; there is a secret")
		} else {
			p.add(Error, "", "has nothing to log in with: a password, an application credential or a token")
		}
	case LoginToken:
		p.add(Warning, "token", "cannot be renewed: when it expires, everything fails until there is a new one")
		g.project(&p)
	case LoginPassword:
		g.user(&p, "the password")
		g.project(&p)
	case LoginTrust:
		if _, _, password := g.User(); password == "" {
			p.add(Error, "trust-id", "needs the trustee and the trustee's password")
		} else {
			g.user(&p, "the trust")
		}
	case LoginApplicationCredential:
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

func (p *problemsOf) add(severity Severity, key, text string) {
	p.problems = append(p.problems, Problem{Severity: severity, Section: p.section, Key: key, Text: text})
}

func (g Global) user(p *problemsOf, what string) {
	id, name, _ := g.User()
	domainID, domainName := g.UserDomain()
	switch {
	case id == "" && name == "":
		p.add(Error, "user-id", "is missing, and so is username: "+what+" needs one of them")
	case id == "" && domainID == "" && domainName == "":
		p.add(Error, "username", "needs a domain: user-domain-id, user-domain-name, domain-id or domain-name")
	}
}

func (g Global) project(p *problemsOf) {
	domainID, domainName := g.TenantDomain()
	switch {
	case g.TenantID == "" && g.TenantName == "" && g.Login() == LoginPassword:
		p.add(Warning, "tenant-id", "is missing, and so is tenant-name: it will be the user's default project, if there is one")
	case g.TenantID == "" && g.TenantName != "" && domainID == "" && domainName == "":
		p.add(Error, "tenant-name", "needs a domain: tenant-domain-id, tenant-domain-name, domain-id or domain-name")
	}
}

func (g Global) applicationCredential(p *problemsOf) {
	if g.ApplicationCredentialSecret == "" {
		p.add(Error, "application-credential-secret", "is missing")
	}
	if g.ApplicationCredentialID == "" {
		g.user(p, "the name of an application credential")
	}
}

// several ways to log in are a mistake: it is not to be seen which one is used.
func (g Global) several(p *problemsOf) {
	var ways []string
	for _, way := range []struct {
		login Login
		given bool
	}{
		{LoginToken, g.Token != ""},
		{LoginPassword, g.Password != "" || g.TrusteePassword != ""},
		{LoginApplicationCredential, g.ApplicationCredentialID != "" || g.ApplicationCredentialName != "" || g.ApplicationCredentialSecret != ""},
	} {
		if way.given {
			ways = append(ways, string(way.login))
		}
	}
	if len(ways) > 1 {
		p.add(Mistake, "", fmt.Sprintf("has several ways to log in (%s); the %s is used", strings.Join(ways, ", "), g.Login()))
	}
	if g.TrustID == "" && (g.TrusteeID != "" || g.TrusteePassword != "") {
		p.add(Mistake, "trust-id", "is missing; without it, trustee-id and trustee-password have no effect")
	}
	if g.Login() == LoginApplicationCredential && (g.TenantID != "" || g.TenantName != "") {
		p.add(Warning, "", "has a project that has no effect: an application credential knows its own")
	}
}

// pairs are an id and a name of the same thing. That both are given is common where a file was made by a program, but they may
// differ, and the name is not looked at.
func (g Global) pairs(p *problemsOf) {
	for _, pair := range []struct{ id, name, idKey, nameKey string }{
		{g.UserID, g.Username, "user-id", "username"},
		{g.UserDomainID, g.UserDomainName, "user-domain-id", "user-domain-name"},
		{g.TenantDomainID, g.TenantDomainName, "tenant-domain-id", "tenant-domain-name"},
		{g.DomainID, g.DomainName, "domain-id", "domain-name"},
		{g.ApplicationCredentialID, g.ApplicationCredentialName, "application-credential-id", "application-credential-name"},
	} {
		if pair.id != "" && pair.name != "" {
			p.add(Warning, pair.nameKey, "has no effect beside "+pair.idKey)
		}
	}
}
