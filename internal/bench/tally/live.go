package tally

import (
	"tailscope/api"
	"tailscope/hist"
)

// Live is what there is to see of a run while it goes: of the last seconds, and
// counts since its start.
type Live struct {
	Seconds  float64         // how long the last seconds are
	Latency  *hist.Histogram // of answers that came in them, from when due; not to be changed
	Service  *hist.Histogram // the same from when sent
	Asked    float64         // requests a second that the plan asks for now; NaN if it does not say
	Rate     float64         // answered a second
	Due      uint64          // by the plan, so far
	Ended    uint64          // answered or failed
	Waiting  uint64          // due and not ended, beyond what connections take
	Errors   uint64
	Failed   map[string]uint64 // by cause
	Statuses map[string]uint64
	Recent   []api.BenchSlot // the last minute, second by second
}
