// Package good does what a library does: nothing is reported, although its test does all that is forbidden.
package good

import (
	"errors"
	"fmt"
)

// ErrSkip is compared with.
var ErrSkip = errors.New("skipped")

var table = []struct{ name string }{{"a"}, {"b"}}

// Names reads a package variable.
func Names(first string) ([]string, error) {
	names := []string{first}
	for _, row := range table {
		names = append(names, row.name)
	}
	if len(names) > 5 {
		return nil, fmt.Errorf("too many: %w", ErrSkip)
	}
	return names, nil
}
