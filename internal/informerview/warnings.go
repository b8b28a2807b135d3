package informerview

import (
	"fmt"
	"slices"
	"strings"
)

// Warnings returns sentences for the operator about the host's informers, sorted. It returns none
// for the term's own informers.
func (v *View) Warnings() []string {
	if !v.root.host {
		return nil
	}
	warnings := []string{"Informers are the host's: they live on between terms, and are as complete and as fresh as the host keeps them."}
	if names := v.unobserved(); len(names) > 0 {
		warnings = append(warnings, fmt.Sprintf(
			"The Manager cannot report failed lists and watches of %s, because the host started these informers before the Manager requested them.",
			strings.Join(names, ", ")))
	}
	slices.Sort(warnings)
	return warnings
}

// unobserved names the informers whose errors only the host receives.
func (v *View) unobserved() []string {
	var names []string
	for _, s := range v.root.requestedSources() {
		if s.unobserved {
			names = append(names, s.name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
