package store

import (
	"fmt"
	"time"
)

// Damage describes one file that was found damaged or missing and what that
// costs. Stores and journals report it; /readyz, /metrics and the page show it.
type Damage struct {
	Part   string // "store" or "journal"
	File   string // path as the operator finds it now, in damaged/ if it was moved there
	Reason string // lower case, without the file: "checksum mismatch in block 7"
	Lost   string // what questions no longer see, in words; empty if nothing is lost
	// Observations counts the acknowledged observations that are lost; -1 if
	// that is not known.
	Observations int64
	From, To     time.Time // range of time that the loss falls in, zero if not known
	Found        time.Time
}

// DamagedError says that a file cannot be read where a question needs it. It
// wraps ErrCorrupt.
type DamagedError struct {
	File   string
	Reason string // lower case, on one line
	Holds  string // what the file holds, in words, with times
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged (%s); it holds %s", e.File, e.Reason, e.Holds)
}

func (e *DamagedError) Unwrap() error { return ErrCorrupt }
