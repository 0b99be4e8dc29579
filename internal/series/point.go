package series

import (
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
)

// Point is what happened to one series in one slot of 10 s, or in a part of one:
// points of one series and slot add up. It is what a program that measures by
// itself puts into a server.
type Point struct {
	Family    string
	Labels    labels.Labels
	Kind      Kind            // Distribution or Counter
	TimeNanos int64           // Unix, within the slot
	Hist      *hist.Histogram // of a Distribution
	Value     float64         // of a Counter: by how much it grew, above 0
}
