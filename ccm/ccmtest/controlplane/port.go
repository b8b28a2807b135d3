package controlplane

import (
	"errors"
	"strings"
)

// bindAttempts is how many ports a process is started on if they are in use.
const bindAttempts = 5

// errPortTaken means that a server could not bind its port.
var errPortTaken = errors.New("the port is in use")

// saysPortTaken reports whether the log shows that the server ended because its port was in use.
func saysPortTaken(log string) bool {
	return strings.Contains(log, "address already in use") ||
		strings.Contains(log, "Only one usage of each socket address") // Windows
}
