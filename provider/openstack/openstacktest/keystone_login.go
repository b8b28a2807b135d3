package openstacktest

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"
)

// authBody is the body of POST /v3/auth/tokens.
type authBody struct {
	Auth struct {
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
	Domain *domainBody      `json:"domain"`
	System *json.RawMessage `json:"system"`
	Trust  *struct {
		ID string `json:"id"`
	} `json:"OS-TRUST:trust"`
}

// createToken logs in. Every reason why it cannot is the same 401, as Keystone's.
func createToken(r *request) answer {
	var body authBody
	if err := r.decode(&body); err != nil {
		return identityFailure(http.StatusBadRequest, err.Error())
	}
	if len(body.Auth.Identity.Methods) == 0 {
		return identityFailure(http.StatusBadRequest, "Invalid input for field 'identity/methods': [] is too short")
	}
	t := r.server.identify(body)
	if t == nil || !r.server.scope(t, body.Auth.Scope) {
		return r.server.unauthorized()
	}
	r.server.issue(t)
	return t.answer(r, http.StatusCreated)
}

// issue makes the token valid.
func (s *Server) issue(t *token) {
	now := s.clock.Now()
	for id, old := range s.identity.tokens {
		if !now.Before(old.expires) {
			delete(s.identity.tokens, id)
		}
	}
	t.id, t.issued = s.newTokenID(), now
	if t.expires.IsZero() {
		t.expires = now.Add(s.settings.tokenLife)
	}
	s.identity.tokens[t.id] = t
}

// identify finds who logs in. All methods that are named must agree. Nil: nobody.
func (s *Server) identify(body authBody) *token {
	t := &token{methods: body.Auth.Identity.Methods}
	for _, method := range t.methods {
		var who *user
		switch method {
		case "password":
			who = s.userWithPassword(body.Auth.Identity.Password.User)
		case "token":
			who = s.userWithToken(t, body.Auth.Identity.Token.ID)
		case "application_credential":
			who = s.userWithApplicationCredential(t, body)
		}
		if who == nil || (t.user != nil && t.user != who) {
			return nil
		}
		t.user = who
	}
	return t
}

func (s *Server) userWithPassword(b userBody) *user {
	u := s.findUser(b)
	if u == nil || b.Password == "" || b.Password != u.password {
		return nil
	}
	return u
}

// findUser finds a user by id, or by name and domain.
func (s *Server) findUser(b userBody) *user {
	for _, u := range s.identity.users {
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

// userWithToken exchanges a token for another. It lives no longer than the first one, and neither a trust nor an application
// credential can be left that way.
func (s *Server) userWithToken(t *token, id string) *user {
	old := s.validToken(id)
	if old == nil || old.trust != nil || old.application != nil {
		return nil
	}
	t.expires = old.expires
	t.methods = union(old.methods, t.methods)
	return old.user
}

func union(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

func (s *Server) userWithApplicationCredential(t *token, body authBody) *user {
	b := body.Auth.Identity.ApplicationCredential
	for _, a := range s.identity.applications {
		byID := b.ID != "" && a.id == b.ID
		byName := b.ID == "" && a.name == b.Name && a.user == s.findUser(b.User)
		if (byID || byName) && b.Secret == a.secret {
			t.application = a
			return a.user
		}
	}
	return nil
}

// scope gives the token its project, if the user has a role there.
func (s *Server) scope(t *token, raw json.RawMessage) bool {
	if t.application != nil {
		// Its project is its own, and asking for one is refused.
		return raw == nil && t.scopeTo(t.application.project)
	}
	var scope scopeBody
	if raw == nil || string(raw) == `"unscoped"` {
		return true
	}
	if json.Unmarshal(raw, &scope) != nil {
		return false
	}
	switch {
	case scope.Trust != nil:
		return s.scopeToTrust(t, scope.Trust.ID)
	case scope.Project != nil:
		for _, p := range s.identity.projects {
			byID := scope.Project.ID != "" && p.id == scope.Project.ID
			byName := scope.Project.ID == "" && p.name == scope.Project.Name && p.domain.is(scope.Project.Domain)
			if byID || byName {
				return t.scopeTo(p)
			}
		}
	}
	// Nobody has a role in a domain or in the system.
	return false
}

func (t *token) scopeTo(p *project) bool {
	t.project, t.roles = p, t.user.grants[p.id]
	return len(t.roles) > 0
}

// scopeToTrust makes the trustee the trustor, as a trust with impersonation does.
func (s *Server) scopeToTrust(t *token, id string) bool {
	for _, trust := range s.identity.trusts {
		if trust.id == id && trust.trustee == t.user {
			t.trust, t.user = trust, trust.trustor
			return t.scopeTo(trust.project)
		}
	}
	return false
}

// answer is the token as Keystone shows it.
func (t *token) answer(r *request, status int) answer {
	return answer{
		status: status,
		header: http.Header{"X-Subject-Token": {t.id}, "Vary": {"X-Auth-Token"}},
		body:   object{"token": t.view(r.server, !r.query.Has("nocatalog"))},
	}
}

// view leaves out the catalog of a token without a project: such a token has none.
func (t *token) view(s *Server, withCatalog bool) object {
	view := object{
		"methods":    t.methods,
		"user":       t.user.view(),
		"audit_ids":  []string{t.id[len(t.id)-22:]},
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
		view["application_credential"] = object{"id": t.application.id, "name": t.application.name, "restricted": true}
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

func (p *project) view() object { return object{"id": p.id, "name": p.name, "domain": p.domain.view()} }

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

func identityTime(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z") }

// subject is the token that a request is about.
func (r *request) subject() *token { return r.server.validToken(r.Header.Get("X-Subject-Token")) }

func getToken(r *request) answer {
	t := r.subject()
	if t == nil {
		return identityFailure(http.StatusNotFound, "Could not find token.")
	}
	return t.answer(r, http.StatusOK)
}

func deleteToken(r *request) answer {
	t := r.subject()
	if t == nil {
		return identityFailure(http.StatusNotFound, "Could not find token.")
	}
	delete(r.server.identity.tokens, t.id)
	return noContent()
}

func listAuthProjects(r *request) answer {
	views := []object{}
	for _, p := range r.server.identity.projects {
		if len(r.token.user.grants[p.id]) > 0 {
			view := p.view()
			view["domain_id"], view["enabled"] = p.domain.id, true
			views = append(views, view)
		}
	}
	return ok(object{"projects": views, "links": object{"next": nil, "previous": nil, "self": r.server.URL() + r.URL.Path}})
}
