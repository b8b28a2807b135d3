package openstacktest

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

// made is the object in an answer that must be a success.
func (e exchange) made(key string) map[string]any {
	e.t.Helper()
	var body map[string]map[string]any
	e.into(&body)
	if e.status/100 != 2 {
		e.t.Fatalf("%d %s", e.status, e.body)
	}
	return body[key]
}

func TestUsers_AreAnAdministrators(t *testing.T) {
	s := start(t)
	c, admin := s.Credentials(), s.AddProject(Project{Name: "operators", Admin: true})
	asAdmin := func(method, path, body string) exchange {
		return send(t, s, method, "/identity/v3"+path, body, "X-Auth-Token", admin.Token)
	}
	if got := ask(t, s, "POST", "/identity/v3/users",
		`{"user": {"name": "late", "password": "one"}}`); got.status != http.StatusForbidden {
		t.Errorf("a member: %d %s", got.status, got.body)
	}
	id := asAdmin("POST", "/users",
		`{"user": {"name": "late", "password": "one"}}`).made("user")["id"].(string)
	if got := asAdmin("POST", "/users",
		`{"user": {"name": "late", "password": "one"}}`); got.status != http.StatusConflict {
		t.Errorf("the same name again: %d %s", got.status, got.body)
	}
	user := func(password string) gophercloud.AuthOptions {
		return gophercloud.AuthOptions{
			IdentityEndpoint: c.AuthURL, UserID: id, Password: password,
			Scope: &gophercloud.AuthScope{ProjectID: c.ProjectID},
		}
	}
	refused := func(what, password string) {
		t.Helper()
		if _, err := tryLogin(t, user(password)); !gophercloud.ResponseCodeIs(err,
			http.StatusUnauthorized) {
			t.Errorf("%s: %v", what, err)
		}
	}
	grant := fmt.Sprintf("/projects/%s/users/%s/roles/role-member", c.ProjectID, id)
	refused("without a role", "one")
	asAdmin("PUT", grant, "")
	token := login(t, s, user("one")).Token()
	asAdmin("PATCH", "/users/"+id, `{"user": {"password": "two"}}`)
	refused("the old password", "one")
	if got := send(t, s, "GET", computePath+"/servers", "", "X-Auth-Token",
		token); got.status != http.StatusUnauthorized {
		t.Errorf("a token of the old password: %d", got.status)
	}
	login(t, s, user("two"))
	asAdmin("PATCH", "/users/"+id, `{"user": {"enabled": false}}`)
	refused("a disabled user", "two")
	asAdmin("PATCH", "/users/"+id, `{"user": {"enabled": true}}`)
	asAdmin("DELETE", grant, "")
	refused("a role that was taken away", "two")
	if got := asAdmin("PUT", grant+"s", ""); got.status != http.StatusNotFound {
		t.Errorf("an unknown role: %d %s", got.status, got.body)
	}
	if got := asAdmin("DELETE", "/users/"+id, ""); got.status != http.StatusNoContent {
		t.Errorf("delete: %d %s", got.status, got.body)
	}
	if got := asAdmin("DELETE", "/users/"+id, ""); got.status != http.StatusNotFound {
		t.Errorf("delete again: %d %s", got.status, got.body)
	}
}

func TestApplicationCredentials_AreTheirUsersOwn(t *testing.T) {
	s := start(t)
	c, other := s.Credentials(), s.AddProject(Project{Name: "other"})
	path := "/identity/v3/users/" + c.UserID + "/application_credentials"
	made := ask(t, s, "POST", path,
		`{"application_credential": {"name": "second"}}`).made("application_credential")
	if got := ask(t, s, "POST", path,
		`{"application_credential": {"name": "second"}}`); got.status != http.StatusConflict {
		t.Errorf("the same name again: %d %s", got.status, got.body)
	}
	options := gophercloud.AuthOptions{
		IdentityEndpoint: c.AuthURL, ApplicationCredentialID: made["id"].(string),
		ApplicationCredentialSecret: made["secret"].(string),
	}
	login(t, s, options)
	if got := send(t, s, "DELETE", path+"/"+made["id"].(string), "", "X-Auth-Token",
		other.Token); got.status != http.StatusForbidden {
		t.Errorf("another user deletes it: %d %s", got.status, got.body)
	}
	if got := ask(t, s, "DELETE", path+"/"+made["id"].(string),
		""); got.status != http.StatusNoContent {
		t.Errorf("delete: %d %s", got.status, got.body)
	}
	if _, err := tryLogin(t, options); !gophercloud.ResponseCodeIs(err, http.StatusNotFound) {
		t.Errorf("the deleted one: %v", err)
	}
	var body struct {
		All []struct{ Name string } `json:"application_credentials"`
	}
	ask(t, s, "GET", path, "").into(&body)
	if len(body.All) != 1 || body.All[0].Name != c.ApplicationCredentialName {
		t.Errorf("those left are %+v", body.All)
	}
}
