// Command fakecloud serves a fake cloud in a process of its own, so that several cloud controller
// managers share it, and it goes on when one of them is killed or frozen. Its first line of output
// is its address; it ends when its standard input does.
package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/fxccm/fxccm/provider/fake"
)

const (
	// callLimit keeps the whole record of a test: what is forgotten proves nothing.
	callLimit = 1_000_000

	// idleTimeout closes connections that nobody uses, so that a test can count those that a client
	// has left behind.
	idleTimeout = 5 * time.Second
)

func main() {
	if err := serve(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "fakecloud:", err)
		os.Exit(1)
	}
}

// serve returns when in is at its end, which it is when the process that has started this one has
// gone.
func serve(in io.Reader, out io.Writer) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	cloud := fake.New(fake.WithCallLimit(callLimit))
	server := &http.Server{
		Handler: cloud.Handler(), ReadHeaderTimeout: time.Minute,
		IdleTimeout: idleTimeout,
	}
	if _, err := fmt.Fprintf(out, "http://%s\n", listener.Addr()); err != nil {
		return fmt.Errorf("tell the address: %w", err)
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	asked := make(chan struct{})
	go func() {
		defer close(asked)
		_, _ = io.Copy(io.Discard, in) // only its end matters
	}()
	select {
	case err := <-served:
		return fmt.Errorf("serve: %w", err)
	case <-asked:
	}
	cloud.ClearFaults() // a call that hangs in one would hold its connection
	ctx, cancel := context.WithTimeout(context.Background(), idleTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		return server.Close()
	}
	return nil
}
