package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"
)

// subcommand is a command such as "fxccm plan" that ends by itself. Its flags have --help.
type subcommand struct {
	name, about string
	flags       *pflag.FlagSet
	parse       func(args []string) error
	run         func(ctx context.Context, stdout, stderr io.Writer) error
}

// main runs the subcommand from its arguments to its exit code. A signal cancels its context.
func (c subcommand) main(args []string, stdout, stderr io.Writer) int {
	err := c.parse(args)
	if help, _ := c.flags.GetBool("help"); err == nil && help {
		_, _ = fmt.Fprintf(stdout, "%s\nFlags:\n%s", c.about, c.flags.FlagUsages())
		return exitClean
	}
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = c.run(ctx, stdout, stderr)
	}
	if err != nil {
		for _, sentence := range sentences(err) {
			_, _ = fmt.Fprintf(stderr, "fxccm %s: %s\n", c.name, sentence)
		}
		return exitFailed
	}
	return exitClean
}
