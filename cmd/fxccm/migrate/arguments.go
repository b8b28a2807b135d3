package migrate

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fxccm/fxccm/options"
)

// Program describes the command line of the installed binary.
type Program struct {
	// NewFlags returns all flags, and a function that completes their values after parsing.
	NewFlags func() (*pflag.FlagSet, func() (options.Completed, error))
	// OldFlags says what replaces flags of older releases, by their names without dashes.
	OldFlags map[string]string
}

// argument is a flag of OCCM's command line.
type argument struct {
	// name has no dashes. text is the flag for fxccm, value is what OCCM gets.
	name, text, value string
	isKnown           bool
}

// bindsLoopback reports whether only its own Pod reaches the secure port.
func (a argument) bindsLoopback() bool {
	address, is := strings.CutPrefix(a.value, "--bind-address=")
	ip := net.ParseIP(address)
	return is && ip != nil && ip.IsLoopback()
}

// left are flags that fxccm gets with another value, or not at all.
var left = map[string]string{
	"use-service-account-credentials": "fxccm runs all controllers as one ServiceAccount",
	"secure-port=0":                   "the probes need the secure port",
}

// refused are flags that change what OCCM or fxccm reads in a way that check cannot follow.
var refused = map[string]string{
	"config": "OCCM has no such flag, and fxccm would read more settings from the file",
}

// split reads a command line. A flag may have its value in the next argument.
func split(args []word, flags *pflag.FlagSet) (found []argument, rest []string) {
	for i := 0; i < len(args); i++ {
		name, value, hasValue := strings.Cut(strings.TrimLeft(args[i].value, "-"), "=")
		if !strings.HasPrefix(args[i].value, "-") || name == "" {
			rest = append(rest, args[i].shown)
			continue
		}
		_, shown, _ := strings.Cut(args[i].shown, "=")
		flag := flags.Lookup(name)
		if flag == nil && len(name) == 1 {
			flag = flags.ShorthandLookup(name)
		}
		if flag != nil {
			name = flag.Name
		}
		takesNext := !hasValue && (flag == nil || flag.NoOptDefVal == "") &&
			i+1 < len(args) && !strings.HasPrefix(args[i+1].value, "-")
		if takesNext {
			i++
			value, shown, hasValue = args[i].value, args[i].shown, true
		}
		a := argument{name: name, text: "--" + name, isKnown: flag != nil}
		a.value = a.text
		if hasValue {
			a.text += "=" + shown
			a.value += "=" + value
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

// judge classifies each flag of OCCM: kept, without effect, left out or unsupported. hasNodeNetwork
// reports whether OCCM's Pods use the network of their node.
func (p Program) judge(args []word, hasNodeNetwork bool) (settings, error) {
	flags, complete := p.NewFlags()
	found, rest := split(args, flags)
	var s settings
	add := func(level Level, subject, format string, args ...any) {
		s.findings = append(s.findings, Finding{level, subject, fmt.Sprintf(format, args...)})
	}
	for _, arg := range rest {
		add(Differs, arg, "it is not a flag, and is left out")
	}
	var given, values []string
	for _, a := range found {
		given = append(given, a.name)
		why := left[a.name]
		if why == "" {
			why = left[strings.TrimPrefix(a.value, "--")]
		}
		if !hasNodeNetwork && a.bindsLoopback() {
			why = "fxccm binds all addresses of the Pod, because without the node's network the " +
				"kubelet's probes do not reach a loopback"
		}
		switch {
		case !a.isKnown && p.OldFlags[a.name] != "":
			add(Differs, a.text, "left out: %s", p.OldFlags[a.name])
		case !a.isKnown:
			add(Differs, a.text, "fxccm does not have this flag; it is left out")
		case refused[a.name] != "":
			add(Blocks, a.text, "%s: remove it", refused[a.name])
		case why != "":
			if a.value != "--use-service-account-credentials=false" {
				add(Differs, a.text, "left out: %s", why)
			}
		default:
			s.args, values = append(s.args, a.text), append(values, a.value)
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
	err := flags.Parse(values)
	if err == nil {
		s.Completed, err = complete()
	}
	if err != nil && !slices.Equal(values, s.args) {
		// The error may quote a value from a Secret.
		err = errors.New("an argument is invalid, perhaps one whose value is in a Secret or a " +
			"ConfigMap: write the values instead, and check again")
	}
	if err != nil {
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
			"the same time: start OCCM with leader election first")
	}
	add(Same, "lease", "%s/%s", election.ResourceNamespace, election.ResourceName)
	if s.Config.CloudProvider.ConfigFile == "" {
		return s, errors.New("OCCM has no --cloud-config")
	}
	return s, nil
}
