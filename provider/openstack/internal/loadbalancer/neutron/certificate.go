package neutron

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/containers"
	"github.com/gophercloud/gophercloud/v2/openstack/keymanager/v1/secrets"

	"github.com/fxccm/fxccm/provider/kit/batch"
)

// certificatesAtATime is how many certificates are looked up concurrently.
const certificatesAtATime = 4

// certificate is the result of a lookup.
type certificate struct{ err error }

// CheckCertificate returns nil if Barbican shows the project the container or secret that the
// reference names; else the error wraps [ErrNoCertificate]. Existence is cached for 10 min. The
// content is not read.
func (a *API) CheckCertificate(ctx context.Context, ref string) error {
	found, _, err := a.certificates.One(ctx, ref)
	if err != nil {
		return err
	}
	return found.err
}

func (a *API) readCertificates(ctx context.Context, refs []string) (map[string]certificate, error) {
	errs := batch.InParallel(refs, certificatesAtATime,
		func(ref string) error { return a.readCertificate(ctx, ref) })
	found := map[string]certificate{}
	for i, ref := range refs {
		found[ref] = certificate{errs[i]}
	}
	return found, nil
}

// readCertificate reads from the key manager of the cloud, whatever host the reference names, so
// that no other host receives the token.
func (a *API) readCertificate(ctx context.Context, ref string) error {
	kind, id, err := parseCertificateRef(ref)
	if err != nil {
		return err
	}
	if a.config.KeyManager == nil {
		return fmt.Errorf("certificate %s: there is no key manager", ref)
	}
	client, err := a.config.KeyManager(ctx)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", ref, err)
	}
	if kind == "containers" {
		err = containers.Get(ctx, client, id).Err
	} else {
		err = secrets.Get(ctx, client, id).Err
	}
	switch {
	case gophercloud.ResponseCodeIs(err, http.StatusNotFound):
		return fmt.Errorf("%s: %w with the reference %s", barbican, ErrNoCertificate, ref)
	case err != nil:
		return fmt.Errorf("certificate %s: %w", ref, err)
	}
	return nil
}

// barbican is the service that texts about certificates name.
const barbican = "Barbican"

// parseCertificateRef parses …/containers/<id> or …/secrets/<id>. The ID becomes a part of a URL.
func parseCertificateRef(ref string) (kind, id string, err error) {
	parts := strings.Split(strings.TrimSuffix(ref, "/"), "/")
	if len(parts) >= 2 {
		kind, id = parts[len(parts)-2], parts[len(parts)-1]
	}
	if kind != "containers" && kind != "secrets" || !isID(id) {
		return "", "",
			fmt.Errorf("%s: %w with the reference %q, which does not end with "+
				"containers/<id> or secrets/<id>", barbican, ErrNoCertificate, ref)
	}
	return kind, id, nil
}

// isID reports whether a text may be an ID in Barbican, which is a UUID.
func isID(text string) bool {
	return text != "" && !strings.ContainsFunc(text, func(c rune) bool {
		return (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && c != '-'
	})
}
