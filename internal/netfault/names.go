package netfault

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"

	"golang.org/x/net/dns/dnsmessage"
)

// Host is a name for the loopback address. Only [Names] resolves it, and the certificates of
// [ListenAPI] and [ListenHTTP] are valid for it.
const Host = "server.netfault.test"

// A NameFault is a state of name resolution. The zero value is [Known].
type NameFault int

const (
	// Known answers with the loopback address.
	Known NameFault = iota
	// Unknown answers that the name does not exist (NXDOMAIN).
	Unknown
)

// Names is a DNS server, by UDP on the loopback interface, that resolves [Host] until a test
// changes that. A change does not end open connections; see [Reset]. Its methods are safe for
// concurrent use.
type Names struct {
	socket net.PacketConn
	served chan struct{}

	mu    sync.Mutex
	fault NameFault
}

// ListenNames opens a DNS server on a free port. It must be closed.
func ListenNames() (*Names, error) {
	socket, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("open a DNS server: %w", err)
	}
	n := &Names{socket: socket, served: make(chan struct{})}
	go n.serve()
	return n, nil
}

// Addr is the address of the server, "127.0.0.1:port"; [DialThrough] takes it.
func (n *Names) Addr() string { return n.socket.LocalAddr().String() }

// Set switches to another fault.
func (n *Names) Set(f NameFault) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.fault = f
}

// Close closes the server. It may be called more than once.
func (n *Names) Close() error {
	err := n.socket.Close()
	<-n.served
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (n *Names) serve() {
	defer close(n.served)
	packet := make([]byte, 1500)
	for {
		size, from, err := n.socket.ReadFrom(packet)
		if err != nil {
			return
		}
		if answer := n.answer(packet[:size]); answer != nil {
			_, _ = n.socket.WriteTo(answer, from)
		}
	}
}

// answer is nil for an invalid question.
func (n *Names) answer(packet []byte) []byte {
	var question dnsmessage.Message
	if question.Unpack(packet) != nil || len(question.Questions) != 1 {
		return nil
	}
	n.mu.Lock()
	fault := n.fault
	n.mu.Unlock()
	asked := question.Questions[0]
	answer := dnsmessage.Message{
		Header: dnsmessage.Header{
			ID: question.ID, Response: true, Authoritative: true,
			RecursionDesired: question.RecursionDesired, RecursionAvailable: true,
		},
		Questions: question.Questions,
	}
	known := strings.EqualFold(strings.TrimSuffix(asked.Name.String(), "."), Host)
	switch {
	case fault == Unknown || !known:
		answer.RCode = dnsmessage.RCodeNameError
	case asked.Type == dnsmessage.TypeA:
		answer.Answers = []dnsmessage.Resource{{
			Header: dnsmessage.ResourceHeader{
				Name: asked.Name, Type: dnsmessage.TypeA,
				Class: dnsmessage.ClassINET,
			},
			Body: &dnsmessage.AResource{A: [4]byte{127, 0, 0, 1}},
		}}
	}
	packed, err := answer.Pack()
	if err != nil {
		return nil
	}
	return packed
}

// DialThrough is a dial function, for rest.Config.Dial or http.Transport.DialContext, that resolves
// names only through the DNS server at the address. The address may be that of [Names] in another
// process.
func DialThrough(
	server string,
) func(ctx context.Context, network, address string) (net.Conn, error) {
	dialer := &net.Dialer{Resolver: &net.Resolver{
		PreferGo: true,
		Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "udp", server)
		},
	}}
	return dialer.DialContext
}
