package openstacktest

import "github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/keystone"

type (
	// Project is a project with its domain. Admin gives its users the role admin.
	Project = keystone.Project
	// Credentials are all ways to log in to one project, as values and as configuration files.
	Credentials = keystone.Credentials
)

// AuthURL is the versioned address of Keystone: the auth-url of cloud.conf.
func (s *Cloud) AuthURL() string { return s.URL() + keystone.Path + "/v3" }

// Credentials returns the credentials of the default project with a new token.
func (s *Cloud) Credentials() Credentials { return s.keystone.Credentials() }

// AddProject adds a project with a user, an application credential of that user, and a trust
// between that user and another one.
func (s *Cloud) AddProject(p Project) Credentials { return s.keystone.AddProject(p) }

// CloudConf returns a complete cloud.conf that logs in to the default project: with "password",
// "token", "application-credential" or "trust". It panics for another method.
func (s *Cloud) CloudConf(method string) string { return s.Credentials().CloudConf(method) }

// RevokeTokens revokes all tokens that exist; see [WithTokenCache].
func (s *Cloud) RevokeTokens() { s.keystone.RevokeTokens() }

// ChangePassword changes the password of a user and revokes the user's tokens, as Keystone does.
func (s *Cloud) ChangePassword(userID, password string) error {
	return s.keystone.ChangePassword(userID, password)
}
