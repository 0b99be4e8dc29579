package chstore

import (
	"fmt"
	"strings"

	"tailscope/internal/store/tier"
)

const (
	day  = 24 * 3600
	hour = 3600
)

// partLength is the length in seconds of a partition of points of each tier: what expires at
// once. A part of ClickHouse never reaches beyond one, so there must not be many.
var partLength = [tier.Count]int64{day, 7 * day, 35 * day, 70 * day}

// samplePart and tracePart are those of raw samples and of kept traces, in seconds.
const (
	samplePart = day
	tracePart  = 6 * hour
)

// blockSlots is the number of slots of a block. Within one, rows lie by series and then by
// time, so that a question reads neither other series nor other times; and a partition
// holds several.
const blockSlots = 360

func partOf(t int, slot int64) int32  { return int32(tier.FloorDiv(slot, partLength[t])) }
func blockOf(t int, slot int64) int32 { return int32(tier.FloorDiv(slot, blockSlots*tier.Slot(t))) }
func dayOf(at int64) int32            { return int32(tier.FloorDiv(at, day)) }

// inSpans returns the condition on rows of points that lie in spans.
func inSpans(spans []tier.Span) string {
	within := func(column string, from, to int32) string {
		if from == to {
			return fmt.Sprintf(" AND %s = %d", column, from)
		}
		return fmt.Sprintf(" AND %s >= %d AND %s <= %d", column, from, column, to)
	}
	var b strings.Builder
	for i, sp := range spans {
		if i > 0 {
			b.WriteString(" OR ")
		}
		r, last := tier.Slot(sp.Tier), sp.To-tier.Slot(sp.Tier)
		fmt.Fprintf(&b, "resolution = %d%s%s AND slot >= %d AND slot < %d", r,
			within("part", partOf(sp.Tier, sp.From), partOf(sp.Tier, last)), within("block", blockOf(sp.Tier, sp.From), blockOf(sp.Tier, last)), sp.From, sp.To)
	}
	return "(" + b.String() + ")"
}
