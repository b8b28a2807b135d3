package keystone

import (
	"fmt"
	"slices"
)

// Project is a tenant of the cloud.
type Project struct {
	Name string
	// Domain is the name of its domain, and of its users' domain. Default: "Default". An unknown
	// domain is created.
	Domain string
	// Admin gives its users the role admin: they may see and change resources of other projects.
	Admin bool
}

// Credentials are all ways to log in to one project. They are secrets of a simulated cloud, and the
// same in each run except for Token.
type Credentials struct {
	AuthURL, Region         string
	ProjectID, ProjectName  string
	DomainID, DomainName    string
	UserID, Username        string
	Password                string
	TrustID                 string
	TrusteeID, TrusteeName  string
	TrusteePassword         string
	ApplicationCredentialID string
	// ApplicationCredentialName is unique only for the user.
	ApplicationCredentialName   string
	ApplicationCredentialSecret string
	// Token is issued when the Credentials are requested; see [WithTokenLife].
	Token string
	// CertificatePEM is the authority of the cloud's certificate; "" without [WithTLS].
	CertificatePEM string
}

// AddProject implements Cloud.AddProject.
func (s *Service) AddProject(p Project) Credentials {
	defer s.Enter()()
	return s.credentials(s.addProject(p))
}

// Credentials returns the credentials of the default project.
func (s *Service) Credentials() Credentials {
	defer s.Enter()()
	return s.credentials(s.projects[0])
}

// addProject adds a project. The caller holds the lock.
func (s *Service) addProject(p Project) *project {
	d := s.domainNamed(p.Domain)
	made := &project{id: s.newIdentityID(), name: p.Name, domain: d}
	roles := []string{"load-balancer_member", "member", "reader"}
	if p.Admin {
		roles = append(roles, "admin")
	}
	trustor := s.addUser(p.Name+"-user", d)
	trustor.grants[made.id] = roles
	trustee := s.addUser(p.Name+"-trustee", d)
	id := s.newIdentityID()
	s.applications = append(s.applications, &applicationCredential{
		id: id, name: p.Name + "-application", secret: "application-secret-" + id, user: trustor,
		project: made,
	})
	s.trusts = append(s.trusts,
		&trust{id: s.newIdentityID(), trustor: trustor, trustee: trustee, project: made})
	s.projects = append(s.projects, made)
	return made
}

func (s *Service) addUser(name string, d *domain) *user {
	id := s.newIdentityID()
	u := &user{
		id: id, name: name, password: "password-" + id, domain: d,
		grants: map[string][]string{},
	}
	s.users = append(s.users, u)
	return u
}

// credentials returns the credentials of a project. The caller holds the lock.
func (s *Service) credentials(p *project) Credentials {
	c := Credentials{
		AuthURL: s.URL + Path + "/v3", Region: s.options.Region,
		ProjectID: p.id, ProjectName: p.name, DomainID: p.domain.id, DomainName: p.domain.name,
		CertificatePEM: s.options.CertificatePEM(),
	}
	for _, t := range s.trusts {
		if t.project == p {
			c.UserID, c.Username, c.Password = t.trustor.id, t.trustor.name, t.trustor.password
			c.TrustID, c.TrusteeID, c.TrusteeName, c.TrusteePassword = t.id, t.trustee.id,
				t.trustee.name, t.trustee.password
			login := &token{user: t.trustor, methods: []string{"password"}}
			login.scopeTo(p)
			s.issue(login)
			c.Token = login.id
		}
	}
	for _, a := range s.applications {
		if a.project == p {
			c.ApplicationCredentialID, c.ApplicationCredentialName = a.id, a.name
			c.ApplicationCredentialSecret = a.secret
		}
	}
	return c
}

// RevokeTokens revokes all tokens that were issued so far; see [WithTokenCache].
func (s *Service) RevokeTokens() {
	defer s.Enter()()
	s.revoke(func(*token) bool { return true })
}

// ChangePassword implements Cloud.ChangePassword.
func (s *Service) ChangePassword(userID, password string) error {
	defer s.Enter()()
	u := s.findUser(userBody{ID: userID})
	if u == nil {
		return fmt.Errorf("change password: no user %s", userID)
	}
	s.changePassword(u, password)
	return nil
}

// The caller of changePassword, deleteApplicationCredential and revoke holds the lock.
func (s *Service) changePassword(u *user, password string) {
	u.password = password
	s.revoke(func(t *token) bool { return t.user == u })
}

func (s *Service) deleteApplicationCredential(
	which func(*applicationCredential) bool,
) (found bool) {
	s.applications = slices.DeleteFunc(s.applications, func(a *applicationCredential) bool {
		if which(a) {
			found = true
			s.revoke(func(t *token) bool { return t.application == a })
			return true
		}
		return false
	})
	return found
}

func (s *Service) revoke(which func(*token) bool) {
	for _, t := range s.tokens {
		if which(t) {
			t.revoked = true
		}
	}
}

// OwnerOf returns the ID of the user of a project; "" without one.
func (s *Service) OwnerOf(projectID string) string {
	for _, t := range s.trusts {
		if t.project.id == projectID {
			return t.trustor.id
		}
	}
	return ""
}
