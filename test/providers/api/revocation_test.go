package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// reads are a request of each service.
var reads = map[string]string{
	project.Compute: "/servers", project.Network: "/ports?fields=id",
	project.LoadBalancer: "/lbaas/loadbalancers", project.Identity: "/auth/catalog",
}

// readWith makes the request of a service with a token.
func readWith(api project.Requests, service, token string) project.Answer {
	return api.Try(http.MethodGet, service, reads[service], nil, "X-Auth-Token", token)
}

func TestRevocation_OfTokensAndCredentials_IsSeen(t *testing.T) {
	t.Parallel()
	p := project.New(t, project.WithoutNetwork(),
		project.OnSimulator(openstacktest.WithTokenCache(5*time.Minute)))
	c := p.Credentials()
	t.Run("Unauthorized", func(t *testing.T) { testUnauthorized(t, p.In(t)) })
	t.Run("Token", func(t *testing.T) { testRevokedToken(t, p.In(t), c) })
	t.Run("Credential", func(t *testing.T) { testDeletedCredential(t, p.In(t), c) })
	t.Run("Password", func(t *testing.T) { testChangedPassword(t, p.In(t)) })
}

// newToken is a new token of the user, which no service has seen.
func newToken(t *testing.T, p *project.Project, c openstacktest.Credentials) string {
	t.Helper()
	return issued(t,
		login(p.User(), byPassword(object{"id": c.UserID}, c.Password), inProject(c.ProjectID)))
}

// testUnauthorized: keystonemiddleware, which is in front of the services, refuses in Keystone's
// form, not in theirs.
func testUnauthorized(t *testing.T, p *project.Project) {
	for service := range reads {
		for _, token := range []string{"nonsense", ""} {
			answer := readWith(p.User(), service, token)
			if answer.Status != http.StatusUnauthorized ||
				message(answer) != "The request you have made requires authentication." ||
				answer.Header.Get("WWW-Authenticate") == "" {
				t.Errorf("%s: %s, WWW-Authenticate %q", service, answer,
					answer.Header.Get("WWW-Authenticate"))
			}
		}
	}
}

// testRevokedToken: Keystone refuses a revoked token at once, and so does a service that has not
// seen it. A service that has seen it, and all services that share its cache, accept it for minutes
// (keystonemiddleware: token_cache_time, memcached_servers).
func testRevokedToken(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	known, unknown := newToken(t, p, c), newToken(t, p, c)
	if answer := readWith(p.User(), project.Compute, known); answer.Status != http.StatusOK {
		t.Fatalf("%s", answer)
	}
	for _, token := range []string{known, unknown} {
		p.User().Must(http.MethodDelete, project.Identity, "/auth/tokens", nil, "X-Subject-Token",
			token)
	}
	for service := range reads {
		if answer := readWith(p.User(), service,
			unknown); answer.Status != http.StatusUnauthorized {
			t.Errorf("a token that no service knows: %s", answer)
		}
		want := http.StatusOK
		if service == project.Identity {
			want = http.StatusUnauthorized
		}
		if answer := readWith(p.User(), service, known); answer.Status != want {
			t.Errorf("a token that is known: %s, want %d", answer, want)
		}
	}
}

func testDeletedCredential(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	user, path := p.User(), "/users/"+c.UserID+"/application_credentials"
	made := user.Create(project.Identity, path, "application_credential",
		object{"name": "short-lived"})
	who := byApplicationCredential(
		object{"id": project.ID(made), "secret": project.Text(made, "secret")})
	token := issued(t, login(user, who, nil))
	user.Must(http.MethodDelete, project.Identity, path+"/"+project.ID(made), nil)
	for _, service := range []string{project.Compute, project.Network, project.LoadBalancer} {
		if answer := readWith(user, service, token); answer.Status != http.StatusUnauthorized {
			t.Errorf("a token of a deleted credential: %s", answer)
		}
	}
	if answer := login(user, who, nil); answer.Status != http.StatusNotFound ||
		message(answer) != "Could not find Application Credential: "+project.ID(made)+"." {
		t.Errorf("%s", answer)
	}
	if answer := user.Try(http.MethodDelete, project.Identity, path+"/"+project.ID(made),
		nil); answer.Status != http.StatusNotFound {
		t.Errorf("%s", answer)
	}
}

// testChangedPassword of a user of its own: the project's is needed afterwards.
func testChangedPassword(t *testing.T, p *project.Project) {
	admin := p.Admin()
	id := project.ID(admin.Create(project.Identity, "/users", "user",
		object{"name": p.Name + "-other", "domain_id": "default", "password": "first"}))
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if answer, err := admin.API().Do(ctx, http.MethodDelete, project.Identity, "/users/"+id,
			nil); err != nil || answer.Status != http.StatusNoContent {
			t.Errorf("delete the user: %v %s", err, answer)
		}
	})
	for _, role := range admin.List(project.Identity, "/roles", "roles") {
		if project.Text(role, "name") == "member" {
			admin.Must(http.MethodPut, project.Identity,
				"/projects/"+p.ID+"/users/"+id+"/roles/"+project.ID(role), nil)
		}
	}
	who := func(password string) object { return byPassword(object{"id": id}, password) }
	token := issued(t, login(admin, who("first"), inProject(p.ID)))
	admin.Must(http.MethodPatch, project.Identity, "/users/"+id,
		object{"user": object{"password": "second"}})
	if answer := login(admin, who("first"),
		inProject(p.ID)); answer.Status != http.StatusUnauthorized {
		t.Errorf("the old password: %s", answer)
	}
	if answer := readWith(admin, project.Network, token); answer.Status != http.StatusUnauthorized {
		t.Errorf("a token of the old password: %s", answer)
	}
	issued(t, login(admin, who("second"), inProject(p.ID)))
	admin.Must(http.MethodPatch, project.Identity, "/users/"+id,
		object{"user": object{"enabled": false}})
	if answer := login(admin, who("second"),
		inProject(p.ID)); answer.Status != http.StatusUnauthorized {
		t.Errorf("a disabled user: %s", answer)
	}
	if answer := p.User().Try(http.MethodPatch, project.Identity, "/users/"+id,
		object{"user": object{"enabled": true}}); answer.Status != http.StatusForbidden {
		t.Errorf("by one who is no administrator: %s", answer)
	}
}
