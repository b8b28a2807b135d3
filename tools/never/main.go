// Command never checks that library packages do nothing that only a program may do: see package
// never. It is run by go vet:
//
//	go vet -vettool=bin/lint/never ./ccm/... ./controllers/... ./options/... ./provider/... \
//	  ./internal/...
package main

import (
	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/fxccm/fxccm/tools/never/never"
)

func main() { unitchecker.Main(never.New(never.Allowed())) }
