package cloudconf

import (
	"fmt"
	"strings"
	"testing"
)

func TestLogin_FollowsFromTheCredentials(t *testing.T) {
	const url = "https://keystone"
	for name, test := range map[string]struct {
		global Global
		login  Login
		want   []string // severity: problem
	}{
		"nothing": {
			Global{},
			LoginNone,
			[]string{
				"2: auth-url in [Global]: is missing; set it to the URL of Keystone",
				"2: [Global]: has no credentials: set a password, an application credential or a " +
					"token",
			},
		},
		"a user by id": {Global{
			AuthURL: url, UserID: "u", Password: "p",
			TenantID: "t",
		}, LoginPassword, nil},
		"a user by name": {Global{
			AuthURL: url, Username: "u", UserDomainName: "d",
			Password: "p", TenantID: "t",
		}, LoginPassword, nil},
		"domains of both": {Global{
			AuthURL: url, Username: "u", Password: "p",
			TenantName: "t", DomainID: "d",
		}, LoginPassword, nil},
		"domains of each": {Global{
			AuthURL: url, Username: "u", Password: "p",
			TenantName: "t", UserDomainID: "d", TenantDomainName: "e",
		}, LoginPassword, nil},
		"a user without a domain": {
			Global{
				AuthURL: url, Username: "u", Password: "p",
				TenantID: "t", TenantDomainID: "d",
			},
			LoginPassword,
			[]string{"2: username in [Global]: needs a domain: user-domain-id, " +
				"user-domain-name, domain-id or domain-name"},
		},
		"a project without a domain": {
			Global{
				AuthURL: url, UserID: "u", Password: "p",
				TenantName: "t", UserDomainID: "d",
			},
			LoginPassword,
			[]string{"2: tenant-name in [Global]: needs a domain: tenant-domain-id, " +
				"tenant-domain-name, domain-id or domain-name"},
		},
		"no project": {
			Global{AuthURL: url, UserID: "u", Password: "p"},
			LoginPassword,
			[]string{"0: tenant-id in [Global]: is missing, and tenant-name too: Keystone uses " +
				"the default project of the user, if there is one"},
		},
		"no user": {
			Global{AuthURL: url, Password: "p", TenantID: "t"},
			LoginPassword,
			[]string{"2: user-id in [Global]: is missing, and username too: the password needs " +
				"one of them"},
		},
		"a user's id and name": {
			Global{
				AuthURL: url, UserID: "u", Username: "n",
				Password: "p", TenantID: "t", TenantName: "tn",
			},
			LoginPassword,
			[]string{"0: username in [Global]: has no effect because user-id is set"},
		},
		"a token": {
			Global{AuthURL: url, Token: "x", TenantID: "t"},
			LoginToken,
			[]string{"0: token in [Global]: cannot be renewed: when it expires, all " +
				"requests fail until a new one is set"},
		},
		"an application credential": {Global{
			AuthURL: url, ApplicationCredentialID: "a",
			ApplicationCredentialSecret: "s",
		}, LoginApplicationCredential, nil},
		"by name and user's id": {Global{
			AuthURL: url, ApplicationCredentialName: "a",
			ApplicationCredentialSecret: "s", UserID: "u",
		}, LoginApplicationCredential, nil},
		"by name and user's name": {
			Global{
				AuthURL: url, ApplicationCredentialName: "a",
				ApplicationCredentialSecret: "s", Username: "u", UserDomainID: "d",
			},
			LoginApplicationCredential, nil,
		},
		"by name without a user": {
			Global{
				AuthURL: url, ApplicationCredentialName: "a",
				ApplicationCredentialSecret: "s",
			},
			LoginApplicationCredential,
			[]string{"2: user-id in [Global]: is missing, and username too: the name of an " +
				"application credential needs one of them"},
		},
		"without its secret": {
			Global{AuthURL: url, ApplicationCredentialID: "a"},
			LoginApplicationCredential,
			[]string{"2: application-credential-secret in [Global]: is missing"},
		},
		"its secret only": {
			Global{AuthURL: url, ApplicationCredentialSecret: "s"},
			LoginNone,
			[]string{"2: application-credential-id in [Global]: is missing, but " +
				"application-credential-secret is set"},
		},
		"with a project": {
			Global{
				AuthURL: url, ApplicationCredentialID: "a",
				ApplicationCredentialSecret: "s", TenantID: "t",
			},
			LoginApplicationCredential,
			[]string{"0: [Global]: has a project that has no effect, because an application " +
				"credential belongs to one"},
		},
		"a trust": {Global{
			AuthURL: url, TrustID: "t", UserID: "u",
			Password: "p",
		}, LoginTrust, nil},
		"a trust and its trustee": {Global{
			AuthURL: url, TrustID: "t", TrusteeID: "u",
			TrusteePassword: "p",
		}, LoginTrust, nil},
		"a trust without a user": {
			Global{AuthURL: url, TrustID: "t", Password: "p"},
			LoginTrust,
			[]string{"2: user-id in [Global]: is missing, and username too: the " +
				"trust needs one of them"},
		},
		"a trust without a password": {
			Global{
				AuthURL: url, TrustID: "t", UserID: "u",
				Token: "x",
			},
			LoginTrust,
			[]string{"2: trust-id in [Global]: needs the trustee and the trustee's password"},
		},
		"a trustee without a trust": {
			Global{
				AuthURL: url, UserID: "u", Password: "p",
				TenantID: "t", TrusteeID: "v",
			},
			LoginPassword,
			[]string{"1: trust-id in [Global]: is missing, so trustee-id and trustee-password " +
				"have no effect"},
		},
		"a password and an application": {
			Global{
				AuthURL: url, UserID: "u", Password: "p",
				TenantID: "t", ApplicationCredentialID: "a", ApplicationCredentialSecret: "s",
			},
			LoginPassword,
			[]string{"1: [Global]: has several kinds of credentials (password, application " +
				"credential); fxccm uses the password"},
		},
		"a token and a password": {Global{
			AuthURL: url, UserID: "u", Password: "p", TenantID: "t",
			Token: "x",
		}, LoginToken, []string{
			"0: token in [Global]: cannot be renewed: when it expires, all requests fail until " +
				"a new one is set",
			"1: [Global]: has several kinds of credentials (token, password); fxccm uses the token",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := test.global.Login(); got != test.login {
				t.Errorf("the login is by %q, want %q", got, test.login)
			}
			var got []string
			for _, p := range test.global.loginProblems("") {
				got = append(got, fmt.Sprintf("%d: %s", p.Severity, p))
			}
			if strings.Join(got, "\n") != strings.Join(test.want, "\n") {
				t.Errorf("problems are\n%s\nwant\n%s", strings.Join(got, "\n"),
					strings.Join(test.want, "\n"))
			}
		})
	}
}

// Domains of user and project fall back to the common one, as a pair: an id of one level never
// meets a name of the other.
func TestDomains_FallBackToTheCommonOne(t *testing.T) {
	g := Global{DomainID: "i", DomainName: "n", UserDomainName: "un"}
	if id, name := g.UserDomain(); id != "" || name != "un" {
		t.Errorf("the user's domain is %q, %q", id, name)
	}
	if id, name := g.TenantDomain(); id != "i" || name != "n" {
		t.Errorf("the project's domain is %q, %q", id, name)
	}
}

func TestUser_IsTheTrusteeIfThereIsATrust(t *testing.T) {
	g := Global{UserID: "u", Username: "n", Password: "p", TrusteeID: "v", TrusteePassword: "q"}
	if id, _, password := g.User(); id != "u" || password != "p" {
		t.Errorf("without a trust the user is %s", id)
	}
	g.TrustID = "t"
	if id, _, password := g.User(); id != "v" || password != "q" {
		t.Errorf("with a trust the user is %s", id)
	}
	g.TrusteeID, g.TrusteePassword = "", ""
	if id, _, password := g.User(); id != "u" || password != "p" {
		t.Errorf("with a trust of its own the user is %s", id)
	}
}
