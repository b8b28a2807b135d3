// Package freeport finds ports for the servers of tests.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The ports are below those that systems assign (Linux from 32768, macOS and Windows from 49152).
// So no other program takes one before a process binds it, or while its server is stopped. Another
// test may choose the same port.
const (
	first    = 10000
	last     = 31999
	attempts = 100
)

// Choose returns a port of the loopback interface without a listener.
func Choose() (int, error) {
	listener, err := Listen()
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// Listen listens at a free port of the loopback interface.
func Listen() (listener net.Listener, err error) {
	for range attempts {
		port := first + rand.IntN(last-first+1)
		listener, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			return listener, nil
		}
	}
	return nil, fmt.Errorf("find a free port from %d to %d: %w", first, last, err)
}
