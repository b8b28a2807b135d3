package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	cliflag "k8s.io/component-base/cli/flag"
	logsapi "k8s.io/component-base/logs/api/v1"
	"k8s.io/component-base/term"

	"github.com/fxccm/fxccm/options"
)

const about = `fxccm is a cloud controller manager: it initializes the nodes of a Kubernetes cluster with data of the cloud,
deletes nodes whose machines no longer exist, and manages load balancers and routes. Of several replicas one
leads, and another takes over when it stops.`

// commandLine has every flag of the program, in the groups of the help text.
type commandLine struct {
	options *options.Options
	logging *logsapi.LoggingConfiguration
	help    bool
	version bool

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
		c.all.AddFlagSet(c.groups.FlagSets[name])
	}
	return c
}

// globalFlags are the flags of the program itself.
func (c *commandLine) globalFlags() *pflag.FlagSet {
	set := pflag.NewFlagSet("global", pflag.ContinueOnError)
	logsapi.AddFlags(c.logging, set)
	set.BoolVarP(&c.help, "help", "h", false, "Show this help and exit.")
	set.BoolVar(&c.version, "version", false, "Show the version and exit.")
	return set
}

// parse reads the arguments. Warnings about deprecated flags go to warnings. The error names the
// flag at fault.
func (c *commandLine) parse(args []string, warnings io.Writer) error {
	c.all.SetOutput(warnings)
	if err := c.all.Parse(args); err != nil {
		return err
	}
	if rest := slices.DeleteFunc(c.all.Args(),
		func(arg string) bool { return arg == "" }); len(rest) > 0 {
		return fmt.Errorf("want flags only, got %q: see --help", strings.Join(rest, " "))
	}
	return nil
}

func (c *commandLine) printHelp(out io.Writer) {
	columns, _, err := term.TerminalSize(out)
	if err != nil {
		columns = 0 // not a terminal: lines are not wrapped
	}
	_, _ = fmt.Fprintf(out, "%s\n\nUsage:\n  fxccm [flags]\n  fxccm status --help\n  fxccm describe --help\n  fxccm plan --help\n  fxccm migrate --help\n  fxccm fleet --help\n", about)
	cliflag.PrintSections(out, c.groups, columns)
}
