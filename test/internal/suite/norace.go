//go:build !race

package suite

// RaceDetector reports whether the race detector is on.
const RaceDetector = false
