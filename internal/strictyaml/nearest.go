package strictyaml

import (
	"strings"

	"github.com/prometheus/prometheus/util/strutil"
)

// alike is the least likeness of a word and the one it may be a slip of.
const alike = 0.75

// Nearest returns the known word that looks most like the one written, by Jaro
// and Winkler's likeness (Winkler, String Comparator Metrics, 1990) whatever the
// case, the first of equals; ok says whether it may be a slip of it. It is empty
// if nothing is known.
func Nearest(word string, known []string) (nearest string, ok bool) {
	m := strutil.NewJaroWinklerMatcher(strings.ToLower(word))
	best := -1.0
	for _, k := range known {
		if score := m.Score(strings.ToLower(k)); score > best {
			nearest, best = k, score
		}
	}
	return nearest, best >= alike
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
