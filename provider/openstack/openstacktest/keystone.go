package openstacktest

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
)

const identityPath = "/identity"

// Names that a cloud has from its start.
const (
	// DefaultProject is the project of [Cloud.Credentials].
	DefaultProject = "demo"
	// DefaultDomain is the domain of projects that are given none; its id is "default", as in each OpenStack.
	DefaultDomain = "Default"
)

// identity is what Keystone knows.
type identity struct {
	domains      []*domain
	projects     []*project
	users        []*user
	applications []*applicationCredential
	trusts       []*trust
	tokens       map[string]*token
	issued       uint64
}

type domain struct{ id, name string }

type project struct {
	id, name string
	domain   *domain
}

type user struct {
	id, name, password string
	domain             *domain
	disabled           bool
	// grants are the roles by project id.
	grants map[string][]string
}

// applicationCredential lets a program log in as user, to one project.
type applicationCredential struct {
	id, name, secret string
	user             *user
	project          *project
}

// trust lets the trustee act in a project as the trustor.
type trust struct {
	id               string
	trustor, trustee *user
	project          *project
}

// token is a login. A nil project: it is not scoped, and good for nothing but Keystone.
type token struct {
	id              string
	user            *user
	project         *project
	roles           []string
	methods         []string
	application     *applicationCredential
	trust           *trust
	issued, expires time.Time
	// audit is the token's own audit id, and that of the login it goes back to.
	audit []string
	// revoked tokens are kept until they expire: services may have them in their caches. accepted is when one asked Keystone last.
	revoked  bool
	accepted time.Time
}

// projectID is the project that the caller acts in; "" for none.
func (r *request) projectID() string {
	if r.token == nil || r.token.project == nil {
		return ""
	}
	return r.token.project.id
}

// isAdmin tells whether the caller may see and change what is other projects'.
func (r *request) isAdmin() bool {
	return r.token != nil && slices.Contains(r.token.roles, "admin")
}

func (s *Cloud) setUpIdentity(mux *http.ServeMux) {
	s.identity.tokens = map[string]*token{}
	s.identity.domains = []*domain{{id: "default", name: DefaultDomain}}
	s.addProject(Project{Name: DefaultProject})
	s.register(
		mux,
		operation{service: ServiceIdentity, name: "version_list", pattern: "GET " + identityPath + "/{$}", open: true, handle: identityVersions},
		operation{service: ServiceIdentity, name: "version_list", pattern: "GET " + identityPath, open: true, handle: identityVersions},
		operation{service: ServiceIdentity, name: "version_get", pattern: "GET " + identityPath + "/v3/{$}", open: true, handle: identityVersion},
		operation{service: ServiceIdentity, name: "version_get", pattern: "GET " + identityPath + "/v3", open: true, handle: identityVersion},
		operation{service: ServiceIdentity, name: "token_create", pattern: "POST " + identityPath + "/v3/auth/tokens", open: true, handle: createToken},
		operation{service: ServiceIdentity, name: "token_get", pattern: "GET " + identityPath + "/v3/auth/tokens", handle: getToken},
		operation{service: ServiceIdentity, name: "token_delete", pattern: "DELETE " + identityPath + "/v3/auth/tokens", handle: deleteToken},
		operation{service: ServiceIdentity, name: "catalog_get", pattern: "GET " + identityPath + "/v3/auth/catalog", handle: getCatalog},
		operation{service: ServiceIdentity, name: "auth_project_list", pattern: "GET " + identityPath + "/v3/auth/projects", handle: listAuthProjects},
	)
	s.setUpUsers(mux)
}

// newIdentityID makes an id as Keystone does: without hyphens.
func (s *Cloud) newIdentityID() string { return strings.ReplaceAll(s.newID(), "-", "") }

// tokenPrefix is what Fernet tokens begin with in our time: the version and the first bytes of when they were made.
const tokenPrefix = "gAAAAAB"

// newTokenID makes an id that tells nothing, and that no other cloud has. The same calls give the same ids, but for the port.
func (s *Cloud) newTokenID() string {
	s.identity.issued++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s token %d", s.URL(), s.identity.issued))
	return tokenPrefix + hex.EncodeToString(sum[:])
}

// domainNamed finds a domain, or makes it.
func (s *Cloud) domainNamed(name string) *domain {
	if name == "" {
		name = DefaultDomain
	}
	for _, d := range s.identity.domains {
		if d.name == name {
			return d
		}
	}
	d := &domain{id: s.newIdentityID(), name: name}
	s.identity.domains = append(s.identity.domains, d)
	return d
}

// authenticate finds the caller's token. Without a valid one the answer is the refusal. It is called with the lock held.
func (s *Cloud) authenticate(service string, r *http.Request) (*token, answer) {
	id := r.Header.Get("X-Auth-Token")
	t := s.validToken(id)
	if service != ServiceIdentity {
		t = s.tokenOfService(id)
	}
	if t == nil {
		return nil, s.unauthorized()
	}
	if t.project == nil && service != ServiceIdentity {
		return nil, failure(service, http.StatusForbidden, "Policy doesn't allow this to be performed without a project.")
	}
	return t, answer{}
}

// validToken is nil for a token that Keystone does not know, or no longer.
func (s *Cloud) validToken(id string) *token {
	t := s.identity.tokens[id]
	if t == nil || t.revoked || !s.clock.Now().Before(t.expires) {
		return nil
	}
	return t
}

// tokenOfService is what the services other than Keystone take for valid: they ask Keystone about a token, and remember the answer for
// a while, all together (keystonemiddleware, token_cache_time and memcached_servers). So a token may outlive its revocation; see
// [WithTokenCache].
func (s *Cloud) tokenOfService(id string) *token {
	t, now := s.identity.tokens[id], s.clock.Now()
	if t != nil && !t.accepted.IsZero() && now.Before(t.expires) && now.Before(t.accepted.Add(s.settings.tokenCache)) {
		return t
	}
	if t = s.validToken(id); t != nil {
		t.accepted = now
	}
	return t
}

// unauthorized is what Keystone answers to most that is wrong with a login: it does not say what.
func (s *Cloud) unauthorized() answer {
	a := identityFailure(http.StatusUnauthorized, "The request you have made requires authentication.")
	a.header = http.Header{"Www-Authenticate": {fmt.Sprintf("Keystone uri=%q", s.URL()+identityPath)}}
	return a
}

// redactBody is what may be recorded of a request's body: nothing where passwords and keys are.
func redactBody(op operation, body []byte) []byte {
	switch {
	case op.service == ServiceIdentity, op.service == ServiceKeyManager, op.name == "server_create", op.name == "server_action":
		return nil
	}
	return body
}
