//go:build race

package suite

// RaceDetector reports whether the race detector is on. Upstream's service controller writes in its
// service workers, without a lock, what its node worker reads (k8s.io/cloud-provider v0.37,
// controllers/service: cachedService.state). The detector finds that when nodes change while there
// are load balancers.
const RaceDetector = true
