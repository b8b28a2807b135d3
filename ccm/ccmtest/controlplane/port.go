package controlplane

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
)

// Ports are taken from below the ranges that Linux (32768 up), macOS and Windows (49152 up) hand
// out to outgoing connections and to listeners on port 0: a port of those could be taken by any
// program between the check and the server's bind, or while a test has the API server stopped. What
// remains is another control plane's choice of the same port, which a retry answers.
const (
	firstPort = 20000
	lastPort  = 31999
)

// bindAttempts is how often a process is started on another port because its port was taken.
const bindAttempts = 5

// errPortTaken says that a server could not bind its port.
var errPortTaken = errors.New("the port is in use")

// freePort returns a port of the loopback interface without a listener.
func freePort() (int, error) {
	var last error
	for range 100 {
		port := firstPort + rand.IntN(lastPort-firstPort+1)
		l, err := net.Listen("tcp", loopback(port))
		if err != nil {
			last = err
			continue
		}
		if err := l.Close(); err != nil {
			return 0, fmt.Errorf("give back port %d: %w", port, err)
		}
		return port, nil
	}
	return 0, fmt.Errorf("find a free port from %d to %d: %w", firstPort, lastPort, last)
}

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// saysPortTaken tells from a server's log whether it ended because of its port.
func saysPortTaken(log string) bool {
	return strings.Contains(log, "address already in use") ||
		strings.Contains(log, "Only one usage of each socket address") // Windows
}
