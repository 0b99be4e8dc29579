package profile

import "fmt"

// Error is a mistake in the definition of a calendar or profile. Errors that
// this package returns may join several (errors.Join).
type Error struct {
	Line    int // of the file; 0 if it is not known
	Message string
	Hint    string // what to write instead; may be empty
}

func (e *Error) Error() string {
	text := e.Message
	if e.Hint != "" {
		text += "; " + e.Hint
	}
	if e.Line > 0 {
		text = fmt.Sprintf("line %d: %s", e.Line, text)
	}
	return text
}
