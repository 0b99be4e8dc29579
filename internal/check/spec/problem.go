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

// decoder reads this package's words. A partial one leaves out complaints about
// what is missing, which another part of a check will have, and about texts whose
// $label or $$MACRO$$ has not been replaced yet.
func (r *reader) decoder(partial bool) *strictyaml.Decoder {
	d := &strictyaml.Decoder{Problems: &r.problems, Kinds: kinds, Partial: partial}
	if partial {
		d.Later = func(s string) bool { return strings.Contains(s, "$") }
	}
	return d
}
