package freeport_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/fxccm/fxccm/internal/freeport"
)

// Ports that are drawn a thousand times of 22,000 are the same some 23 times, if none is reserved.
func TestChoose_ManyPortsWithoutAServer_NoneTwice(t *testing.T) {
	seen := map[int]bool{}
	for range 1000 {
		port := freeport.ForTest(t)
		if seen[port] {
			t.Fatalf("port %d is chosen twice", port)
		}
		seen[port] = true
	}
}

// A process that is being started has the sockets of its parent for a moment.
func TestChoose_ProcessesAreStarted_PortCanBeListenedAt(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	var starting sync.WaitGroup
	t.Cleanup(starting.Wait)
	t.Cleanup(cancel)
	for range 4 {
		starting.Go(func() {
			for ctx.Err() == nil {
				_ = exec.CommandContext(ctx, os.Args[0], "-test.run=^$").Run()
			}
		})
	}
	for range 2000 {
		port, err := freeport.Choose()
		if err != nil {
			t.Fatal(err)
		}
		listener, err := net.Listen("tcp", port.Address())
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		_ = port.Close()
	}
}
