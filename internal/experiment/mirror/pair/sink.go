package pair

import (
	"context"

	"tailscope/internal/series"
)

// Families of a session's series. All carry service and experiment; the distributions
// also operation, tenant (if known), status and variant, which is the name of the
// target. Status is ok for a whole answer below 500, else error.
const (
	FamilyDuration  = "mirror_duration_seconds"   // first byte of the request about to be written, to last byte of the answer read
	FamilyFirstByte = "mirror_first_byte_seconds" // to the first byte of the final answer
	FamilyBytes     = "mirror_answer_bytes"       // of whole answers' bodies
	FamilyRatio     = "mirror_ratio"              // duration of variant by that of LabelAgainst, of one request
	FamilyRequests  = "mirror_requests_total"     // by LabelOutcome: mirrored, skipped_<reason>
	FamilyFailed    = "mirror_failed_total"       // requests without a whole answer of the primary, by LabelOutcome: failed_<cause>
	FamilyCopies    = "mirror_copies_total"       // by variant and LabelOutcome: answered, unpaired, dropped_<cause>, failed_<cause>
)

// Labels beside those of package series.
const (
	LabelExperiment = "experiment"
	LabelAgainst    = "against" // whose duration is the denominator
	LabelOutcome    = "outcome"
	// LabelMirrored is "no" on the primary's distributions of requests that were not
	// chosen, and absent on all others. Without it the requests are those that
	// shadows were meant to get too.
	LabelMirrored = "mirrored"
)

// Values of series.LabelStatus.
const (
	StatusOK    = "ok"
	StatusError = "error"
)

// Point holds the observations of one slot of 10 s, or of a part of one.
type Point = series.Point

// Sink stores what a ledger has measured. Put takes all points or returns an error
// and takes none; it must not keep points or histograms after it has returned. It is
// called from one goroutine at a time.
type Sink interface {
	Put(ctx context.Context, points []Point) error
}
