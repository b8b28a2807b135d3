package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
)

// Exit codes of the program.
const (
	exitClean = 0
	// exitFailed means that the configuration is wrong, or that the command failed.
	exitFailed = 1
	// exitDrainTimeout means that a part of the last term still ran. The lease was left to expire.
	exitDrainTimeout = ccm.ExitDrainTimeout
)

// Names of the binary as a plugin of kubectl, and as the program that kubectl asks for completions
// of that plugin.
const (
	pluginName    = "kubectl-fxccm"
	completerName = "kubectl_complete-fxccm"
	typedAsPlugin = "kubectl fxccm"
)

// Groups of commands in the help.
const (
	groupOperate = "operate"
	groupRun     = "run"
)

// run is the program from its arguments to its exit code.
func run(args []string, stdout, stderr io.Writer) int {
	return runAs(strings.TrimSuffix(filepath.Base(os.Args[0]), ".exe"), args, stdout, stderr)
}

// runAs is run under a name of the binary.
func runAs(name string, args []string, stdout, stderr io.Writer) int {
	stdout, stderr = cli.Printing(stdout), cli.Printing(stderr)
	root := newRoot(stderr)
	switch name {
	case completerName:
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
		fallthrough
	case pluginName:
		asPlugin(root)
		stdout = cli.Renamed(stdout, root, typedAsPlugin)
		stderr = cli.Renamed(stderr, root, typedAsPlugin)
	}
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	checkWords(root)
	var misused error
	checkHelp(root, func(err error) { misused = err })
	cmd, err := root.ExecuteC()
	if err == nil {
		err = misused
	}
	if err == nil {
		return exitClean
	}
	code := exitFailed
	if of := (*cli.ExitError)(nil); errors.As(err, &of) {
		if code, err = of.Code, of.Err; err == nil {
			return code
		}
	}
	for _, sentence := range sentences(err) {
		_, _ = fmt.Fprintf(stderr, "%s: %s\n", cmd.CommandPath(), sentence)
	}
	return code
}

// newRoot is the command fxccm with all its subcommands.
func newRoot(stderr io.Writer) *cobra.Command {
	root := newServerCommand(stderr)
	root.AddGroup(
		&cobra.Group{ID: groupOperate, Title: "Commands for operators:"},
		&cobra.Group{ID: groupRun, Title: "Commands that run CCMs:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
		}
		root.AddCommand(commands...)
	}
	add(groupOperate, newStatusCommand(), newDescribeCommand(), newPlanCommand(),
		newMigrateCommand(), newConfigCommand())
	add(groupRun, newFleetCommand(stderr))
	root.AddCommand(newVersionCommand())
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SetHelpFunc(cli.Help)
	complete(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error {
		return &cli.ExitError{Code: cli.ExitUsage, Err: err}
	})
	return root
}

// checkWords makes unknown words after cobra's own commands, help and completion, usage errors.
func checkWords(root *cobra.Command) {
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		switch c.Name() {
		case "help":
			c.RunE = func(_ *cobra.Command, args []string) error {
				of, rest, err := root.Find(args)
				if err == nil {
					err = cli.NoArgs(of, rest)
				}
				if err != nil {
					return err
				}
				of.InitDefaultHelpFlag()
				return of.Help()
			}
		case "completion":
			c.Args = cli.NoArgs
			cli.PrintHelp(c)
			for _, shell := range c.Commands() {
				shell.Args = cli.NoArgs
			}
		}
	}
}

// checkHelp checks the arguments of all commands before --help prints a text: cobra does not.
func checkHelp(cmd *cobra.Command, report func(error)) {
	// Else cobra takes a word after the flag as its value while it looks for the command.
	cmd.InitDefaultHelpFlag()
	for _, c := range cmd.Commands() { // before cmd, whose help they may inherit
		checkHelp(c, report)
	}
	print := cmd.HelpFunc()
	cmd.SetHelpFunc(func(of *cobra.Command, args []string) {
		if err := of.ValidateArgs(of.Flags().Args()); err != nil {
			report(err)
			return
		}
		print(of, args)
	})
}

const pluginAbout = `Inspect clusters whose cloud controller manager (CCM) is fxccm, and migrate clusters to it.`

// asPlugin names the commands as the user of kubectl types them. A plugin runs no CCM, and kubectl
// has the scripts for completion.
func asPlugin(root *cobra.Command) {
	root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: typedAsPlugin}
	root.Long = pluginAbout
	root.CompletionOptions.DisableDefaultCmd = true
	cli.ShowOnly(root, "")
	cli.PrintHelp(root)
}
