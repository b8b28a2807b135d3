//go:build !race

package many_test

// balancers tells whether the service controller runs; see the file for the race detector.
const balancers = true
