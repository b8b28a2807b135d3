package neutron

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

func TestExplain_GoesByNeutronsType(t *testing.T) {
	for _, c := range []struct {
		status     int
		kind, text string
		want       error
	}{
		{409, "IpAddressGenerationFailure", "", ErrNoAddress},
		{409, "IpAddressGenerationFailureAllSubnets", "", ErrNoAddress},
		{400, "ExternalIpAddressExhausted", "", ErrNoAddress},
		{409, "Conflict", "No more IP addresses available on network x.", ErrNoAddress},
		{409, "IpAddressInUse", "", nil},
		{409, "OverQuota", "", nil},
		{409, "FloatingIPPortAlreadyAssociated", "", nil},
		{409, "SomethingElse", "", nil},
		{404, "FloatingIPNotFound", "", ErrNotFound},
		{403, "PolicyNotAuthorized", "", nil},
		{500, "HTTPInternalServerError", "No more IP addresses", nil},
	} {
		told := gophercloud.ErrUnexpectedResponseCode{
			Actual: c.status,
			Body: fmt.Appendf(nil, `{"NeutronError":{"type":%q,"message":%q,"detail":""}}`,
				c.kind, c.text),
		}
		err := explain(told)
		var code gophercloud.ErrUnexpectedResponseCode
		if !errors.As(err, &code) {
			t.Errorf("%d %s: the error lacks Neutron's own text: %v", c.status, c.kind, err)
		}
		for _, known := range []error{ErrNotFound, ErrNoAddress} {
			if got := errors.Is(err, known); got != (known == c.want) {
				t.Errorf("%d %s %s: is %q: %v", c.status, c.kind, c.text, known, got)
			}
		}
	}
	page := gophercloud.ErrUnexpectedResponseCode{Actual: 409, Body: []byte("<html>")}
	if err := explain(page); err.Error() != page.Error() {
		t.Errorf("a proxy's page became %v", err)
	}
}
