package keystone

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// authBody is the body of POST /v3/auth/tokens.
type authBody struct {
	Auth *struct {
		Identity struct {
			Methods  []string `json:"methods"`
			Password struct {
				User userBody `json:"user"`
			} `json:"password"`
			Token struct {
				ID string `json:"id"`
			} `json:"token"`
			ApplicationCredential struct {
				ID     string   `json:"id"`
				Name   string   `json:"name"`
				Secret string   `json:"secret"`
				User   userBody `json:"user"`
			} `json:"application_credential"`
		} `json:"identity"`
		// Scope is an object, or the text "unscoped".
		Scope json.RawMessage `json:"scope"`
	} `json:"auth"`
}

type userBody struct {
	ID       string     `json:"id"`
	Name     string     `json:"name"`
	Domain   domainBody `json:"domain"`
	Password string     `json:"password"`
}

type domainBody struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type scopeBody struct {
	Project *struct {
		ID     string     `json:"id"`
		Name   string     `json:"name"`
		Domain domainBody `json:"domain"`
	} `json:"project"`
	Trust *struct {
		ID string `json:"id"`
	} `json:"OS-TRUST:trust"`
}

// createToken logs in. Most failures have the same 401.
func createToken(r *request) (answer, error) {
	var body authBody
	if err := r.Decode(&body); err != nil {
		return answer{}, malformed("Expecting to find valid JSON in request body.")
	}
	switch {
	case body.Auth == nil:
		return answer{}, malformed("Expecting to find auth in request body.")
	case body.Auth.Identity.Methods == nil:
		return answer{}, refuse(http.StatusBadRequest, "'methods' is a required property")
	}
	t, err := r.server.identify(body)
	if err == nil {
		err = r.server.scope(t, body.Auth.Scope)
	}
	if err != nil {
		return answer{}, err
	}
	r.server.issue(t)
	return t.answer(r, http.StatusCreated), nil
}

// malformed is Keystone's answer to an incomplete body.
func malformed(what string) error {
	return refuse(http.StatusBadRequest, what+
		" The server could not comply with the request since it is either malformed or otherwise incorrect. The client is assumed to be in error.")
}

// issue makes the token valid.
func (s *Service) issue(t *token) {
	now := s.Clock.Now()
	for id, old := range s.tokens {
		if !now.Before(old.expires) {
			delete(s.tokens, id)
		}
	}
	t.id, t.issued = s.newTokenID(), now
	t.audit = append([]string{t.id[len(t.id)-22:]}, t.audit...)
	if t.expires.IsZero() {
		t.expires = now.Add(s.options.TokenLife)
	}
	s.tokens[t.id] = t
}

// identify finds the user who logs in. All given methods must agree.
func (s *Service) identify(body authBody) (*token, error) {
	t := &token{methods: body.Auth.Identity.Methods}
	for _, method := range t.methods {
		var (
			who *user
			err error
		)
		switch method {
		case "password":
			who, err = s.userWithPassword(body.Auth.Identity.Password.User)
		case "token":
			who, err = s.userWithToken(t, body.Auth.Identity.Token.ID)
		case "application_credential":
			who, err = s.userWithApplicationCredential(t, body)
		default:
			err = s.unauthorized()
		}
		switch {
		case err != nil:
			return nil, err
		case who == nil, who.disabled, t.user != nil && t.user != who:
			return nil, s.unauthorized()
		}
		t.user = who
	}
	if t.user == nil {
		return nil, s.unauthorized()
	}
	return t, nil
}

func (s *Service) userWithPassword(b userBody) (*user, error) {
	if b.ID == "" && b.Name == "" {
		return nil, malformed("Expecting to find id or name in user.")
	}
	if b.ID == "" && b.Domain == (domainBody{}) {
		return nil, malformed("Expecting to find domain in user.")
	}
	u := s.findUser(b)
	if u == nil || b.Password == "" || b.Password != u.password {
		return nil, nil
	}
	return u, nil
}

// findUser finds a user by ID, or by name and domain.
func (s *Service) findUser(b userBody) *user {
	for _, u := range s.users {
		if b.ID != "" && u.id == b.ID || b.ID == "" && u.name == b.Name && u.domain.is(b.Domain) {
			return u
		}
	}
	return nil
}

func (d *domain) is(b domainBody) bool {
	if b.ID != "" {
		return d.id == b.ID
	}
	return b.Name != "" && d.name == b.Name
}

// userWithToken exchanges a token for another, which does not live longer than the first one. The
// new token stays within the trust or the application credential. An invalid token is a 404; all
// other failures are a 401.
func (s *Service) userWithToken(t *token, id string) (*user, error) {
	old := s.validToken(id)
	switch {
	case old == nil:
		return nil, noToken(id)
	case old.trust != nil:
		return nil, refuse(http.StatusForbidden,
			"You are not authorized to perform the requested action: "+
				"Using trust-scoped token to create another token. Create a new trust-scoped token instead.")
	case old.application != nil:
		return nil, refuse(http.StatusForbidden,
			"You are not authorized to perform the requested action: "+
				"Using a delegated token to create another token is not allowed..")
	}
	t.expires, t.audit = old.expires, old.audit[len(old.audit)-1:]
	t.methods = union(old.methods, t.methods)
	return old.user, nil
}

// noToken distinguishes a text that is not a token from an expired or revoked token.
func noToken(id string) error {
	if strings.HasPrefix(id, tokenPrefix) {
		return refuse(http.StatusNotFound, "Failed to validate token")
	}
	return refuse(http.StatusNotFound, "Could not recognize Fernet token")
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// userWithApplicationCredential logs in with an application credential. An unknown ID is a 404, an
// unknown name a 401.
func (s *Service) userWithApplicationCredential(t *token, body authBody) (*user, error) {
	b := body.Auth.Identity.ApplicationCredential
	if b.ID == "" && b.User == (userBody{}) {
		return nil, malformed("Expecting to find user in application credential.")
	}
	for _, a := range s.applications {
		byID := b.ID != "" && a.id == b.ID
		byName := b.ID == "" && a.name == b.Name && a.user == s.findUser(b.User)
		if !byID && !byName {
			continue
		}
		if b.Secret != a.secret {
			return nil, nil
		}
		t.application = a
		return a.user, nil
	}
	if b.ID != "" {
		return nil, refuse(http.StatusNotFound,
			"Could not find Application Credential: "+b.ID+".")
	}
	return nil, nil
}

// scope sets the token's project, if the user has a role there.
func (s *Service) scope(t *token, raw json.RawMessage) error {
	if t.application != nil {
		return s.scopeToApplication(t, raw)
	}
	var scope scopeBody
	if raw == nil || string(raw) == `"unscoped"` {
		return nil
	}
	if json.Unmarshal(raw, &scope) != nil {
		return malformed(
			"Expecting to find system, project, domain, OS-TRUST:trust or unscoped in scope.")
	}
	switch {
	case scope.Trust != nil:
		return s.scopeToTrust(t, scope.Trust.ID)
	case scope.Project != nil:
		return s.scopeToProject(t, scope.Project.ID, scope.Project.Name, scope.Project.Domain)
	}
	// No user has a role in a domain or in the system.
	return s.unauthorized()
}

// scopeToApplication sets the project of the application credential. A request for a scope, even
// for that project, is refused with the reason.
func (s *Service) scopeToApplication(t *token, raw json.RawMessage) error {
	if raw != nil {
		return s.unauthorizedBecause("Error authenticating with application credential: " +
			"Application credentials cannot request a scope.")
	}
	if !t.scopeTo(t.application.project) {
		return s.unauthorized()
	}
	return nil
}

func (s *Service) scopeToProject(t *token, id, name string, in domainBody) error {
	if id == "" && in == (domainBody{}) {
		return malformed("Expecting to find domain in project.")
	}
	for _, p := range s.projects {
		if id != "" && p.id == id || id == "" && p.name == name && p.domain.is(in) {
			if t.scopeTo(p) {
				return nil
			}
		}
	}
	return s.unauthorized()
}

func (t *token) scopeTo(p *project) bool {
	t.project, t.roles = p, t.user.grants[p.id]
	return len(t.roles) > 0
}

// scopeToTrust makes the trustee act as the trustor, like a trust with impersonation. A trust of
// another trustee exists, but is forbidden.
func (s *Service) scopeToTrust(t *token, id string) error {
	for _, trust := range s.trusts {
		if trust.id != id {
			continue
		}
		if trust.trustee != t.user || trust.trustor.disabled {
			return refuse(http.StatusForbidden,
				"You are not authorized to perform the requested action.")
		}
		t.trust, t.user = trust, trust.trustor
		if t.scopeTo(trust.project) {
			return nil
		}
	}
	return s.unauthorized()
}

// answer is the token in Keystone's form.
func (t *token) answer(r *request, status int) answer {
	return answer{
		Status: status,
		Header: http.Header{"X-Subject-Token": {t.id}, "Vary": {"X-Auth-Token"}},
		Body:   object{"token": t.view(r.server, !r.Query.Has("nocatalog"))},
	}
}

// view omits the catalog for a token without a project, because it has none.
func (t *token) view(s *Service, withCatalog bool) object {
	view := object{
		"methods":    t.methods,
		"user":       t.user.view(),
		"audit_ids":  t.audit,
		"issued_at":  identityTime(t.issued),
		"expires_at": identityTime(t.expires),
	}
	if t.project == nil {
		return view
	}
	view["project"] = t.project.view()
	view["is_domain"] = false
	view["roles"] = roleViews(t.roles)
	if withCatalog {
		view["catalog"] = s.catalog()
	}
	if t.application != nil {
		view["application_credential"] = object{
			"id": t.application.id, "name": t.application.name,
			"restricted": true,
		}
	}
	if t.trust != nil {
		view["OS-TRUST:trust"] = object{
			"id": t.trust.id, "impersonation": true,
			"trustor_user": object{"id": t.trust.trustor.id},
			"trustee_user": object{"id": t.trust.trustee.id},
		}
	}
	return view
}

func (d *domain) view() object { return object{"id": d.id, "name": d.name} }

func (p *project) view() object {
	return object{"id": p.id, "name": p.name, "domain": p.domain.view()}
}

func (u *user) view() object {
	return object{"id": u.id, "name": u.name, "domain": u.domain.view(), "password_expires_at": nil}
}

func roleViews(names []string) []object {
	views := []object{}
	for _, name := range names {
		views = append(views, object{"id": "role-" + name, "name": name})
	}
	return views
}

// identityTime has the form of microseconds, but Keystone's tokens (Fernet) have whole seconds.
func identityTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05") + ".000000Z" }

// onSubject serves requests about a token other than the caller's.
func (r *request) onSubject(action string, handle func(*token) (answer, error)) (answer, error) {
	id := r.Header.Get("X-Subject-Token")
	if id == "" {
		return answer{}, forbidden(action + "_token")
	}
	t := r.server.validToken(id)
	if t == nil {
		return answer{}, noToken(id)
	}
	return handle(t)
}

func getToken(r *request) (answer, error) {
	return r.onSubject("validate",
		func(t *token) (answer, error) { return t.answer(r, http.StatusOK), nil })
}

// deleteToken keeps the tokens for which this one was exchanged.
func deleteToken(r *request) (answer, error) {
	return r.onSubject("revoke", func(t *token) (answer, error) {
		t.revoked = true
		return api.NoContent(), nil
	})
}
