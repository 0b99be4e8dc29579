package storetest

import (
	"testing"

	"tailscope/internal/store"
)

// The twin passes the suite, too: else one of them is wrong.
func TestTwin(t *testing.T) { Run(t, func(*testing.T) store.Store { return NewTwin() }) }
