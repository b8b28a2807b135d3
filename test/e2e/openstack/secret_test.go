package openstack_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"k8s.io/client-go/rest"

	"github.com/fxccm/fxccm/provider/openstack/openstacktest"
)

// secrets are texts that must not appear in the log, the API server or the status.
type secrets struct {
	mu    sync.Mutex
	texts []string
	found []string
}

// tokenPrefix is the prefix of all tokens of the simulator.
const tokenPrefix = "gAAAAAB"

func newSecrets(c openstacktest.Credentials) *secrets {
	return &secrets{texts: []string{
		c.Password, c.TrusteePassword, c.ApplicationCredentialSecret,
		tokenPrefix,
	}}
}

// scan looks for the secrets in a text that is readable there.
func (s *secrets) scan(where, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, secret := range s.texts {
		if at := strings.Index(text, secret); at >= 0 {
			s.found = append(s.found,
				fmt.Sprintf("%s: …%s…", where,
					text[max(0, at-200):min(len(text), at+len(secret)+50)]))
		}
	}
}

func (s *secrets) told() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// watch scans everything that a client of the API server sends: Nodes, events, leases.
func (s *secrets) watch(cfg *rest.Config) *rest.Config {
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper { return secretWatch{next, s} })
	return cfg
}

type secretWatch struct {
	next    http.RoundTripper
	secrets *secrets
}

func (w secretWatch) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Body == nil {
		return w.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_ = req.Body.Close()
	w.secrets.scan(req.Method+" "+req.URL.Path, string(body))
	sent := req.Clone(req.Context())
	sent.Body = io.NopCloser(bytes.NewReader(body))
	return w.next.RoundTrip(sent)
}
