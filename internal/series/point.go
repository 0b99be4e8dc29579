package series

import (
	"github.com/prometheus/prometheus/model/labels"

	"tailscope/hist"
)

// Point is one measurement of a series within one slot of 10 s. Points of the same
// series and slot add up. Programs that measure by themselves send points to a server.
type Point struct {
	Family    string
	Labels    labels.Labels
	Kind      Kind            // Distribution or Counter; of a sample Gauge or Counter
	TimeNanos int64           // Unix, within the slot
	Hist      *hist.Histogram // of a Distribution
	Value     float64         // of a Counter: by how much it grew, above 0; of a sample the raw value
	Sampled   bool            // a raw sample of a Gauge, or of a running total
}
