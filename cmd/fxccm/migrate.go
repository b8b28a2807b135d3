package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/cmd/fxccm/migrate"
	"github.com/fxccm/fxccm/options"
)

// newMigrateCommand is "fxccm migrate".
func newMigrateCommand() *cobra.Command {
	old := map[string]string{}
	for _, flag := range oldFlags() {
		old[flag.name] = flag.instead
	}
	return migrate.Program{
		NewFlags: func() (*pflag.FlagSet, func() (options.Completed, error)) {
			cmd := newCommandLine(options.New())
			return cmd.all, cmd.options.Complete
		},
		OldFlags: old,
	}.Command()
}
