package openstacktest

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
)

func TestListener_OfTheCaller_IsServedAfterTheSetUp(t *testing.T) {
	listener, err := (&net.ListenConfig{}).Listen(patiently(t), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// A client that connects before the cloud serves waits in the listener's queue.
	connection, err := (&net.Dialer{}).DialContext(patiently(t), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer connection.Close()
	if _, err := io.WriteString(connection,
		"GET /compute HTTP/1.1\r\nHost: cloud\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	s := start(t, WithListener(listener))
	if s.URL() != "http://"+listener.Addr().String() {
		t.Errorf("the cloud is at %s", s.URL())
	}
	answer, err := io.ReadAll(connection)
	if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 OK") {
		t.Errorf("the early client reads %q, %v", answer, err)
	}
}

func TestClose_FreesTheAddressAndIsIdempotent(t *testing.T) {
	s := start(t)
	s.Close()
	s.Close()
	listener, err := (&net.ListenConfig{}).Listen(patiently(t), "tcp",
		strings.TrimPrefix(s.URL(), "http://"))
	if err != nil {
		t.Fatal(err)
	}
	listener.Close()
}

func TestRequestIDs_DifferFromEachOther(t *testing.T) {
	s := start(t)
	first, second := send(t, s, "GET", "/compute", ""),
		ask(t, s, "GET", computePath+"/servers/none", "")
	a, b := first.header.Get("X-Openstack-Request-Id"), second.header.Get("X-Openstack-Request-Id")
	if first.status != http.StatusOK || !strings.HasPrefix(a, "req-") ||
		!strings.HasPrefix(b, "req-") || a == b {
		t.Errorf("the ids are %q and %q", a, b)
	}
}
