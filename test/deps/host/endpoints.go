//go:build !plain

package main

import (
	"net/http"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/ccm/serving/endpoints"
)

func serve(m *ccm.Manager) { http.Handle("/", endpoints.NewHandler(m)) }
