// Package nearest finds the known name that is most similar to an unknown one.
package nearest

import "strings"

// Name is the most similar candidate, ignoring case; "" if all differ in more than a third of the
// word.
func Name(word string, candidates []string) string {
	word = strings.ToLower(word)
	best, least := "", max(1, len(word)/3)+1
	for _, candidate := range candidates {
		if d := distance(word, strings.ToLower(candidate)); candidate != "" && d < least {
			best, least = candidate, d
		}
	}
	return best
}

// IsClose reports whether two names differ in one edit at most, or only in case and separators.
func IsClose(a, b string) bool {
	a, b = strings.ToLower(a), strings.ToLower(b)
	return distance(a, b) <= 1 || Plain(a) == Plain(b)
}

// Plain is a name in lower case and without separators.
func Plain(name string) string {
	return strings.NewReplacer("-", "", "_", "", ".", "").Replace(strings.ToLower(name))
}

// maxCompared limits the work for long words.
const maxCompared = 64

// distance is the number of insertions, deletions and replacements that turn a into b.
func distance(a, b string) int {
	from, to := []rune(a), []rune(b)
	if len(from) > maxCompared {
		return len(from)
	}
	row := make([]int, len(to)+1)
	for j := range row {
		row[j] = j
	}
	for i := range from {
		diagonal := row[0]
		row[0] = i + 1
		for j := range to {
			replaced := diagonal
			if from[i] != to[j] {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(to)]
}
