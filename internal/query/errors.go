package query

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/store"
)

// Codes of errors, as the API's clients see them.
const (
	CodeInvalid     = "invalid"     // the question is wrong; asking again is no use
	CodeNotFound    = "not_found"   // what the question names does not exist
	CodeTooMany     = "too_many"    // the answer would be too large; narrow the question
	CodeTooEarly    = "too_early"   // what is asked about has not come yet; ask again later
	CodeUnavailable = "unavailable" // try again later
	CodeDamaged     = "damaged"     // what is stored cannot be read; ask for another time
	CodeInternal    = "internal"
)

// Error is a failed question: Code says whether asking again is any use,
// Message what to ask instead, Field which parameter is at fault.
type Error struct {
	Code    string
	Message string
	Field   string
	Err     error        // the cause, for the operator's log; may be nil
	Instead *api.Instead // what may be meant; nil unless match names what nobody sent
}

func (e *Error) Error() string {
	if e.Field != "" {
		return e.Field + ": " + e.Message
	}
	return e.Message
}

func (e *Error) Unwrap() error { return e.Err }

// Invalid says that the parameter field is wrong; the message should end in
// what to write instead.
func Invalid(field, format string, args ...any) *Error {
	return &Error{Code: CodeInvalid, Field: field, Message: fmt.Sprintf(format, args...)}
}

// TooEarly says that what the parameter field asks about has not come yet.
func TooEarly(field, format string, args ...any) *Error {
	e := Invalid(field, format, args...)
	e.Code = CodeTooEarly
	return e
}

// tooMany refuses a question whose answer would be too large; the message
// should end in what to narrow.
func tooMany(field, format string, args ...any) *Error {
	e := Invalid(field, format, args...)
	e.Code = CodeTooMany
	return e
}

// checkLimit settles how many of something are answered: usual where nothing
// is asked for, and at most most.
func checkLimit(limit *int, usual, most int) error {
	if *limit == 0 {
		*limit = usual
	}
	if *limit < 0 || *limit > most {
		return Invalid("limit", "limit %d is not between 1 and %d", *limit, most)
	}
	return nil
}

// damagedNext is what to do when what a question needs cannot be read.
const damagedNext = "questions that do not need it are answered, such as those about another time; " +
	"to put aside what is damaged, stop the server and run tailscope doctor --repair --data DIR"

// AsError sorts any error into an *Error; nil stays nil.
func AsError(err error) *Error {
	var e *Error
	var budget *store.BudgetError
	var damaged *store.DamagedError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &e):
		return e
	case errors.As(err, &budget):
		return &Error{Code: CodeTooMany, Field: "match", Message: fmt.Sprintf("the answer takes %d MiB of memory or more; a question may have %d MiB: add a label to match, shorten the range or lengthen the step", (budget.AskedBytes+1<<20-1)>>20, budget.LimitBytes>>20), Err: err}
	case errors.Is(err, store.ErrBusy):
		return &Error{Code: CodeUnavailable, Message: "other questions use the memory there is for questions; try again in a moment", Err: err}
	case errors.Is(err, store.ErrTooMany):
		return &Error{Code: CodeTooMany, Field: "match", Message: "the answer would be too large (" + strings.TrimSuffix(err.Error(), ": "+store.ErrTooMany.Error()) + "); add a label to match, shorten the range or lengthen the step", Err: err}
	case errors.Is(err, store.ErrAway):
		return &Error{Code: CodeUnavailable, Message: "a part of the store is away (" + err.Error() + "), and without it the answer would be too small; the page Cluster says what to do, then ask again", Err: err}
	case errors.Is(err, store.ErrFull):
		return &Error{Code: CodeUnavailable, Message: "the server has no space left to write; its log says how much is missing", Err: err}
	case errors.As(err, &damaged):
		return &Error{Code: CodeDamaged, Message: damaged.Error() + "; " + damagedNext, Err: err}
	case errors.Is(err, store.ErrCorrupt):
		return &Error{Code: CodeDamaged, Message: "what is stored cannot be read: " + err.Error() + "; " + damagedNext, Err: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &Error{Code: CodeUnavailable, Message: "the question took too long; shorten the range or add a label to match", Err: err}
	case errors.Is(err, context.Canceled):
		return &Error{Code: CodeUnavailable, Message: "the request was cancelled", Err: err}
	case errors.Is(err, hist.ErrInvalid):
		return &Error{Code: CodeInvalid, Field: "match", Message: "the matched histograms cannot be merged (" + err.Error() + "); match those of one kind", Err: err}
	}
	return &Error{Code: CodeInternal, Message: "internal error; the server's log says more", Err: err}
}
