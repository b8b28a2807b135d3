//go:build !race

package suite

// RaceDetector tells whether the race detector is on.
const RaceDetector = false
