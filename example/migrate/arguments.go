package migrate

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/options"
)

// Program describes the command line of the installed binary.
type Program struct {
	// NewFlags returns all flags, and a function that completes their values after parsing.
	NewFlags func() (*pflag.FlagSet, func() (options.Completed, error))
}

// argument is a flag of OCCM's command line.
type argument struct {
	// name has no dashes. text is the flag for fxccm.
	name, text string
	isKnown    bool
}

// left are flags that fxccm gets with another value, or not at all.
var left = map[string]string{
	"use-service-account-credentials": "fxccm runs all controllers as one ServiceAccount",
	"secure-port=0":                   "the probes need the secure port",
}

// split reads a command line. A flag may have its value in the next argument.
func split(args []string, flags *pflag.FlagSet) (found []argument, rest []string) {
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") || name == "" {
			rest = append(rest, args[i])
			continue
		}
		flag := flags.Lookup(name)
		if flag == nil && len(name) == 1 {
			flag = flags.ShorthandLookup(name)
		}
		if flag != nil {
			name = flag.Name
		}
		takesNext := !hasValue && (flag == nil || flag.NoOptDefVal == "") &&
			i+1 < len(args) && !strings.HasPrefix(args[i+1], "-")
		if takesNext {
			i++
			value, hasValue = args[i], true
		}
		a := argument{name: name, text: "--" + name, isKnown: flag != nil}
		if hasValue {
			a.text += "=" + value
		}
		found = append(found, a)
	}
	return found, rest
}

// settings are derived from OCCM's command line.
type settings struct {
	// args are the arguments that fxccm inherits from OCCM.
	args []string
	options.Completed
	findings []Finding
}

// judge classifies each flag of OCCM: kept, without effect, left out or unsupported.
func (p Program) judge(args []string) (settings, error) {
	flags, complete := p.NewFlags()
	found, rest := split(args, flags)
	var s settings
	add := func(level Level, subject, format string, args ...any) {
		s.findings = append(s.findings, Finding{level, subject, fmt.Sprintf(format, args...)})
	}
	for _, arg := range rest {
		add(Differs, arg, "it is not a flag, and is left out")
	}
	var given []string
	for _, a := range found {
		given = append(given, a.name)
		why := left[a.name]
		if why == "" {
			why = left[strings.TrimPrefix(a.text, "--")]
		}
		switch {
		case !a.isKnown:
			add(Differs, a.text, "fxccm does not have this flag; it is left out")
		case why != "":
			if a.text != "--use-service-account-credentials=false" {
				add(Differs, a.text, "left out: %s", why)
			}
		default:
			s.args = append(s.args, a.text)
			add(Same, a.text, "kept")
		}
	}
	for _, d := range options.ChangedDefaults() {
		if !slices.Contains(given, d.Flag) {
			add(Differs, "--"+d.Flag, "the default is %s instead of %s. %s", d.Default, d.Upstream,
				d.Why)
		}
	}
	flags.SetOutput(io.Discard)
	if err := flags.Parse(s.args); err != nil {
		add(Blocks, "arguments", "%v", err)
		return s, nil
	}
	var err error
	if s.Completed, err = complete(); err != nil {
		for _, line := range strings.Split(err.Error(), "\n") {
			add(Blocks, "arguments", "%s", line)
		}
		return s, nil
	}
	for _, warning := range s.Warnings {
		subject, text, _ := strings.Cut(warning, " ")
		add(Differs, subject, "%s", text)
	}
	election := s.Config.LeaderElection
	if !election.LeaderElect {
		add(Blocks, "--leader-elect=false", "without leader election, OCCM and fxccm could act at "+
			"the same time: start OCCM with it first")
	}
	add(Same, "lease", "%s/%s", election.ResourceNamespace, election.ResourceName)
	if s.Config.CloudProvider.ConfigFile == "" {
		return s, errors.New("OCCM has no --cloud-config")
	}
	return s, nil
}
