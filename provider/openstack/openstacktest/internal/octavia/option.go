package octavia

import "time"

// Options configure Octavia; package openstacktest documents them.
type Options struct {
	// Minor is the newest version of the API, 2.Minor.
	Minor          int
	OwnersFailOver bool
	Provisioning   time.Duration
}
