package ccm

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

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
	if advice == "" {
		return err.Error()
	}
	return fmt.Sprintf("%s: %s", advice, err)
}
