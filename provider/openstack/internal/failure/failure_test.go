package failure

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
)

const id = "00000000-0000-4000-8000-000000000000"

func response(status int, body string) error {
	return gophercloud.ErrUnexpectedResponseCode{
		URL: "http://cloud/v2/things?fields=id", Method: "POST", Expected: []int{200},
		Actual: status, Body: []byte(body),
	}
}

// The bodies are those of the services.
func TestError_EachBody_TextIsServiceStatusAndCause(t *testing.T) {
	for _, c := range []struct {
		service string
		status  int
		body    string
		want    string
	}{
		{
			"Neutron", 404, `{"NeutronError":{"type":"ExternalGatewayForFloatingIPNotFound","message":` +
				`"External network a is not reachable from subnet b.  Therefore, cannot associate ` +
				`Port c with a Floating IP.","detail":""}}`,
			"Neutron: 404 External network a is not reachable from subnet b",
		},
		{
			"Octavia", 400,
			`{"faultcode":"Client","faultstring":"Subnet ` + id + ` not found.","debuginfo":null}`,
			"Octavia: 400 Subnet " + id + " not found",
		},
		{
			"Octavia", 404,
			`{"code":404,"title":"Not Found","description":"Pool ` + id + ` not found."}`,
			"Octavia: 404 Pool " + id + " not found",
		},
		{
			"Nova", 500, `{"computeFault":{"code":500,"message":` +
				`"Unexpected API Error. Please report this. (Request-ID: req-` + id + `)"}}`,
			"Nova: 500 Unexpected API Error",
		},
		{
			"Neutron", 400, `{"NeutronError":{"type":"HTTPBadRequest","message":` +
				`"Invalid format for routes: [{'nexthop': 'a'}, {'nexthop': 'b'}], it is not connected"}}`,
			"Neutron: 400 Invalid format for routes: it is not connected",
		},
		{
			"Octavia", 500, `{"faultcode":"Server","faultstring":"Provider 'ovn' reports error: No more ` +
				`IP addresses available.\nNeutron server returns request_ids: ['req-` + id + `']"}`,
			"Octavia: 500 Provider 'ovn' reports error: No more IP addresses available",
		},
		{"Nova", 503, `<html><body>No server is available</body></html>`, "Nova: 503 Service Unavailable"},
		{"", 503, ``, "OpenStack: 503 Service Unavailable"},
	} {
		err := New(c.service, "thing_list", response(c.status, c.body))
		if got := err.Error(); got != c.want+" (thing_list)" {
			t.Errorf("the text is %q, want %q", got, c.want+" (thing_list)")
		}
		if !gophercloud.ResponseCodeIs(err, c.status) {
			t.Errorf("%v: the response is lost", err)
		}
	}
}

func TestError_WithoutResponse_HasNoURLAndNothingThatDiffersEachTime(t *testing.T) {
	address := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 9696}
	local := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 2), Port: 54321}
	for cause, want := range map[error]string{
		&net.OpError{
			Op: "read", Net: "tcp", Source: local, Addr: address, Err: errors.New("reset"),
		}: "Neutron: read 192.0.2.1:9696: reset",
		io.ErrUnexpectedEOF: "Neutron: unexpected EOF",
		&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err:  "read udp 192.0.2.2:54321->192.0.2.53:53: i/o timeout",
			Name: "cloud", Server: "192.0.2.53:53",
		}}: "Neutron: lookup cloud on 192.0.2.53:53: i/o timeout",
		&net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{
			Err: "no such host", Name: "cloud", IsNotFound: true,
		}}: "Neutron: lookup cloud: no such host",
		&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{
			Reason: x509.Expired,
			Detail: "current time 2026-05-01T12:00:00Z is after 2026-04-01T00:00:00Z",
		}}: "Neutron: certificate has expired or is not yet valid: after 2026-04-01T00:00:00Z",
	} {
		err := New("Neutron", "", &url.Error{Op: "Get", URL: "http://cloud/v2", Err: cause})
		if err.Error() != want || !errors.Is(err, cause) {
			t.Errorf("the text is %q, want %q", err, want)
		}
	}
	// The status, the type of the content and the certificate are the server's.
	hostile := &url.Error{Op: "Get", URL: "http://cloud", Err: errors.New("500 \x1b[2J" +
		strings.Repeat("x", 1<<20))}
	if got := New("Neutron", "", hostile).Error(); len(got) > 1000 ||
		strings.Contains(got, "\x1b") {
		t.Errorf("the text has %d bytes: %.100q", len(got), got)
	}
	other := errors.New("something else")
	if New("Neutron", "", other) != other || Of(other) != nil {
		t.Error("an error of another kind was changed")
	}
}

func TestIsGone_GoesByWhatTheMessageNames(t *testing.T) {
	neutron := func(kind, message string) string {
		return fmt.Sprintf(`{"NeutronError":{"type":%q,"message":%q,"detail":""}}`, kind, message)
	}
	octavia := func(message string) string {
		return fmt.Sprintf(`{"faultcode":"Client","faultstring":%q,"debuginfo":null}`, message)
	}
	chosen := strings.ReplaceAll(id, "8", "9")
	for _, c := range []struct {
		operation, body string
		want            bool
	}{
		{"floating_ip_update", neutron("FloatingIPNotFound", "Floating IP "+id+" could not be found"), true},
		{"floating_ip_create", neutron("PortNotFound", "Port "+id+" could not be found."), true},
		{"floating_ip_create", neutron("NetworkNotFound", "Network "+chosen+" could not be found."), false},
		{"floating_ip_update", neutron(NoExternalGateway, "External network "+id+" is not reachable"), false},
		{"loadbalancer_members_update", octavia("Pool " + id + " not found."), true},
		{"loadbalancer_members_update", octavia("Subnet " + chosen + " not found."), false},
		{"loadbalancer_listener_create", octavia("Load Balancer " + id + " not found."), true},
		{"floating_ip_create", neutron("HTTPNotFound", "The resource could not be found."), false},
		{"floating_ip_update", `<html>`, false},
		{"loadbalancer_listener_update", `{"code":404,"title":"Not Found","description":"The resource could not be found."}`, false},
	} {
		err := New("", c.operation, response(http.StatusNotFound, c.body))
		if got := Of(err).IsGone(chosen, ""); got != c.want {
			t.Errorf("%s, %s: gone is %t", c.operation, c.body, got)
		}
	}
}
