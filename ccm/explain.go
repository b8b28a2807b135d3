package ccm

import (
	"context"
	"crypto/x509"
	"errors"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/fxccm/fxccm/internal/printable"
)

// maxReason is how many characters of an error are in a reason of the status. Parts of the error
// may be the API server's. The last lines of a provider's process have 2,400 characters.
const maxReason = 4096

// explain adds the probable cause and the remedy to an error of the API server.
func explain(err error) string {
	advice := ""
	var unknownCA x509.UnknownAuthorityError
	var dns *net.DNSError
	switch {
	case apierrors.IsForbidden(err):
		advice = "the CCM's identity lacks RBAC rules; " +
			"the rules it needs are in deploy/base/rbac.yaml"
	case apierrors.IsUnauthorized(err):
		advice = "the API server does not accept the CCM's credentials"
	case errors.As(err, &unknownCA):
		advice = "the API server's certificate is not signed by the CA that the kubeconfig trusts"
	case errors.As(err, &dns):
		advice = "the API server's host name does not resolve"
	case utilnet.IsConnectionRefused(err), utilnet.IsConnectionReset(err):
		advice = "the API server is down or its address is wrong"
	case utilnet.IsTimeout(err), errors.Is(err, context.DeadlineExceeded):
		advice = "the API server did not answer in time"
	}
	text := printable.Text(err.Error(), maxReason)
	if advice == "" {
		return text
	}
	return advice + ": " + text
}
