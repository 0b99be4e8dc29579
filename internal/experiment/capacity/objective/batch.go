package objective

import (
	"time"

	"tailscope/hist"
)

// Batch is what was seen of a step in a moment of some 100 to 200 ms.
type Batch struct {
	// At is the batch's end, since the first request of the step was due. Batches
	// come in order and meet.
	At time.Duration
	// Ended is what ended in the batch, by whose it was: of every Part of the
	// objective. A part that is missing had nothing.
	Ended map[Part]Ended
	// Waiting is what was under way at its end, and when it was due: of Part{} at
	// least. Without it a target that answers nothing looks healthy.
	Waiting map[Part]Waiting
}

// Ended are requests that ended in a batch: answered, failed or given up.
type Ended struct {
	Requests uint64
	Errors   uint64 // of them
	// Latency, in seconds from when they were due, is of all requests that ended,
	// also those that failed: with the time after which they did. It is only read
	// while it is added. May be nil if there are none.
	Latency *hist.Histogram
}

// Waiting are requests that are under way, or due and not sent.
type Waiting struct {
	Due      uint64        // requests that became due in the batch
	UnderWay uint64        // at its end
	Oldest   time.Duration // since the oldest of them was due
}
