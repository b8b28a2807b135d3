package controlplane

import (
	"errors"
	"net"
	"strconv"
	"strings"
)

// bindAttempts is how often a process is started on another port because its port was taken.
const bindAttempts = 5

// errPortTaken says that a server could not bind its port.
var errPortTaken = errors.New("the port is in use")

func loopback(port int) string {
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
}

// saysPortTaken tells from a server's log whether it ended because of its port.
func saysPortTaken(log string) bool {
	return strings.Contains(log, "address already in use") ||
		strings.Contains(log, "Only one usage of each socket address") // Windows
}
