// Command never checks that library packages do not use functions that only a program may use: see
// package never. Go vet runs it:
//
//	go vet -vettool=bin/lint/never ./ccm/... ./controllers/... ./hosting/... ./options/... \
//	  ./provider/... ./internal/...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/fxccm/fxccm/tools/never/never"
)

func main() { unitchecker.Main(never.New(never.Allowed())) }
