package cloudconf

import (
	"fmt"

	"github.com/fxccm/fxccm/internal/nearest"
)

// guess appends the candidate that was probably meant, if one is close.
func guess(word string, candidates []string) string {
	if near := nearest.Name(word, candidates); near != "" {
		return "; " + didYouMean(near)
	}
	return ""
}

func didYouMean(name string) string { return fmt.Sprintf("did you mean %q?", name) }
