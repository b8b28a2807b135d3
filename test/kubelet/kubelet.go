// Package kubelet simulates a kubelet through which the API server forwards ports to pods.
package kubelet

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"
)

// defaultPort is the secure port of a pod unless a command says otherwise.
const defaultPort = "10258"

// Start serves until the test ends. All ports of all pods are ports of this machine, and securePort
// replaces the default port.
func Start(t *testing.T, securePort int) (port int) {
	t.Helper()
	var open sync.WaitGroup
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.URL.Path, "/portForward/") {
			http.NotFound(w, r)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{"portforward.k8s.io"}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 8)
		errors := map[string]httpstream.Stream{} // by request
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r,
			func(s httpstream.Stream, _ <-chan struct{}) error {
				streams <- s
				return nil
			})
		if connection == nil {
			return
		}
		defer func() { _ = connection.Close() }()
		for {
			select {
			case <-connection.CloseChan():
				return
			case s := <-streams:
				request := s.Headers().Get(v1.PortForwardRequestIDHeader)
				if s.Headers().Get(v1.StreamType) != v1.StreamTypeData {
					errors[request] = s
					continue
				}
				port := s.Headers().Get(v1.PortHeader)
				if port == defaultPort {
					port = strconv.Itoa(securePort)
				}
				to, err := net.Dial("tcp", "127.0.0.1:"+port)
				if err != nil {
					_, _ = fmt.Fprint(errors[request], err)
					_, _ = errors[request].Close(), s.Reset()
					continue
				}
				open.Go(func() {
					_, _ = io.Copy(to, s)
					_ = to.Close()
				})
				open.Go(func() {
					_, _ = io.Copy(s, to)
					_ = s.Close()
				})
			}
		}
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		open.Wait()
	})
	at, err := url.Parse(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	port, err = strconv.Atoi(at.Port())
	if err != nil {
		t.Fatal(err)
	}
	return port
}
