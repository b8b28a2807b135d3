package openstacktest

import "fmt"

// A release is what differs between the releases of the labs.
type release struct {
	// compute and octavia are the newest versions of the APIs, 2.compute and 2.octavia.
	compute, octavia  int
	withoutExtensions []string
	externalSubnets   bool
}

// releaseOf has what labs with Debian's packages show.
func releaseOf(name string) (r release, isKnown bool) {
	switch name {
	case "zed":
		return release{compute: 93, octavia: 26}, true
	case "2025.1":
		// Neutron's routers are those of OVN.
		return release{
			compute: 100, octavia: 30,
			withoutExtensions: []string{"extraroute-atomic"},
			externalSubnets:   true,
		}, true
	}
	return r, false
}

// WithRelease makes the cloud like a release of OpenStack on which the provider is tested: "zed",
// or "2025.1", whose Neutron has OVN. It panics if it does not know the release.
//
// It sets the newest versions of the APIs of Nova and Octavia, whether Neutron has the extension
// extraroute-atomic, and whether projects see the subnets of external networks. Later options win.
// Default: the API versions of 2024.1, the extension, and hidden subnets.
func WithRelease(name string) Option {
	r, isKnown := releaseOf(name)
	if !isKnown {
		panic(fmt.Sprintf("openstacktest: unknown release %q, want zed or 2025.1", name))
	}
	return func(s *settings) {
		s.compute.Minor, s.octavia.Minor = r.compute, r.octavia
		s.network.ExternalSubnets = r.externalSubnets
		WithoutExtensions(r.withoutExtensions...)(s)
	}
}
