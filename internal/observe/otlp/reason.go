package otlp

import (
	"fmt"
	"strings"
)

// Reason is why a span or a point was refused while the rest of its request was
// accepted.
type Reason uint8

const (
	OK Reason = iota
	NoStart
	NoEnd
	EndsBeforeStart
	TooLong
	TooOld
	TooNew
	OutOfOrder
	Invalid
	NoTime
	NoName
	NoTemporality
	NotANumber
	NegativeCounter
	BucketNumber
	BoundsOrder
	CountMismatch
	TooCoarse
	TooManyBuckets
	TooManyObservations
	BrokenHistogram
	TooManyFamilies
	noValue // not refused: the sender marked it as having no value
	reasons
)

// String returns the reason's name in metrics.
func (r Reason) String() string { return reasonTexts[r].name }

var reasonTexts = [reasons]struct{ name, text string }{
	NoStart:             {"no_start", "without a start time"},
	NoEnd:               {"no_end", "without an end time: send spans when they have ended"},
	EndsBeforeStart:     {"ends_before_start", "that end before they start: check the clocks of the hosts"},
	TooLong:             {"too_long", "longer than limits.longest_span: check that their start times are set"},
	TooOld:              {"too_old", "older than anything that is kept: see the retention settings"},
	TooNew:              {"too_new", "too far in the future: check the clocks of the hosts"},
	OutOfOrder:          {"out_of_order", "not newer than the stream's last: send each stream from one place, with its own service.instance.id"},
	Invalid:             {"invalid", "of another kind than their series, or not a number"},
	NoTime:              {"no_time", "without a time"},
	NoName:              {"no_name", "of metrics without a usable name"},
	NoTemporality:       {"no_temporality", "without temporality: set it to delta or cumulative"},
	NotANumber:          {"not_a_number", "with NaN or infinite values"},
	NegativeCounter:     {"negative_counter", "below zero in a monotonic sum: use an up-down counter"},
	BucketNumber:        {"bucket_number", "whose bucket counts are not one more than their bounds"},
	BoundsOrder:         {"bounds_order", "whose bucket bounds do not ascend"},
	CountMismatch:       {"count_mismatch", "whose buckets do not add up to their count"},
	TooCoarse:           {"too_coarse", "of a scale below -4: raise the histogram's maximum number of buckets"},
	TooManyBuckets:      {"too_many_buckets", fmt.Sprintf("of more than %d buckets", maxBuckets)},
	TooManyObservations: {"too_many_observations", "of more than 2^48 observations, which nobody can have made"},
	BrokenHistogram:     {"broken_histogram", "whose buckets no number can be in, or whose minimum is above their maximum"},
	TooManyFamilies:     {"too_many_families", "of metrics beyond the limit of names: put what varies into attributes, or raise limits.families"},
	noValue:             {"no_value", ""},
}

// Partial counts the refused part of an accepted request, as OTLP's partial success
// does.
type Partial struct {
	Items    int64 // spans or points in the request
	Rejected int64
	Message  string // empty if nothing was rejected
}

// describe returns the message of a partial success.
func describe(what string, items, rejected int64, by *[reasons]int64) string {
	if rejected == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d of %d %s refused: ", rejected, items, what)
	first := true
	for r, n := range by {
		if n == 0 || Reason(r) == noValue {
			continue
		}
		if !first {
			b.WriteString("; ")
		}
		first = false
		fmt.Fprintf(&b, "%d %s", n, reasonTexts[r].text)
	}
	return b.String()
}
