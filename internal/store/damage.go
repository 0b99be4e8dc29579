package store

import (
	"fmt"
	"time"
)

// Damage describes one file that was found damaged or missing, and the loss. Stores and
// journals report it; /readyz, /metrics and the page show it.
type Damage struct {
	Part   string // "store" or "journal"
	File   string // its present path, in damaged/ if it was moved there
	Reason string // lower case, without the file: "checksum mismatch in block 7"
	Lost   string // what questions do not see any more, in words; empty if nothing is lost
	// Observations counts the acknowledged observations that are lost, or is -1 if that
	// is not known.
	Observations int64
	From, To     time.Time // range of time that the loss falls in, zero if not known
	Found        time.Time
}

// DamagedError reports that a file which a question needs cannot be read. It wraps
// ErrCorrupt.
type DamagedError struct {
	File   string
	Reason string // lower case, on one line
	Holds  string // the content of the file, in words, with times
}

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged (%s); it holds %s", e.File, e.Reason, e.Holds)
}

func (e *DamagedError) Unwrap() error { return ErrCorrupt }
