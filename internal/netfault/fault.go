package netfault

import (
	"fmt"
	"net/http"
	"time"
)

// A Fault is a state of the network. The zero value is [Pass].
type Fault struct {
	kind       kind
	delay      time.Duration
	code       int
	retryAfter time.Duration
}

type kind int

const (
	pass kind = iota
	delayed
	blackHole
	stall
	reset
	refuse
	wrongCertificate
	slow
	status
)

// Pass forwards everything.
func Pass() Fault { return Fault{} }

// Delay forwards everything, each byte d later, in both directions: a round trip takes 2d longer. A
// TLS handshake takes several round trips. See [Slow] for a server that answers late.
func Delay(d time.Duration) Fault { return Fault{kind: delayed, delay: d} }

// BlackHole loses all data: connections stay open, new ones are accepted, and nothing is forwarded
// in either direction, not even the end of a connection. Neither side is notified. A connection
// that has lost data is reset when the fault ends.
func BlackHole() Fault { return Fault{kind: blackHole} }

// Stall is [BlackHole] without loss: when the fault ends, all data that was sent meanwhile arrives.
// It simulates a partition that TCP survives, or a frozen server.
func Stall() Fault { return Fault{kind: stall} }

// Reset ends connections with an RST, open ones at once and new ones when they are accepted.
func Reset() Fault { return Fault{kind: reset} }

// Refuse closes the port: new connections are refused, and open ones are reset.
func Refuse() Fault { return Fault{kind: refuse} }

// WrongCertificate answers TLS handshakes with a certificate of an authority that no client trusts.
// Open connections are reset.
func WrongCertificate() Fault { return Fault{kind: wrongCertificate} }

// Slow forwards each request d after it has arrived. A request that the client cancels before is
// not forwarded. It needs a proxy that reads requests: [ListenAPI] or [ListenHTTP].
func Slow(d time.Duration) Fault { return Fault{kind: slow, delay: d} }

// Status answers each request with the code, instead of the server. If retryAfter is not zero, the
// answer has the header Retry-After, in whole seconds, rounded up. Requests that are already being
// answered, such as watches, continue. It needs a proxy that reads requests: [ListenAPI] or
// [ListenHTTP].
func Status(code int, retryAfter time.Duration) Fault {
	return Fault{kind: status, code: code, retryAfter: retryAfter}
}

// readsRequests reports whether the fault needs a proxy that reads requests.
func (f Fault) readsRequests() bool { return f.kind == slow || f.kind == status }

// endsConnections reports whether the fault ends open connections.
func (f Fault) endsConnections() bool {
	return f.kind == reset || f.kind == refuse || f.kind == wrongCertificate
}

// String implements fmt.Stringer.
func (f Fault) String() string {
	switch f.kind {
	case pass:
		return "pass"
	case delayed:
		return fmt.Sprintf("delay %s", f.delay)
	case blackHole:
		return "black hole"
	case stall:
		return "stall"
	case reset:
		return "reset"
	case refuse:
		return "refuse"
	case wrongCertificate:
		return "wrong certificate"
	case slow:
		return fmt.Sprintf("slow %s", f.delay)
	case status:
		if f.retryAfter > 0 {
			return fmt.Sprintf("%d %s, Retry-After %s", f.code, http.StatusText(f.code),
				f.retryAfter)
		}
		return fmt.Sprintf("%d %s", f.code, http.StatusText(f.code))
	}
	return fmt.Sprintf("Fault(%d)", int(f.kind))
}
