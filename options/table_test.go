package options

import (
	"maps"
	"slices"
	"strings"
	"testing"
)

func TestTable_EachFieldOfConfig_HasExactlyOneFlag(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfiguration()
	paths := leaves(&cfg)
	flags := map[string]string{}
	for _, group := range flagTable(nil) {
		for _, spec := range group.flags {
			if spec.field == nil {
				continue
			}
			path, ok := paths[spec.field(&cfg)]
			if !ok {
				t.Errorf("--%s sets a value that is not a field of Config", spec.name)
			}
			if other := flags[path]; other != "" {
				t.Errorf("--%s and --%s both set %s", spec.name, other, path)
			}
			flags[path] = spec.name
		}
	}
	for _, path := range slices.Sorted(maps.Values(paths)) {
		if flags[path] == "" {
			t.Errorf("no flag sets %s", path)
		}
	}
}

func TestTable_FlagWithoutAField_IsDeclaredIgnoredOrRefused(t *testing.T) {
	t.Parallel()
	kinds := map[string]differenceKind{}
	for _, d := range differences() {
		kinds[d.Flag] = d.Kind
	}
	own := []string{"config", "feature-gates"}
	for _, group := range flagTable(nil) {
		for _, spec := range group.flags {
			dropped := kinds[spec.name] == isIgnored || kinds[spec.name] == isRefused
			if sets := spec.field != nil || slices.Contains(own, spec.name); sets == dropped {
				t.Errorf("--%s: sets a value: %t; declared ignored or refused: %t", spec.name,
					sets, dropped)
			}
			if !strings.HasSuffix(spec.usage, ".") || strings.Contains(spec.usage, "`") {
				t.Errorf("the help of --%s is not a plain sentence: %s", spec.name, spec.usage)
			}
		}
	}
}
