package report

import (
	"math"
	"strings"

	"tailscope/api"
)

// eighths are the left parts of a block, by eighths.
var eighths = [...]string{"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"}

// Bar draws a share (0 to 1) within width characters, to an eighth of one.
// A share above 0 is at least an eighth.
func Bar(share api.Float, width int) string {
	v := float64(share)
	if math.IsNaN(v) || v <= 0 {
		return ""
	}
	n := max(1, int(math.Round(min(v, 1)*float64(width)*8)))
	return strings.Repeat("█", n/8) + eighths[n%8]
}

// ShareWidth is the length of the bars of tables, in characters.
const ShareWidth = 20
