package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/prometheus/util/strutil"
)

// Problem is one mistake in a file.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`           // from 1; 0 if it is of no line
	Column  int    `json:"column"`         // from 1, in characters
	Message string `json:"message"`        // what is wrong
	Hint    string `json:"hint,omitempty"` // what to write instead
}

func (p Problem) Error() string {
	s := fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
	if p.Line == 0 {
		s = fmt.Sprintf("%s: %s", p.File, p.Message)
	}
	if p.Hint != "" {
		s += ": " + p.Hint
	}
	return s
}

// problem notes a mistake. The same one at the same place is noted once: a
// template's mistakes are found in every check that uses it.
func (r *reader) problem(at place, hint, format string, args ...any) {
	p := Problem{Line: at.line, Column: at.column, Message: fmt.Sprintf(format, args...), Hint: hint}
	if at.file != nil {
		p.File = at.file.name
	}
	if !r.seen[p] {
		r.seen[p] = true
		r.problems = append(r.problems, p)
	}
}

// sorted are the problems in the order of files and lines.
func (r *reader) sorted() []Problem {
	slices.SortStableFunc(r.problems, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return r.problems
}

// nearest is a hint at the known word that looks most like the one written, or a
// list of all that are known if none does.
func nearest(word string, known []string) string {
	if len(known) == 0 {
		return ""
	}
	m := strutil.NewJaroWinklerMatcher(strings.ToLower(word))
	best := slices.MaxFunc(known, func(a, b string) int {
		return cmp.Compare(m.Score(strings.ToLower(a)), m.Score(strings.ToLower(b)))
	})
	if m.Score(strings.ToLower(best)) >= 0.75 {
		return "did you mean " + best + "?"
	}
	if len(known) > 12 {
		return ""
	}
	return "write one of " + strings.Join(known, ", ")
}
