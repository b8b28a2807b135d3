package cloudconf

import (
	"fmt"
	"strings"
	"testing"
)

func TestLogin_FollowsFromTheCredentials(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		options string
		login   string
		want    string // severity: problem
	}{
		"nothing": {
			"", loginNone,
			"2: auth-url in [Global]: is missing; set it to the URL of Keystone\n" +
				"2: [Global]: has no credentials: set a password, an application credential or a " +
				"token",
		},
		"a user by id": {"user-id = u, password = p, tenant-id = t", loginPassword, ""},
		"a user by name": {
			"username = u, user-domain-name = d, password = p, tenant-id = t", loginPassword, "",
		},
		"domains of both": {
			"username = u, password = p, tenant-name = t, domain-id = d", loginPassword, "",
		},
		"domains of each": {
			"username = u, password = p, tenant-name = t, user-domain-id = d, " +
				"tenant-domain-name = e", loginPassword, "",
		},
		"a user without a domain": {
			"username = u, password = p, tenant-id = t, tenant-domain-id = d", loginPassword,
			"2: username in [Global]: needs a domain: user-domain-id, user-domain-name, " +
				"domain-id or domain-name",
		},
		"a project without a domain": {
			"user-id = u, password = p, tenant-name = t, user-domain-id = d", loginPassword,
			"2: tenant-name in [Global]: needs a domain: tenant-domain-id, " +
				"tenant-domain-name, domain-id or domain-name",
		},
		"no project": {
			"user-id = u, password = p", loginPassword,
			"0: tenant-id in [Global]: is missing, and tenant-name too: Keystone uses the " +
				"default project of the user, if there is one",
		},
		"no user": {
			"password = p, tenant-id = t", loginPassword,
			"2: user-id in [Global]: is missing, and username too: the password needs one of " +
				"them",
		},
		"a user's id and name": {
			"user-id = u, username = n, password = p, tenant-id = t, tenant-name = tn",
			loginPassword,
			"0: username in [Global]: has no effect because user-id is set",
		},
		"a token": {
			"token = x, tenant-id = t", loginToken,
			"0: token in [Global]: cannot be renewed: when it expires, all requests fail " +
				"until a new one is set",
		},
		"an application credential": {
			"application-credential-id = a, application-credential-secret = s",
			loginApplicationCredential, "",
		},
		"by name and user's id": {
			"application-credential-name = a, application-credential-secret = s, user-id = u",
			loginApplicationCredential, "",
		},
		"by name and user's name": {
			"application-credential-name = a, application-credential-secret = s, username = " +
				"u, user-domain-id = d", loginApplicationCredential, "",
		},
		"by name without a user": {
			"application-credential-name = a, application-credential-secret = s",
			loginApplicationCredential,
			"2: user-id in [Global]: is missing, and username too: the name of an " +
				"application credential needs one of them",
		},
		"without its secret": {
			"application-credential-id = a", loginApplicationCredential,
			"2: application-credential-secret in [Global]: is missing",
		},
		"its secret only": {
			"application-credential-secret = s", loginNone,
			"2: application-credential-id in [Global]: is missing, but " +
				"application-credential-secret is set",
		},
		"with a project": {
			"application-credential-id = a, application-credential-secret = s, tenant-id = t",
			loginApplicationCredential,
			"0: [Global]: has a project that has no effect, because an application " +
				"credential belongs to one",
		},
		"a trust": {"trust-id = t, user-id = u, password = p", loginTrust, ""},
		"a trust and its trustee": {
			"trust-id = t, trustee-id = u, trustee-password = p", loginTrust, "",
		},
		"a trust without a user": {
			"trust-id = t, password = p", loginTrust,
			"2: user-id in [Global]: is missing, and username too: the trust needs one of " +
				"them",
		},
		"a trust without a password": {
			"trust-id = t, user-id = u, token = x", loginTrust,
			"2: trust-id in [Global]: needs the trustee and the trustee's password",
		},
		"a trustee without a trust": {
			"user-id = u, password = p, tenant-id = t, trustee-id = v", loginPassword,
			"1: trust-id in [Global]: is missing, so trustee-id and trustee-password have no " +
				"effect",
		},
		"a password and an application": {
			"user-id = u, password = p, tenant-id = t, application-credential-id = a, " +
				"application-credential-secret = s", loginPassword,
			"1: [Global]: has several kinds of credentials (password, application " +
				"credential); fxccm uses the password",
		},
		"a token and a password": {
			"user-id = u, password = p, tenant-id = t, token = x", loginPassword,
			"1: [Global]: has several kinds of credentials (token, password); fxccm uses the " +
				"password",
		},
	} {
		t.Run(name, func(t *testing.T) {
			content := "[Global]\n"
			if test.options != "" {
				content += "auth-url = https://keystone\n" +
					strings.ReplaceAll(test.options, ", ", "\n")
			}
			c, _, err := Parse([]byte(content), Options{})
			if err != nil {
				t.Fatal(err)
			}
			if got := c.Global.Login(); got != test.login {
				t.Errorf("the login is by %q, want %q", got, test.login)
			}
			var got []string
			for _, p := range c.Global.loginProblems("") {
				got = append(got, fmt.Sprintf("%d: %s", p.severity, p))
			}
			if got := strings.Join(got, "\n"); got != test.want {
				t.Errorf("problems are\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

// The domains of user and project fall back to the common one as a pair, so an ID of one level is
// never combined with a name of the other.
func TestDomains_FallBackToTheCommonOne(t *testing.T) {
	t.Parallel()
	g := Global{DomainID: "i", DomainName: "n", UserDomainName: "un"}
	if id, name := g.UserDomain(); id != "" || name != "un" {
		t.Errorf("the user's domain is %q, %q", id, name)
	}
	if id, name := g.TenantDomain(); id != "i" || name != "n" {
		t.Errorf("the project's domain is %q, %q", id, name)
	}
}

func TestUser_IsTheTrusteeIfThereIsATrust(t *testing.T) {
	t.Parallel()
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
