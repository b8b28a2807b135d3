// Package api_test holds the simulated OpenStack and the real one to the same: each rule of
// Keystone's, Nova's, Neutron's and Octavia's APIs that the provider counts on is a test of plain
// requests, which runs on whichever there is (see package project).
package api_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
