package freeport_test

import (
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
