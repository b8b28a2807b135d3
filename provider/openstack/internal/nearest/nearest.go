// Package nearest guesses which name was meant by one that does not exist.
package nearest

import "strings"

// Name is the candidate that differs least from a word, without regard to case; "" if all differ in more than a third of it.
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

// maxCompared bounds the work for a word that is no name of anything.
const maxCompared = 64

// distance is how many characters must be put in, taken out or replaced to make b of a.
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
