//go:build linux

package replica

import "time"

// LeaseTimes are the three periods of a leader election.
type LeaseTimes struct{ Duration, Renew, Retry time.Duration }

// Flags are the flags of a replica with these periods.
func (l LeaseTimes) Flags() []string {
	return []string{
		"--leader-elect-lease-duration=" + l.Duration.String(),
		"--leader-elect-renew-deadline=" + l.Renew.String(),
		"--leader-elect-retry-period=" + l.Retry.String(),
	}
}

// QuickLease is short, so that a test can wait for leases to expire.
func QuickLease() LeaseTimes {
	return LeaseTimes{3 * time.Second, 2 * time.Second, 500 * time.Millisecond}
}
