// Command never checks that library packages do not use functions that only a program may use: see
// package never. Go vet runs it:
//
//	go vet -vettool=bin/lint/never ./ccm/... ./controllers/... ./hosting/... ./options/... \
//	  ./provider/... ./internal/...
//
// For other platforms it runs by itself, and checks that the packages build there, too, without
// compiling them:
//
//	bin/lint/never -platform windows/amd64 ./ccm/... ./cmd/fxccm
package main

import (
	"fmt"
	"os"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/fxccm/fxccm/tools/never/never"
)

func main() {
	if len(os.Args) < 4 || os.Args[1] != "-platform" {
		unitchecker.Main(never.New(never.Allowed()))
	}
	if err := checkPlatform(os.Args[2], never.New(never.Allowed()), os.Args[3:]); err != nil {
		fmt.Fprintf(os.Stderr, "on %s:\n%v\n", os.Args[2], err)
		os.Exit(1)
	}
}
