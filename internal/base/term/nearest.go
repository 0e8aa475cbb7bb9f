package term

import (
	"slices"
	"strings"
)

// Nearest returns the word of known that a misspelled one was probably meant to be, or
// "" if none is near: at most a third of its letters differ, or two.
func Nearest(word string, known []string) string {
	best, least := "", max(2, len(word)/3)+1
	for _, k := range known {
		if n := Distance(word, k, least); n < least {
			best, least = k, n
		}
	}
	return best
}

// NearestOrAll ends the error about a misspelled key: it names the nearest key of known, or
// all of them if none is near. synonyms are words of other programs for some keys.
func NearestOrAll(word string, known []string, synonyms map[string]string) string {
	near := synonyms[word]
	if !slices.Contains(known, near) {
		near = Nearest(word, known)
	}
	if near == "" {
		return "; known are " + strings.Join(known, ", ")
	}
	return "; the nearest is " + near
}

// Distance is the number of letters to insert, delete or replace to get from a to b,
// or limit if it is not less. It takes no more than limit times the length of b.
func Distance(a, b string, limit int) int {
	if len(a)-len(b) >= limit || len(b)-len(a) >= limit {
		return limit
	}
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost = 1 + min(diagonal, row[j], row[j+1])
			}
			diagonal, row[j+1] = row[j+1], cost
		}
	}
	return min(row[len(b)], limit)
}
