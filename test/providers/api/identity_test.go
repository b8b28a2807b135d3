package api_test

import (
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
	"github.com/fxccm/fxccm/test/internal/project"
)

// object is a JSON object.
type object = project.Object

// login sends POST /v3/auth/tokens. scope nil: no scope.
func login(api project.Requests, identity object, scope any) project.Answer {
	auth := object{"identity": identity}
	if scope != nil {
		auth["scope"] = scope
	}
	return api.Try(http.MethodPost, project.Identity, "/auth/tokens", object{"auth": auth},
		"X-Auth-Token", "")
}

func byPassword(user object, password string) object {
	user["password"] = password
	return object{"methods": []string{"password"}, "password": object{"user": user}}
}

func byToken(token string) object {
	return object{"methods": []string{"token"}, "token": object{"id": token}}
}

func byApplicationCredential(credential object) object {
	return object{
		"methods":                []string{"application_credential"},
		"application_credential": credential,
	}
}

func inProject(id string) object { return object{"project": object{"id": id}} }

// message is what Keystone says of an error.
func message(a project.Answer) string { return project.Text(a.Inner("error"), "message") }

// issued is the token of a login that must have succeeded.
func issued(t *testing.T, a project.Answer) string {
	t.Helper()
	token := a.Header.Get("X-Subject-Token")
	if a.Status != http.StatusCreated || token == "" {
		t.Fatalf("%s", a)
	}
	return token
}

func TestKeystone_EachLogin_IsAnsweredOrRefused(t *testing.T) {
	t.Parallel()
	p := project.New(t, project.WithoutNetwork())
	c := p.Credentials()
	t.Run("Login", func(t *testing.T) { testLogin(t, p.In(t), c) })
	t.Run("LoginRefused", func(t *testing.T) { testLoginRefused(t, p.In(t), c) })
	t.Run("TokenOfToken", func(t *testing.T) { testTokenOfToken(t, p.In(t), c) })
	t.Run("Token", func(t *testing.T) { testToken(t, p.In(t), c) })
	t.Run("Catalog", func(t *testing.T) { testCatalog(t, p.In(t), c) })
	t.Run("Versions", func(t *testing.T) { testKeystoneVersions(t, p.In(t), c) })
	t.Run("Unscoped", func(t *testing.T) { testUnscoped(t, p.In(t), c) })
}

// testLogin: each method gives a token of the user's, for the project.
func testLogin(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	domain, byName := object{"name": c.DomainName},
		object{"project": object{"name": c.ProjectName, "domain": object{"id": c.DomainID}}}
	for name, test := range map[string]struct {
		identity object
		scope    any
		method   string
	}{
		"password by ids":   {byPassword(object{"id": c.UserID}, c.Password), inProject(c.ProjectID), "password"},
		"password by names": {byPassword(object{"name": c.Username, "domain": domain}, c.Password), byName, "password"},
		"token":             {byToken(c.Token), inProject(c.ProjectID), "token"},
		"application credential by id": {
			byApplicationCredential(
				object{"id": c.ApplicationCredentialID, "secret": c.ApplicationCredentialSecret}),
			nil,
			"application_credential",
		},
		"application credential by name": {
			byApplicationCredential(
				object{
					"name": c.ApplicationCredentialName, "secret": c.ApplicationCredentialSecret,
					"user": object{"name": c.Username, "domain": domain},
				}), nil,
			"application_credential",
		},
		"trust": {
			byPassword(object{"id": c.TrusteeID}, c.TrusteePassword),
			object{"OS-TRUST:trust": object{"id": c.TrustID}},
			"password",
		},
	} {
		answer := login(p.User(), test.identity, test.scope)
		token := answer.Inner("token")
		user, _ := token["user"].(object)
		in, _ := token["project"].(object)
		methods, _ := token["methods"].([]any)
		if answer.Status != http.StatusCreated || answer.Header.Get("X-Subject-Token") == "" ||
			project.ID(user) != c.UserID ||
			project.ID(in) != c.ProjectID || !slices.Contains(methods, any(test.method)) ||
			token["catalog"] == nil {
			t.Errorf("%s: %s", name, answer)
		}
		if trust, _ := token["OS-TRUST:trust"].(object); name == "trust" &&
			project.ID(trust) != c.TrustID {
			t.Errorf("%s: the trust is not in %s", name, answer)
		}
	}
}

// testLoginRefused: Keystone does not tell what is wrong with a secret, and does tell most else.
func testLoginRefused(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	const unauthorized = "The request you have made requires authentication."
	user := func() object { return byPassword(object{"id": c.UserID}, c.Password) }
	byName := func(domain object) object {
		return byPassword(object{"name": c.Username, "domain": domain}, c.Password)
	}
	credential := func() object {
		return object{"id": c.ApplicationCredentialID, "secret": c.ApplicationCredentialSecret}
	}
	for name, test := range map[string]struct {
		identity object
		scope    any
		status   int
		says     string
	}{
		"wrong password":          {byPassword(object{"id": c.UserID}, "guess"), inProject(c.ProjectID), 401, unauthorized},
		"empty password":          {byPassword(object{"id": c.UserID}, ""), inProject(c.ProjectID), 401, unauthorized},
		"unknown user":            {byPassword(object{"id": "unknown"}, "guess"), inProject(c.ProjectID), 401, unauthorized},
		"unknown domain":          {byName(object{"name": "nowhere"}), inProject(c.ProjectID), 401, unauthorized},
		"no domain":               {byPassword(object{"name": c.Username}, c.Password), inProject(c.ProjectID), 400, "Expecting to find domain in user"},
		"no method":               {object{"methods": []string{}}, nil, 401, unauthorized},
		"unknown project":         {user(), inProject("00000000000000000000000000000000"), 401, unauthorized},
		"project by unknown name": {user(), object{"project": object{"name": "none", "domain": object{"id": "default"}}}, 401, unauthorized},
		"project without domain":  {user(), object{"project": object{"name": c.ProjectName}}, 400, "Expecting to find domain in project"},
		"no role in the domain":   {user(), object{"domain": object{"id": "default"}}, 401, unauthorized},
		"no role in the system":   {user(), object{"system": object{"all": true}}, 401, unauthorized},
		"unknown trust":           {user(), object{"OS-TRUST:trust": object{"id": "none"}}, 401, unauthorized},
		"another's trust": {
			user(),
			object{"OS-TRUST:trust": object{"id": c.TrustID}},
			403, "You are not authorized to perform the requested action.",
		},
		"wrong secret": {byApplicationCredential(object{"id": c.ApplicationCredentialID, "secret": "guess"}), nil, 401, unauthorized},
		"unknown credential by id": {byApplicationCredential(object{
			"id":     "none",
			"secret": "guess",
		}), nil, 404, "Could not find Application Credential: none."},
		"unknown credential by name": {byApplicationCredential(object{
			"name":   "none",
			"secret": "guess", "user": object{"id": c.UserID},
		}), nil, 401, unauthorized},
		"credential without user": {
			byApplicationCredential(
				object{"name": c.ApplicationCredentialName, "secret": "guess"}), nil, 400,
			"Expecting to find user in application credential",
		},
		"credential with a scope": {byApplicationCredential(credential()), inProject(c.ProjectID), 401, "Application credentials cannot request a scope."},
		"credential unscoped":     {byApplicationCredential(credential()), "unscoped", 401, "Application credentials cannot request a scope."},
		"no token":                {byToken("nonsense"), nil, 404, "Could not recognize Fernet token"},
	} {
		answer := login(p.User(), test.identity, test.scope)
		if answer.Status != test.status || !strings.Contains(message(answer), test.says) ||
			answer.Header.Get("X-Subject-Token") != "" {
			t.Errorf("%s: %s; want %d %q", name, answer, test.status, test.says)
		}
		challenge := answer.Header.Get("WWW-Authenticate")
		if (answer.Status == http.StatusUnauthorized) != (challenge != "") {
			t.Errorf("%s: WWW-Authenticate %q with %d", name, challenge, answer.Status)
		}
	}
	for body, says := range map[string]string{
		"": "", "{": "valid JSON",
		"{}": "Expecting to find auth in request body", `{"auth": {}}`: "",
	} {
		if answer := p.User().Try(http.MethodPost, project.Identity, "/auth/tokens",
			body); answer.Status != http.StatusBadRequest ||
			!strings.Contains(message(answer), says) {
			t.Errorf("the body %q: %s", body, answer)
		}
	}
}

// testTokenOfToken: a token can be exchanged, and lives no longer for that. One of a trust or an
// application credential cannot.
func testTokenOfToken(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	user := p.User()
	first := login(user, byPassword(object{"id": c.UserID}, c.Password), inProject(c.ProjectID))
	second := login(user, byToken(issued(t, first)), inProject(c.ProjectID))
	issued(t, second)
	if a, b := first.Inner("token"), second.Inner("token"); a["expires_at"] != b["expires_at"] ||
		len(b["audit_ids"].([]any)) != 2 ||
		b["audit_ids"].([]any)[1] != a["audit_ids"].([]any)[0] {
		t.Errorf("a token of a token: %s, %s", first, second)
	}
	ofCredential := login(user,
		byApplicationCredential(
			object{"id": c.ApplicationCredentialID, "secret": c.ApplicationCredentialSecret}), nil)
	ofTrust := login(user, byPassword(object{"id": c.TrusteeID}, c.TrusteePassword),
		object{"OS-TRUST:trust": object{"id": c.TrustID}})
	for name, test := range map[string]struct {
		token project.Answer
		says  string
	}{
		"application credential": {ofCredential, "Using a delegated token to create another token is not allowed"},
		"trust":                  {ofTrust, "Using trust-scoped token to create another token"},
	} {
		answer := login(user, byToken(issued(t, test.token)), inProject(c.ProjectID))
		if answer.Status != http.StatusForbidden || !strings.Contains(message(answer), test.says) {
			t.Errorf("%s: %s", name, answer)
		}
	}
}

// keystoneTime: whole seconds, however they are written. Fernet tokens know no others.
var keystoneTime = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.000000Z$`)

func testToken(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	answer := login(p.User(), byPassword(object{"id": c.UserID}, c.Password),
		inProject(c.ProjectID))
	token := answer.Inner("token")
	for _, key := range []string{"issued_at", "expires_at"} {
		if text := project.Text(token, key); !keystoneTime.MatchString(text) {
			t.Errorf("%s is %q", key, text)
		}
	}
	from, _ := time.Parse(time.RFC3339, project.Text(token, "issued_at"))
	to, _ := time.Parse(time.RFC3339, project.Text(token, "expires_at"))
	if !from.Before(to) {
		t.Errorf("it lives from %s to %s", from, to)
	}
	var roles []string
	for _, role := range token["roles"].([]any) {
		roles = append(roles, project.Text(role.(object), "name"))
	}
	if slices.Sort(roles); !slices.Equal(roles,
		[]string{"load-balancer_member", "member", "reader"}) {
		t.Errorf("the roles are %q", roles)
	}

	id := issued(t, answer)
	subject := func(method, path, subject string) project.Answer {
		return p.User().Try(method, project.Identity, path, nil, "X-Subject-Token", subject)
	}
	shown := subject(http.MethodGet, "/auth/tokens", id)
	if shown.Status != http.StatusOK || shown.Header.Get("X-Subject-Token") != id ||
		shown.Inner("token")["catalog"] == nil ||
		project.Text(shown.Inner("token"), "expires_at") != project.Text(token, "expires_at") {
		t.Errorf("%s", shown)
	}
	if brief := subject(http.MethodGet, "/auth/tokens?nocatalog",
		id); brief.Status != http.StatusOK || brief.Inner("token")["catalog"] != nil {
		t.Errorf("%s", brief)
	}
	if without := p.User().Try(http.MethodGet, project.Identity, "/auth/tokens",
		nil); without.Status != http.StatusForbidden {
		t.Errorf("of no token: %s", without)
	}
	if nonsense := subject(http.MethodGet, "/auth/tokens",
		"nonsense"); nonsense.Status != http.StatusNotFound {
		t.Errorf("of what is no token: %s", nonsense)
	}
	if revoked := subject(http.MethodDelete, "/auth/tokens",
		id); revoked.Status != http.StatusNoContent {
		t.Fatalf("%s", revoked)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete} {
		if again := subject(method, "/auth/tokens", id); again.Status != http.StatusNotFound ||
			message(again) != "Failed to validate token" {
			t.Errorf("of a revoked token: %s", again)
		}
	}
	if exchanged := login(p.User(), byToken(id),
		inProject(c.ProjectID)); exchanged.Status != http.StatusNotFound {
		t.Errorf("a revoked token is exchanged: %s", exchanged)
	}
}

func testCatalog(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	answer := p.User().Must(http.MethodGet, project.Identity, "/auth/catalog", nil)
	found := map[string]bool{}
	for _, entry := range answer.Object()["catalog"].([]any) {
		service := entry.(object)
		for _, e := range service["endpoints"].([]any) {
			endpoint := e.(object)
			if project.Text(endpoint, "region") != c.Region ||
				project.Text(endpoint, "region_id") != c.Region ||
				!strings.HasPrefix(project.Text(endpoint, "url"), "http") ||
				strings.HasSuffix(project.Text(endpoint, "url"), "/") {
				t.Errorf("the endpoint %v", endpoint)
			}
			found[project.Text(service, "type")+" "+project.Text(endpoint, "interface")] = true
			// Nova is listed with its version, Neutron and Octavia are without.
			versioned := regexp.MustCompile(`/v2[0-9.]*$`).MatchString(
				project.Text(endpoint, "url"))
			switch project.Text(service, "type") {
			case project.Compute:
				if !versioned {
					t.Errorf("the endpoint %v", endpoint)
				}
			case project.Network, project.LoadBalancer:
				if versioned {
					t.Errorf("the endpoint %v", endpoint)
				}
			}
		}
	}
	for _, service := range []string{
		project.Identity, project.Compute, project.Network,
		project.LoadBalancer,
	} {
		for _, kind := range []string{"public", "internal", "admin"} {
			if !found[service+" "+kind] {
				t.Errorf("there is no %s %s in %s", kind, service, answer)
			}
		}
	}
}

func testKeystoneVersions(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	root := strings.TrimSuffix(c.AuthURL, "/v3")
	list := p.User().Try(http.MethodGet, project.Identity, root, nil)
	var versions struct {
		Versions struct {
			Values []struct {
				ID, Status string
				Links      []struct{ Rel, Href string }
			}
		}
	}
	if err := json.Unmarshal(list.Body, &versions); err != nil ||
		list.Status != http.StatusMultipleChoices || len(versions.Versions.Values) != 1 {
		t.Fatalf("%s", list)
	}
	if v := versions.Versions.Values[0]; !strings.HasPrefix(v.ID, "v3.") || v.Status != "stable" ||
		v.Links[0].Href != c.AuthURL+"/" {
		t.Errorf("%s", list)
	}
	one := p.User().Try(http.MethodGet, project.Identity, c.AuthURL, nil)
	if one.Status != http.StatusOK ||
		project.Text(one.Inner("version"), "id") != versions.Versions.Values[0].ID {
		t.Errorf("%s", one)
	}
}

// testUnscoped: a token without a project has no catalog. So no client gets as far as to ask
// a service with one. Until Nova's policies were made stricter in 2023.1, and Neutron's in 2023.2,
// these answered with an empty list, where they refuse now.
func testUnscoped(t *testing.T, p *project.Project, c openstacktest.Credentials) {
	for _, scope := range []any{nil, "unscoped"} {
		answer := login(p.User(), byPassword(object{"id": c.UserID}, c.Password), scope)
		token := answer.Inner("token")
		if answer.Status != http.StatusCreated || token["catalog"] != nil ||
			token["project"] != nil || token["roles"] != nil {
			t.Fatalf("scope %v: %s", scope, answer)
		}
		header := []string{"X-Auth-Token", issued(t, answer)}
		for path, want := range map[string]int{
			"/auth/catalog": http.StatusForbidden,
		} {
			if got := p.User().Try(http.MethodGet, project.Identity, path, nil,
				header...); got.Status != want {
				t.Errorf("scope %v: %s", scope, got)
			}
		}
		if got := p.User().Try(http.MethodGet, project.LoadBalancer, "/lbaas/loadbalancers", nil,
			header...); got.Status != http.StatusForbidden {
			t.Errorf("scope %v: %s", scope, got)
		}
	}
}
