// Command testrun builds all test binaries first, and then runs them, a few at once: a compiler
// beside them would take the machine from the tests that start control planes. Called by `make
// test`; gotestsum calls it to run the tests, and again for each test that failed.
//
//	testrun build -dir bin/tests [-plain PACKAGES] [-large PACKAGES -large-tests RE]
//	  [-modules DIRS] PACKAGES
//	testrun run -dir bin/tests [-first RE]... [-again RE]... [-only RE]... [-except RE]...
//	testrun summary FILE...
package main

import (
	"errors"
	"fmt"
	"os"
)

func main() {
	commands := map[string]func(args []string) error{
		"build": build, "run": run, "summary": summary,
	}
	var command func([]string) error
	if len(os.Args) > 1 {
		command = commands[os.Args[1]]
	}
	if command == nil {
		fmt.Fprintln(os.Stderr, "usage: testrun build|run|summary; see its documentation")
		os.Exit(2)
	}
	if err := command(os.Args[2:]); err != nil {
		// To gotestsum, a line of standard error is an error after which no test runs again.
		if !errors.Is(err, errFailed) {
			fmt.Fprintln(os.Stderr, "testrun:", err)
		}
		os.Exit(exitCode(err))
	}
}
