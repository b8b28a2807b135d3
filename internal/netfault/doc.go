// Package netfault breaks the network between a program and a server, for tests: a proxy on the
// loopback interface whose faults are switched while the program runs.
//
// [Listen] stands in front of any TCP server. [ListenAPI] stands in front of an API server and
// speaks TLS itself, so that it can also answer requests in the server's place:
//
//	proxy, err := netfault.ListenAPI(cp.RESTConfig())
//	...
//	defer proxy.Close()
//	start(proxy.RESTConfig())          // the program under test
//	proxy.Set(netfault.BlackHole())    // its open connections stay, and nothing arrives any more
//	proxy.Set(netfault.Status(http.StatusTooManyRequests, time.Second))
//	proxy.Set(netfault.Pass())
//
// A fault applies to the connections that are open and to new ones, from the moment at which Set
// returns; a chunk that is being written then may still arrive. [Names] breaks name resolution: it
// is a DNS server that stops resolving its name.
//
// All of it works in the process of the test. A program in a process of its own gets the address of
// the proxy in a kubeconfig, see controlplane.WriteKubeconfig.
package netfault
