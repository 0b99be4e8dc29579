package expr

import (
	"context"
	"fmt"
	"time"
)

// Options configure Parse. The zero value reads the language as it is
// documented, without variables.
type Options struct {
	// Variables are the names of variables, such as value.
	Variables []string
	// Old reads dash-joined words right before a bracket as host-service-item even
	// where they begin with a number or a variable, and applies Bischeck's rule of
	// nulls: under skip, arithmetic with a null nulls the whole expression. Both hold
	// without it in expressions that could be nothing but the old notation.
	Old bool
}

// Error is a mistake in an expression: in its text, or a family of the wrong kind.
type Error struct {
	Offset       int // bytes, from 0
	Line, Column int // from 1; a column is a character
	Message      string
	Hint         string // what to write instead; may be empty
}

func (e *Error) Error() string {
	where := fmt.Sprintf("column %d", e.Column)
	if e.Line > 1 {
		where = fmt.Sprintf("line %d, %s", e.Line, where)
	}
	if e.Hint == "" {
		return where + ": " + e.Message
	}
	return where + ": " + e.Message + "; " + e.Hint
}

// EvalOptions configure an evaluation. The zero value is strict, without variables.
type EvalOptions struct {
	Nulls Nulls
	// Vars are the values of Options.Variables. One that is absent, NaN or infinite is
	// null.
	Vars  map[string]float64
	Steps bool // fill Result.Steps
}

// Result is the value of an expression: a finite number, or null.
type Result struct {
	Value float64 // NaN if Null
	Null  bool
	Steps []Step // the whole first, parts below it, in the order written
}

// Parse reads an expression whose value is a number. Errors are *Error.
func Parse(src string, o Options) (*Program, error) {
	return parse(src, o)
}

// Eval computes p at a moment. Its errors are those of h, of ctx, an
// *AmbiguousError, or an *Error where a distribution stands in a number's place.
func (p *Program) Eval(ctx context.Context, h History, at time.Time, o EvalOptions) (Result, error) {
	return p.eval(ctx, h, at, o)
}
