// Package api_test compares the simulated OpenStack with the real one: each rule of the APIs of
// Keystone, Nova, Neutron and Octavia that the provider needs is a test of plain requests, which
// runs on either (see package project).
package api_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
