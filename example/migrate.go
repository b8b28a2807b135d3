package main

import (
	"context"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/example/migrate"
	"github.com/fxccm/fxccm/options"
)

// runMigrate is "fxccm migrate".
func runMigrate(args []string, stdout, stderr io.Writer) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	program := migrate.Program{
		NewFlags: func() (*pflag.FlagSet, func() (options.Completed, error)) {
			cmd := newCommandLine(options.New())
			return cmd.all, cmd.options.Complete
		},
	}
	return program.Run(ctx, args, os.Stdin, stdout, stderr)
}
