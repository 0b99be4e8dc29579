package objective

import (
	"time"

	"tailscope/hist"
)

// Batch holds what was seen of a step in a moment of some 100 to 200 ms.
type Batch struct {
	// At is the batch's end, counted from when the first request of the step was due.
	// Batches come in order and meet.
	At time.Duration
	// Ended holds what ended in the batch, for every Part of the objective. A missing
	// part had nothing.
	Ended map[Part]Ended
	// Waiting holds what was under way at its end, by when it was due: for Part{} at
	// least. Without it a target that answers nothing looks healthy.
	Waiting map[Part]Waiting
}

// Ended describes the requests that ended in a batch: answered, failed or given up.
type Ended struct {
	Requests uint64
	Errors   uint64 // of them
	// Latency, in seconds from when they were due, covers all requests that ended. A
	// failed one counts with the time after which it failed. It is only read during
	// Add. nil if there are none.
	Latency *hist.Histogram
}

// Waiting describes requests that are under way, or due and not sent.
type Waiting struct {
	Due      uint64        // requests that became due in the batch
	UnderWay uint64        // at its end
	Oldest   time.Duration // since the oldest of them was due
}
