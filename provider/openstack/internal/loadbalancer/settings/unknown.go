package settings

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/fxccm/fxccm/provider/openstack/cloudconf"
	"github.com/fxccm/fxccm/provider/openstack/internal/nearest"
)

// Unknown returns the Service's annotations that resemble fxccm's: most likely typos. They are
// sorted by name, have no Value, and are never fatal: others may use the prefix, too.
func Unknown(service *v1.Service) []Problem {
	var known, short []string
	for _, row := range table(&Settings{}, cloudconf.LoadBalancer{}) {
		name := row.about().name
		known, short = append(known, name), append(short, strings.TrimPrefix(name, Prefix))
	}
	var problems []Problem
	for _, name := range slices.Sorted(maps.Keys(service.Annotations)) {
		ours := strings.HasPrefix(name, Prefix) || strings.HasPrefix(name, olderPrefix)
		if !ours || slices.Contains(known, name) {
			continue
		}
		why := "not known, and has no effect"
		// The prefix would make all names similar.
		if near := nearest.Name(strings.TrimPrefix(name, Prefix), short); near != "" {
			why += fmt.Sprintf("; did you mean %q?", known[slices.Index(short, near)])
		}
		problems = append(problems, Problem{Annotation: shown(name), Why: why})
	}
	return problems
}
