package controlplane

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// bindAttempts is how many ports a process is started on if they are in use.
const bindAttempts = 5

// errPortTaken means that a server could not bind its port.
var errPortTaken = errors.New("the port is in use")

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// saysPortTaken reports whether the log shows that the server ended because its port was in use.
func saysPortTaken(log string) bool {
	return strings.Contains(log, "address already in use") ||
		strings.Contains(log, "Only one usage of each socket address") // Windows
}
