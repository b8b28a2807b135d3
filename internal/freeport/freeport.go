// Package ports finds ports for processes that tests start.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports are below those that the system assigns, and apart from those of packages controlplane
// and netfault. So no other program takes one before the process binds it, except for another test
// that chooses the same.
const (
	first    = 10000
	last     = 19999
	attempts = 100
)

// Free returns a port of the loopback interface without a listener.
func Free() (int, error) {
	var err error
	for range attempts {
		port := first + rand.IntN(last-first+1)
		var listener net.Listener
		listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return port, listener.Close()
		}
	}
	return 0, fmt.Errorf("find a free port from %d to %d: %w", first, last, err)
}
