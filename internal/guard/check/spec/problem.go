package spec

import (
	"strings"

	"tailscope/internal/strictyaml"
)

// Problem is one mistake in a file.
type Problem = strictyaml.Problem

// problem notes a mistake.
func (r *reader) problem(at place, hint, format string, args ...any) {
	r.problems.Add(at, hint, format, args...)
}

// decode reads this package's words. If partial it leaves out complaints about what
// is missing, which another part of a check will have, and about texts whose $label
// or $$MACRO$$ has not been replaced yet.
func (r *reader) decode(partial bool, what string, n *node, v any) {
	if r.d == nil {
		r.d = &strictyaml.Decoder{Problems: &r.problems, Leaves: leaves}
	}
	r.d.Partial, r.d.Later = partial, nil
	if partial {
		r.d.Later = func(s string) bool { return strings.Contains(s, "$") }
	}
	r.d.Decode(what, n, v)
}
