package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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

// Problems gathers mistakes. The same one at the same place is noted once: a
// template's mistakes are found in everything that uses it. The zero value works.
type Problems struct {
	all  []Problem
	seen map[Problem]bool
}

// Add notes a mistake at a place, with what to write instead.
func (ps *Problems) Add(at Place, hint, format string, args ...any) {
	p := Problem{Line: at.Line, Column: at.Column, Message: fmt.Sprintf(format, args...), Hint: hint}
	if at.File != nil {
		p.File = at.File.Name
	}
	ps.Put(p)
}

// Put notes a mistake.
func (ps *Problems) Put(p Problem) {
	if ps.seen[p] {
		return
	}
	if ps.seen == nil {
		ps.seen = map[Problem]bool{}
	}
	ps.seen[p] = true
	ps.all = append(ps.all, p)
}

// Len is how many there are.
func (ps *Problems) Len() int { return len(ps.all) }

// Sorted are the problems in the order of files and lines, nil if there are none.
func (ps *Problems) Sorted() []Problem {
	slices.SortStableFunc(ps.all, func(a, b Problem) int {
		return cmp.Or(strings.Compare(a.File, b.File), a.Line-b.Line, a.Column-b.Column)
	})
	return ps.all
}

// Error is one error of several problems, a line each; nil if there are none.
func Error(problems []Problem) error {
	if len(problems) == 0 {
		return nil
	}
	lines := make([]string, len(problems))
	for i, p := range problems {
		lines[i] = p.Error()
	}
	return fmt.Errorf("%s", strings.Join(lines, "\n"))
}
