// Package freeport finds ports for the servers of tests.
package freeport

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"syscall"
	"time"
)

// The ports are below those that systems assign (Linux from 32768, macOS and Windows from 49152).
// So no other program takes one before a process binds it, or while its server is stopped.
const (
	first    = 10000
	last     = 31999
	attempts = 100
)

var errServed = errors.New("a server listens at each port that was tried")

// A Port is a TCP port of the loopback interface. It is reserved from [Choose] to Close.
type Port struct {
	Number int
	// reservation is a UDP socket with the same number, which keeps tests in all processes of the
	// machine from choosing the port. It is nil in the zero value.
	reservation net.PacketConn
}

// Choose returns a port at which nothing listens. The caller closes the Port when its server has
// ended.
func Choose() (port Port, err error) {
	for range attempts {
		port.Number = first + rand.IntN(last-first+1)
		if port.reservation, err = net.ListenPacket("udp", port.Address()); err != nil {
			continue
		}
		if !served(port.Address()) {
			return port, nil
		}
		err = errServed
		_ = port.Close()
	}
	return Port{}, fmt.Errorf("find a free port from %d to %d: %w", first, last, err)
}

// served reports whether a server listens at the address. To listen there and close the port again
// would not do: a process that is being started at that moment has a copy of the socket, and the
// port is in use for as long as that takes.
func served(address string) bool {
	conn, err := net.DialTimeout("tcp", address, time.Second)
	if err != nil {
		return !errors.Is(err, syscall.ECONNREFUSED)
	}
	_ = conn.Close()
	return true
}

// Address is "127.0.0.1:port".
func (p Port) Address() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.Number)) }

// Close ends the reservation.
func (p Port) Close() error {
	if p.reservation == nil {
		return nil
	}
	return p.reservation.Close()
}

// A test is a [testing.TB]. Package testing must not be in the programs that use this package.
type test interface {
	Helper()
	Cleanup(func())
	Fatal(...any)
}

// ForTest returns the number of a port that is reserved until the test and what it has started have
// ended.
func ForTest(t test) int {
	t.Helper()
	port, err := Choose()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = port.Close() })
	return port.Number
}
