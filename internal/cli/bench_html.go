package cli

import (
	"bytes"

	"tailscope/api"
)

// writeBenchHTML writes a result as a page that needs nothing else.
func writeBenchHTML(b *bytes.Buffer, r *api.BenchResult) error {
	return nil
}
