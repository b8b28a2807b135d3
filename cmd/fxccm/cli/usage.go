package cli

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
)

// ExitUsage is the exit code if the command line is wrong: an unknown command or flag, or a missing
// or invalid argument. The command has done nothing.
const ExitUsage = 2

// An ExitError gives a command an exit code other than 1.
type ExitError struct {
	Code int
	// Err is nil if the command has printed the reason.
	Err error
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns an [ExitError] with [ExitUsage].
func Usagef(format string, args ...any) error {
	return &ExitError{ExitUsage, fmt.Errorf(format, args...)}
}

// CheckName returns a usage error if the value of a flag is not [namespace/]name.
func CheckName(flag, value string) error {
	parts := strings.Split(value, "/")
	if len(parts) > 2 || slices.Contains(parts, "") {
		return Usagef("%s=%s is not [namespace/]name", flag, value)
	}
	return nil
}

// NoArgs accepts no arguments but empty ones, which manifests leave behind where a variable is not
// set. For another argument, it suggests the subcommand that it resembles.
func NoArgs(cmd *cobra.Command, args []string) error {
	args = slices.DeleteFunc(slices.Clone(args), func(arg string) bool { return arg == "" })
	switch {
	case len(args) == 0:
		return nil
	case !cmd.HasAvailableSubCommands():
		return Usagef("want flags only, got %q", strings.Join(args, " "))
	}
	hint := ""
	cmd.SuggestionsMinimumDistance = 2 // cobra's default where it suggests by itself
	if similar := cmd.SuggestionsFor(args[0]); len(similar) > 0 {
		hint = "; did you mean " + strings.Join(similar, " or ") + "?"
	}
	return Usagef("unknown command %q%s", args[0], hint)
}

// Group returns a command that has only subcommands.
func Group(use, short, long string, subcommands ...*cobra.Command) *cobra.Command {
	group := &cobra.Command{Use: use, Short: short, Long: long, Args: NoArgs}
	PrintHelp(group)
	group.AddCommand(subcommands...)
	return group
}

// PrintHelp lets a command that does nothing itself print its help.
func PrintHelp(cmd *cobra.Command) {
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	annotate(cmd, helpAnnotation, "only")
}

// UntilSignal runs a command whose context ends at the first signal.
func UntilSignal(
	run func(ctx context.Context, cmd *cobra.Command, args []string) error,
) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		// A second signal ends the program: a read of a pipe does not end with the context.
		defer context.AfterFunc(ctx, stop)()
		return run(ctx, cmd, args)
	}
}
