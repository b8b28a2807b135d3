package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.uber.org/fx"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"

	"github.com/fxccm/fxccm/ccm"
	"github.com/fxccm/fxccm/cmd/fxccm/cli"
	"github.com/fxccm/fxccm/options"
)

const about = `fxccm is a cloud controller manager (CCM): it initializes the nodes of a Kubernetes cluster with data of the cloud,
deletes nodes whose machines no longer exist, and manages load balancers and routes. Of several replicas one
leads, and another takes over when it stops. Without a command, the program is the CCM.`

// commandLine has every flag of a CCM, in the groups of the help text.
type commandLine struct {
	options *options.Options
	logging *logsapi.LoggingConfiguration

	groups cliflag.NamedFlagSets
	all    *pflag.FlagSet
}

func newCommandLine(of *options.Options) *commandLine {
	c := &commandLine{options: of, logging: logsapi.NewLoggingConfiguration()}
	c.groups = c.options.Flags()
	c.groups.Order = append(c.groups.Order, "global")
	c.groups.FlagSets["global"] = c.globalFlags()

	c.all = pflag.NewFlagSet("fxccm", pflag.ContinueOnError)
	// as upstream: --cluster_name is --cluster-name
	c.all.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	c.all.Usage = func() {}
	for _, name := range c.groups.Order {
		cli.SetTitle(c.groups.FlagSets[name], titleOf(name))
		c.all.AddFlagSet(c.groups.FlagSets[name])
	}
	c.all.VisitAll(func(flag *pflag.Flag) {
		if strings.HasPrefix(flag.Usage, "Not supported:") {
			flag.Hidden = true
		}
	})
	return c
}

// titleOf is upstream's title of a group of flags.
func titleOf(group string) string { return strings.ToUpper(group[:1]) + group[1:] + " flags" }

// globalFlags are the flags of the program itself.
func (c *commandLine) globalFlags() *pflag.FlagSet {
	set := pflag.NewFlagSet("global", pflag.ContinueOnError)
	logsapi.AddFlags(c.logging, set)
	for _, name := range []string{"v", "vmodule"} {
		set.Lookup(name).Usage += fmt.Sprintf("; a level above %d is lowered to it, because "+
			"requests with secrets would be in the log", maxVerbosity)
	}
	set.BoolP("help", "h", false, "Show this help and exit.")
	set.Bool("version", false, "Show the version and exit.")
	return set
}

// newServerCommand is the CCM of one cluster.
func newServerCommand(stderr io.Writer) *cobra.Command {
	line := newCommandLine(options.New())
	cmd := &cobra.Command{
		Use: "fxccm [flags]", Long: about, DisableFlagsInUseLine: true,
	}
	line.serve(cmd, stderr, func(
		config options.Configuration, tracer ccm.Tracer,
	) (*fx.App, error) {
		return newApp(config, tracer), nil
	})
	return cmd
}

// serve lets a command run an app until it is stopped. Warnings about deprecated and old flags go
// to stderr.
func (c *commandLine) serve(cmd *cobra.Command, stderr io.Writer, newApp appConstructor) {
	cmd.Args = cli.NoArgs
	// Cobra's own flag would need a template for this text. With text/template the linker keeps all
	// exported methods of the program.
	showVersion := cmd.Flags().Bool("version", false, "Show the version and exit.")
	cli.SetTitle(cmd.Flags(), titleOf("global"))
	cmd.Flags().SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	cmd.Flags().AddFlagSet(c.all)
	addOldFlags(cmd.Flags())
	cmd.Flags().SetOutput(stderr)
	cmd.RunE = func(*cobra.Command, []string) error {
		if *showVersion {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), version())
			return err
		}
		return runServer(c, newApp)
	}
}
