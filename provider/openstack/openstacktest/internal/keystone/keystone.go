package keystone

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest/internal/api"
)

// Path is the path of Keystone.
const Path = "/identity"

// Names that exist from the start.
const (
	// DefaultProject is the project of [Cloud.Credentials].
	DefaultProject = "demo"
	// DefaultDomain is the domain of projects without a given one; its ID is "default", as in each
	// OpenStack.
	DefaultDomain = "Default"
)

// Options configure Keystone; package openstacktest documents them.
type Options struct {
	TokenLife, TokenCache time.Duration
	Region                string
	// CertificatePEM returns the certificate of the cloud; "" without TLS.
	CertificatePEM func() string
}

// Service is Keystone.
type Service struct {
	*api.State
	options Options

	domains      []*domain
	projects     []*project
	users        []*user
	applications []*applicationCredential
	trusts       []*trust
	tokens       map[string]*token
	issued       uint64
}

// New returns a Keystone with the default project.
func New(state *api.State, options Options) *Service {
	s := &Service{
		State: state, options: options, tokens: map[string]*token{},
		domains: []*domain{{id: "default", name: DefaultDomain}},
	}
	state.DefaultProject = s.addProject(Project{Name: DefaultProject}).id
	return s
}

type (
	answer = api.Answer
	object = api.Object
	// handling executes an operation, or returns why it is refused.
	handling = func(*request) (answer, error)
)

// request is a request to Keystone. The token is the caller's, or nil if the operation needs none.
type request struct {
	*api.Request
	server *Service
	token  *token
}

// operation is an operation of Keystone at a path below v3.
func (s *Service) operation(
	name, method, path string, handle handling,
) api.Operation {
	return api.Operation{
		Service: api.ServiceIdentity, Name: name, Pattern: method + " " + Path + path,
		Handle: func(r *api.Request) (answer, error) {
			return handle(
				&request{Request: r, server: s, token: s.tokens[r.Header.Get("X-Auth-Token")]})
		},
	}
}

func open(op api.Operation) api.Operation {
	op.Open = true
	return op
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
	// grants are the roles by project ID.
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

// token is a login. A token without a project is unscoped, and valid only for Keystone.
type token struct {
	id              string
	user            *user
	project         *project
	roles           []string
	methods         []string
	application     *applicationCredential
	trust           *trust
	issued, expires time.Time
	// audit is the token's own audit ID, and that of the first login of its chain.
	audit []string
	// revoked tokens are kept until they expire, because services may have them in their caches.
	// accepted is when a service last asked Keystone about the token.
	revoked  bool
	accepted time.Time
}

// Operations are the operations of Keystone.
func (s *Service) Operations() []api.Operation {
	return append([]api.Operation{
		open(s.operation("version_list", "GET", "/{$}", identityVersions)),
		open(s.operation("version_list", "GET", "", identityVersions)),
		open(s.operation("version_get", "GET", "/v3/{$}", identityVersion)),
		open(s.operation("version_get", "GET", "/v3", identityVersion)),
		open(s.operation("token_create", "POST", "/v3/auth/tokens", createToken)),
		s.operation("token_get", "GET", "/v3/auth/tokens", getToken),
		s.operation("token_delete", "DELETE", "/v3/auth/tokens", deleteToken),
		s.operation("catalog_get", "GET", "/v3/auth/catalog", getCatalog),
	}, s.userOperations()...)
}

// newIdentityID creates an ID in Keystone's form: without hyphens.
func (s *Service) newIdentityID() string { return strings.ReplaceAll(s.NewID(), "-", "") }

// tokenPrefix is the beginning of current Fernet tokens: the version and the first bytes of the
// time of creation.
const tokenPrefix = "gAAAAAB"

// newTokenID creates an ID without meaning, which no other cloud has. The same calls create the
// same IDs, if the port is the same.
func (s *Service) newTokenID() string {
	s.issued++
	sum := sha256.Sum256(fmt.Appendf(nil, "%s token %d", s.URL, s.issued))
	return tokenPrefix + hex.EncodeToString(sum[:])
}

// domainNamed finds or creates a domain.
func (s *Service) domainNamed(name string) *domain {
	if name == "" {
		name = DefaultDomain
	}
	for _, d := range s.domains {
		if d.name == name {
			return d
		}
	}
	d := &domain{id: s.newIdentityID(), name: name}
	s.domains = append(s.domains, d)
	return d
}

// Authenticate finds the caller by the token of a request. The caller of Authenticate holds the
// lock.
func (s *Service) Authenticate(service string, r *http.Request) (api.Caller, error) {
	id := r.Header.Get("X-Auth-Token")
	t := s.validToken(id)
	if service != api.ServiceIdentity {
		t = s.tokenOfService(id)
	}
	if t == nil {
		return api.Caller{}, s.unauthorized()
	}
	if t.project == nil && service != api.ServiceIdentity {
		return api.Caller{}, refuse(http.StatusForbidden,
			"Policy doesn't allow this to be performed without a project.")
	}
	caller := api.Caller{Admin: slices.Contains(t.roles, "admin")}
	if t.project != nil {
		caller.ProjectID = t.project.id
	}
	return caller, nil
}

// validToken returns a valid token, or nil.
func (s *Service) validToken(id string) *token {
	t := s.tokens[id]
	if t == nil || t.revoked || !s.Clock.Now().Before(t.expires) {
		return nil
	}
	return t
}

// tokenOfService returns a token that services other than Keystone accept. They ask Keystone about
// a token and share the cached answer (keystonemiddleware, token_cache_time and memcached_servers).
// So they may accept a token after its revocation; see [WithTokenCache].
func (s *Service) tokenOfService(id string) *token {
	t, now := s.tokens[id], s.Clock.Now()
	if t != nil && !t.accepted.IsZero() && now.Before(t.expires) &&
		now.Before(t.accepted.Add(s.options.TokenCache)) {
		return t
	}
	if t = s.validToken(id); t != nil {
		t.accepted = now
	}
	return t
}

// unauthorized is Keystone's refusal of most failed logins. It does not contain the reason.
func (s *Service) unauthorized() error {
	return s.unauthorizedBecause("The request you have made requires authentication.")
}

func (s *Service) unauthorizedBecause(text string) error {
	return &api.RefusedError{
		Status: http.StatusUnauthorized, Text: text,
		Header: http.Header{"Www-Authenticate": {fmt.Sprintf("Keystone uri=%q", s.URL+Path)}},
	}
}

func refuse(status int, text string) error { return api.Refuse(status, "%s", text) }

// forbidden refuses an action, which is named as in Keystone's policy.
func forbidden(action string) error {
	return refuse(http.StatusForbidden,
		"You are not authorized to perform the requested action: identity:"+action+".")
}
