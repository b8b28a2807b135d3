package octavia

import "time"

// Options configure Octavia; package openstacktest documents them.
type Options struct {
	// Minor is the newest version of the API, 2.Minor.
	Minor          int
	OwnersFailOver bool
	Provisioning   time.Duration
}

// The providers of each cloud.
const (
	ProviderAmphora = "amphora"
	ProviderOctavia = "octavia"
	ProviderOVN     = "ovn"
)

// providers are the enabled providers, the default first.
func providers() []string { return []string{ProviderAmphora, ProviderOctavia, ProviderOVN} }
