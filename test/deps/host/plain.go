//go:build plain

package main

import "github.com/fxccm/fxccm/ccm"

func serve(*ccm.Manager) {}
