package keystone

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// userOperations are operations of administrators on users, and of users on their application
// credentials.
func (s *Service) userOperations() []api.Operation {
	return []api.Operation{
		s.operation("user_create", "POST", "/v3/users", byAdmin("create_user", createUser)),
		s.operation("user_update", "PATCH", "/v3/users/{user}",
			byAdmin("update_user", onUser(updateUser))),
		s.operation("user_delete", "DELETE", "/v3/users/{user}",
			byAdmin("delete_user", onUser(deleteUser))),
		s.operation("role_list", "GET", "/v3/roles", byAdmin("list_roles", listRoles)),
		s.operation("role_grant", "PUT", "/v3/projects/{project}/users/{user}/roles/{role}",
			byAdmin("create_grant", onUser(grantRole))),
		s.operation("application_credential_create", "POST",
			"/v3/users/{user}/application_credentials", onUser(createApplicationCredential)),
		s.operation("application_credential_delete", "DELETE",
			"/v3/users/{user}/application_credentials/{id}", onUser(deleteApplicationCredential)),
	}
}

// byAdmin serves only administrators. The action is its name in Keystone's policy.
func byAdmin(action string, handle handling) handling {
	return func(r *request) (answer, error) {
		if !r.IsAdmin() {
			return answer{}, forbidden(action)
		}
		return handle(r)
	}
}

// onUser serves requests about one user.
func onUser(handle func(*request, *user) (answer, error)) handling {
	return func(r *request) (answer, error) {
		u := r.server.findUser(userBody{ID: r.PathValue("user")})
		if u == nil {
			return answer{}, refuse(http.StatusNotFound,
				"Could not find user: "+r.PathValue("user")+".")
		}
		return handle(r, u)
	}
}

// userAttributes are the attributes of a user that can be set.
type userAttributes struct {
	Name     string  `json:"name"`
	Password *string `json:"password"`
	Enabled  *bool   `json:"enabled"`
}

func (r *request) userAttributes() (userAttributes, error) {
	var body struct {
		User userAttributes `json:"user"`
	}
	err := r.Decode(&body)
	return body.User, err
}

func createUser(r *request) (answer, error) {
	given, err := r.userAttributes()
	if err != nil || given.Name == "" {
		return answer{}, malformed("Expecting to find name in user.")
	}
	s := r.server
	u := s.addUser(given.Name, s.domainNamed(DefaultDomain))
	s.change(u, given)
	return api.Created(object{"user": u.account()}), nil
}

func updateUser(r *request, u *user) (answer, error) {
	given, err := r.userAttributes()
	if err != nil {
		return answer{}, malformed("Expecting to find valid JSON in request body.")
	}
	r.server.change(u, given)
	return api.OK(object{"user": u.account()}), nil
}

// change changes a user. A new password or disabling revokes the user's tokens.
func (s *Service) change(u *user, given userAttributes) {
	u.name = cmp.Or(given.Name, u.name)
	if given.Password != nil {
		s.changePassword(u, *given.Password)
	}
	if given.Enabled != nil {
		u.disabled = !*given.Enabled
		if u.disabled {
			s.revoke(func(t *token) bool { return t.user == u })
		}
	}
}

func deleteUser(r *request, u *user) (answer, error) {
	s := r.server
	s.deleteApplicationCredential(func(a *applicationCredential) bool { return a.user == u })
	s.revoke(func(t *token) bool { return t.user == u })
	s.trusts = slices.DeleteFunc(s.trusts,
		func(t *trust) bool { return t.trustor == u || t.trustee == u })
	s.users = slices.DeleteFunc(s.users, func(other *user) bool { return other == u })
	return api.NoContent(), nil
}

func grantRole(r *request, u *user) (answer, error) {
	project, role := r.PathValue("project"), strings.TrimPrefix(r.PathValue("role"), "role-")
	u.grants[project] = append(u.grants[project], role)
	return api.NoContent(), nil
}

// account is the user in the API's form, which has more attributes than a token shows.
func (u *user) account() object {
	return object{
		"id": u.id, "name": u.name, "domain_id": u.domain.id, "enabled": !u.disabled,
		"password_expires_at": nil, "options": object{},
	}
}

// roles are the roles with an effect here; see [roleViews] for their IDs.
var roles = [...]string{"admin", "load-balancer_member", "member", "reader"}

func listRoles(r *request) (answer, error) {
	views := []object{}
	for _, name := range roles {
		if wanted := r.Query.Get("name"); wanted == "" || wanted == name {
			views = append(views, roleViews([]string{name})...)
		}
	}
	return api.OK(object{"roles": views}), nil
}

// createApplicationCredential creates a credential for the caller's project. Only this answer has
// the secret.
func createApplicationCredential(r *request, u *user) (answer, error) {
	var body struct {
		Credential struct {
			Name   string `json:"name"`
			Secret string `json:"secret"`
		} `json:"application_credential"`
	}
	if err := r.Decode(&body); err != nil || body.Credential.Name == "" {
		return answer{}, malformed("Expecting to find name in application_credential.")
	}
	s := r.server
	id := s.newIdentityID()
	made := &applicationCredential{
		id: id, name: body.Credential.Name,
		secret: cmp.Or(body.Credential.Secret, "application-secret-"+id), user: u,
		project: r.token.project,
	}
	s.applications = append(s.applications, made)
	view := made.view()
	view["secret"] = made.secret
	return api.Created(object{"application_credential": view}), nil
}

func (a *applicationCredential) view() object {
	return object{
		"id": a.id, "name": a.name, "description": nil, "project_id": a.project.id,
		"user_id": a.user.id, "expires_at": nil,
		"unrestricted": false, "roles": roleViews(a.user.grants[a.project.id]),
	}
}

func deleteApplicationCredential(r *request, u *user) (answer, error) {
	id := r.PathValue("id")
	if !r.server.deleteApplicationCredential(func(a *applicationCredential) bool {
		return a.id == id && a.user == u
	}) {
		return answer{}, refuse(http.StatusNotFound,
			fmt.Sprintf("Could not find Application Credential: %s.", id))
	}
	return api.NoContent(), nil
}
