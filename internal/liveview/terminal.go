// Package liveview shows what goes on while it does: a run of load, a search for
// capacity, a mirror session, an experiment. On a terminal a picture is drawn over;
// elsewhere a line is written now and then.
package liveview

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// sizeOf returns how many characters a terminal has across and down.
func sizeOf(w any) (width, height int) {
	if f, ok := w.(*os.File); ok {
		if w, h, err := term.GetSize(int(f.Fd())); err == nil && w > 0 && h > 0 {
			return w, h
		}
	}
	return 80, 24
}

// The intervals of progress.
const (
	DrawEvery = 200 * time.Millisecond
	SayEvery  = 10 * time.Second
)
