package query

import (
	"fmt"
	"strings"
	"testing"

	"tailscope/internal/store"
)

// A question that needs a part of the store which is away is answered with the part's name.
func TestAwayIsNamed(t *testing.T) {
	e := AsError(fmt.Errorf("query f: shard 2: ClickHouse at ch2:8123: %w", store.ErrAway))
	if e.Code != CodeUnavailable || !strings.Contains(e.Message, "shard 2: ClickHouse at ch2:8123") {
		t.Errorf("got %s %q, want %s and the name of the shard", e.Code, e.Message, CodeUnavailable)
	}
}
