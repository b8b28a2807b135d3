// Package freeport finds ports for the servers of tests.
package freeport

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"testing"
)

// The ports are below those that systems assign (Linux from 32768, macOS and Windows from 49152).
// So no other program takes one before a process binds it, or while its server is stopped.
const (
	first    = 10000
	last     = 31999
	attempts = 100
)

// reserved are UDP sockets at the ports that this process has chosen. They are open until it ends,
// so that no test, also of another process, chooses the same port before its server listens.
var reserved struct {
	sync.Mutex
	sockets []net.PacketConn
}

// Choose returns a port of the loopback interface without a listener. No other call of Choose or
// Listen on the machine returns it before the process ends.
func Choose() (int, error) {
	listener, err := Listen()
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// ForTest is [Choose], and ends the test if it fails.
func ForTest(t testing.TB) int {
	t.Helper()
	port, err := Choose()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// Listen listens at a port that Choose could have returned.
func Listen() (net.Listener, error) {
	var err error
	for range attempts {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(first+rand.IntN(last-first+1)))
		var socket net.PacketConn
		if socket, err = net.ListenPacket("udp", address); err != nil {
			continue
		}
		var listener net.Listener
		if listener, err = net.Listen("tcp", address); err != nil {
			_ = socket.Close()
			continue
		}
		reserved.Lock()
		defer reserved.Unlock()
		reserved.sockets = append(reserved.sockets, socket)
		return listener, nil
	}
	return nil, fmt.Errorf("find a free port from %d to %d: %w", first, last, err)
}
