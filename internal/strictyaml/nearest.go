package strictyaml

import (
	"strings"

	"github.com/prometheus/prometheus/util/strutil"
)

// How like a word must be to the one it may be a slip of: by Jaro and Winkler, who
// count what is in place (Winkler, String Comparator Metrics, 1990), or by the
// share of letters that need no edit, which is kinder to short words.
const (
	alike     = 0.8
	unchanged = 0.6
)

// Nearest returns the known word that looks most like the one written, whatever
// the case, the first of equals; ok says whether it may be a slip of it. It is
// empty if nothing is known.
func Nearest(word string, known []string) (nearest string, ok bool) {
	word = strings.ToLower(word)
	m := strutil.NewJaroWinklerMatcher(word)
	best, fewest := -1.0, 0
	for _, k := range known {
		lower := strings.ToLower(k)
		likeness := m.Score(lower) / alike
		edits := Distance(word, lower)
		if same := 1 - float64(edits)/float64(max(len(word), len(lower), 1)); same >= unchanged {
			likeness = max(likeness, same/unchanged)
		}
		if likeness > best || likeness == best && edits < fewest {
			nearest, best, fewest = k, likeness, edits
		}
	}
	return nearest, best >= 1
}

// Distance is how many letters to put in, take out or replace, or neighbours to
// swap, make b of a (optimal string alignment; in bytes).
func Distance(a, b string) int {
	if len(a) > maxLength || len(b) > maxLength {
		return max(len(a), len(b))
	}
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row[0] = i + 1
		for j := range len(b) {
			cost := last[j]
			if a[i] != b[j] {
				cost = 1 + min(last[j], last[j+1], row[j])
			}
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				cost = min(cost, before[j-1]+1)
			}
			row[j+1] = cost
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}

// Suggest is a hint at the known word that looks most like the one written, or a
// list of all that are known if none does and they are few.
func Suggest(word string, known []string) string {
	if nearest, ok := Nearest(word, known); ok {
		return "did you mean " + nearest + "?"
	}
	if len(known) == 0 || len(known) > 12 {
		return ""
	}
	return "write one of " + strings.Join(known, ", ")
}

// maxLength is the length beyond which words are like no others: comparing takes
// the product of both lengths.
const maxLength = 256
