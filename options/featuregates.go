package options

import (
	"fmt"
	"go/token"
	"maps"
	"slices"
	"strconv"
	"strings"

	"k8s.io/controller-manager/pkg/features"

	"github.com/fxccm/fxccm/internal/nearest"
)

// featureGate is a gate that k8s.io/controller-manager/pkg/features/register registers.
type featureGate struct {
	name, meaning string
	// refused explains why the gate cannot be enabled, ignored why it has no effect.
	refused, ignored string
}

// featureGates lists the gates of --feature-gates. All are off by default, like upstream.
func featureGates() []featureGate {
	return []featureGate{
		{
			name:    string(features.CloudControllerManagerWatchBasedRoutesReconciliation),
			meaning: "Routes are reconciled when nodes change, not periodically.",
		},
		{
			name:    string(features.CloudControllerManagerWebhook),
			meaning: "Cannot be enabled.",
			refused: "webhooks are not served",
		},
		{
			name:    string(features.ControllerManagerReleaseLeaderElectionLockOnExit),
			meaning: "No effect.",
			ignored: "the lease is always released after the term has drained",
		},
	}
}

func gatesHelp() string {
	var known []string
	for _, gate := range featureGates() {
		known = append(known, gate.name+" (default false): "+gate.meaning)
	}
	return strings.Join(known, " ")
}

// parseFeatureGates reads a list like "A=true,B=false". If a gate is repeated, the last value wins.
// Gates that no part of a cloud controller manager reads are in unread. They are no error, because
// command lines keep gates that a later release has removed, or that are another component's.
func parseFeatureGates(list string) (gates map[string]bool, unread []string, err error) {
	gates = map[string]bool{}
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !found {
			return nil, nil, fmt.Errorf("feature gate %q has no value: write %s=true or %s=false",
				name, name, name)
		}
		gate, isKnown, err := findGate(name)
		if err != nil {
			return nil, nil, err
		}
		on, err := strconv.ParseBool(value)
		if err != nil {
			return nil, nil, fmt.Errorf("feature gate %s is set to %q: write true or false", name,
				value)
		}
		if on && gate.refused != "" {
			return nil, nil, fmt.Errorf("feature gate %s cannot be enabled: %s", name, gate.refused)
		}
		if isKnown {
			gates[name] = on
		} else {
			unread = append(unread, name)
		}
	}
	return gates, unread, nil
}

// findGate returns a gate by its name. A name that is similar to a known one is an error.
func findGate(name string) (gate featureGate, isKnown bool, err error) {
	var known []string
	for _, gate := range featureGates() {
		if gate.name == name {
			return gate, true, nil
		}
		known = append(known, gate.name)
	}
	if near := nearest.Name(name, known); near != "" {
		return featureGate{}, false, fmt.Errorf("unknown feature gate %q: did you mean %s?", name,
			near)
	}
	// The names of gates are Go identifiers.
	if !token.IsIdentifier(name) {
		return featureGate{}, false, fmt.Errorf("unknown feature gate %q: known are %s",
			name, strings.Join(known, ", "))
	}
	return featureGate{}, false, nil
}

// gatesValue is --feature-gates; a repeated flag adds gates.
type gatesValue struct {
	gates *map[string]bool
	// unread are the gates without effect.
	unread *[]string
}

func (v gatesValue) Set(list string) error {
	given, unread, err := parseFeatureGates(list)
	if err != nil {
		return err
	}
	*v.unread = append(*v.unread, unread...)
	if *v.gates == nil {
		*v.gates = map[string]bool{}
	}
	maps.Copy(*v.gates, given)
	return nil
}

func (v gatesValue) Type() string { return "mapStringBool" }

func (v gatesValue) String() string {
	if v.gates == nil { // pflag calls it on the zero value, too
		return ""
	}
	var pairs []string
	for _, name := range slices.Sorted(maps.Keys(*v.gates)) {
		pairs = append(pairs, name+"="+strconv.FormatBool((*v.gates)[name]))
	}
	return strings.Join(pairs, ",")
}
