package pebblestore

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// verbose formats as Pebble's errors do: with %+v comes an account of where
// each of its parts was made.
type verbose struct{}

func (verbose) Format(f fmt.State, _ rune) {
	fmt.Fprint(f, "checksum mismatch\n(1) attached stack trace\n  -- stack trace:\n  | main.main")
}

// What Pebble says of damage is one line, not the stack of who found it.
func TestFatalMessagesAreShort(t *testing.T) {
	var log strings.Builder
	defer func() {
		m, ok := recover().(string)
		if want := "pebble: block 7: checksum mismatch"; !ok || !strings.HasPrefix(m, want+" (") || !strings.Contains(log.String(), want) || strings.Contains(log.String(), "stack") {
			t.Errorf("panicked with %q, logged %s", m, log.String())
		}
	}()
	pebbleLogger{slog.New(slog.NewTextHandler(&log, nil))}.Fatalf("block %d: %+v", 7, verbose{})
}
