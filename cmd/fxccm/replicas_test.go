package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

const tokenOfUser = "t0ken-of-the-user"

// unreachable writes a kubeconfig with credentials of a cluster that does not answer.
func unreachable(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "admin.conf")
	const content = `apiVersion: v1
kind: Config
clusters: [{name: a, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: a, user: {token: ` + tokenOfUser + `}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
current-context: a
`
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// recordFirstBytes accepts connections and sends the first bytes of each.
func recordFirstBytes(t *testing.T) (address string, received <-chan string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	all := make(chan string, 100)
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			buffer := make([]byte, 4096)
			_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
			n, _ := conn.Read(buffer)
			_, _ = conn.Write([]byte("HTTP/1.0 400 Bad Request\r\n\r\n")) // it is not retried
			_ = conn.Close()
			all <- string(buffer[:n])
		}
	}()
	return listener.Addr().String(), all
}

func TestServer_WithoutAScheme_GetsNoCredentialsInPlainText(t *testing.T) {
	for name, command := range map[string][]string{
		"status":       {"status"},
		"fleet status": {"fleet", "status"},
	} {
		address, received := recordFirstBytes(t)
		args := append(command, "--kubeconfig="+unreachable(t), "--server="+address)
		if code, stdout, _ := runSubcommand(args...); code != exitFailed {
			t.Errorf("%s: exit code %d: %s", name, code, stdout)
		}
		const handshake = "\x16" // the type of a TLS record
		if first := <-received; !strings.HasPrefix(first, handshake) {
			t.Errorf("%s: the server received %q, want a TLS handshake", name, first)
		}
	}
}

func TestServer_NoHTTPSURLOrWithSecrets_IsAUsageErrorThatDoesNotQuoteIt(t *testing.T) {
	address, received := recordFirstBytes(t)
	kubeconfig := unreachable(t)
	const secret = "s3cret"
	for server, want := range map[string]string{
		"http://" + address:                           "must be an https URL",
		"HTTP://" + address:                           "must be an https URL",
		"https://admin:" + secret + "@" + address:     "no password",
		"admin:" + secret + "@" + address:             "no password",
		"https://" + address + "?token=" + secret:     "no query",
		address + "?token=" + secret:                  "no query",
		address + "#" + secret:                        "no fragment",
		"https://admin:" + secret + "%zz@" + address:  "is not a host",
		`https://admin:"` + secret + `"@` + address:   "is not a host",
		"https://admin:" + secret + ",b@" + address:   "is not a host",
		"https://:" + secret:                          "is not a host",
		"127.0.0.1:1," + "admin:" + secret + "@b:443": "no password",
	} {
		for _, command := range [][]string{
			{"status"},
			{"fleet", "status"},
			{"describe", "service/web"},
		} {
			args := append(command, "--kubeconfig="+kubeconfig, "--server="+server)
			code, stdout, stderr := runSubcommand(args...)
			if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, want) ||
				strings.Contains(stderr, secret) {
				t.Errorf("%q: exit code %d, %q, %q, want %q", args, code, stdout, stderr, want)
			}
		}
	}
	select {
	case first := <-received:
		t.Errorf("the server received %q", first)
	default:
	}
}
