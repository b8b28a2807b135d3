// Command openstack-simulator is the cloud of package openstacktest as a process: Keystone, Nova,
// Neutron, Octavia and Barbican in memory, on a loopback address.
//
//	openstack-simulator --servers=3 > cloud.conf
//
// It writes a complete cloud.conf to the standard output when it serves, and ends with SIGINT or
// SIGTERM. Other processes control it below /_sim, as package openstacktest documents.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
