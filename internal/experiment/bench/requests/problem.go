package requests

import (
	"fmt"
	"strings"
)

// Problem is one mistake in a Spec.
type Problem struct {
	Query  string // name of the query, empty if it is of none
	Index  int    // of the query in Spec.Queries, -1 if it is of none
	Field  string // of the query or the Spec, as docs/bench.md calls it: request, data, check.status
	File   string // that it stands in, empty if it stands in the Spec
	Line   int    // of File, from 1; 0 if it is about the file as a whole
	Text   string
	Hint   string // the next step
	Column int    // of Line, from 1; 0 if it is not known
}

func (p Problem) Error() string {
	var b strings.Builder
	sep := ""
	if p.Query != "" {
		fmt.Fprintf(&b, "query %s", p.Query)
		sep = ", "
	}
	if p.Field != "" {
		b.WriteString(sep + p.Field)
		sep = ": "
	}
	if p.File != "" {
		if sep != "" {
			sep = ": "
		}
		b.WriteString(sep + p.File)
		if p.Line > 0 {
			fmt.Fprintf(&b, ":%d", p.Line)
		}
		if p.Column > 0 {
			fmt.Fprintf(&b, ":%d", p.Column)
		}
		sep = ": "
	}
	if sep == ", " {
		sep = ": "
	}
	b.WriteString(sep + p.Text)
	if p.Hint != "" {
		fmt.Fprintf(&b, " (hint: %s)", p.Hint)
	}
	return b.String()
}

// Problems lists all mistakes in a Spec; Compile returns it.
type Problems []Problem

func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds the problems shown of one file.
const maxProblems = 10
