package storetest

import (
	"fmt"
	"math"
	"strings"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

// Diff describes how two results differ, or returns "". Counts, buckets, minima and
// maxima must be equal, sums to one part in 10^9, since they may have been added in
// another order.
func Diff(got, want *store.Result) string {
	var b strings.Builder
	if len(got.Groups) != len(want.Groups) {
		fmt.Fprintf(&b, "got %d groups, want %d\n", len(got.Groups), len(want.Groups))
	}
	for i := range min(len(got.Groups), len(want.Groups)) {
		g, w := got.Groups[i], want.Groups[i]
		if g.Labels.String() != w.Labels.String() || g.Kind != w.Kind {
			fmt.Fprintf(&b, "group %d: got %v of kind %d, want %v of kind %d\n", i, g.Labels, g.Kind, w.Labels, w.Kind)
			continue
		}
		if len(g.Points) != len(w.Points) {
			fmt.Fprintf(&b, "group %v: got %d points, want %d\n", g.Labels, len(g.Points), len(w.Points))
		}
		for k := range min(len(g.Points), len(w.Points)) {
			if d := diffPoint(g.Kind, g.Points[k], w.Points[k]); d != "" {
				fmt.Fprintf(&b, "group %v, point %d: %s\n", g.Labels, k, d)
				break
			}
		}
	}
	return b.String()
}

func diffPoint(kind series.Kind, g, w store.MergedPoint) string {
	if g.Start != w.Start {
		return fmt.Sprintf("got start %d, want %d", g.Start, w.Start)
	}
	if kind != series.Distribution {
		if g.Number.Count != w.Number.Count || !near(g.Number.Sum, w.Number.Sum) || g.Number.Min != w.Number.Min ||
			g.Number.Max != w.Number.Max || g.Number.Last != w.Number.Last || g.Number.LastTimeMillis != w.Number.LastTimeMillis {
			return fmt.Sprintf("got %+v, want %+v", g.Number, w.Number)
		}
		return ""
	}
	if g.Hist == nil || w.Hist == nil {
		return fmt.Sprintf("got histogram %v, want %v", g.Hist, w.Hist)
	}
	if d := DiffHist(g.Hist, w.Hist); d != "" {
		return fmt.Sprintf("at %d: %s", g.Start, d)
	}
	return ""
}

// DiffHist describes how two histograms differ, or returns "".
func DiffHist(g, w *hist.Histogram) string {
	switch {
	case g.Schema != w.Schema:
		return fmt.Sprintf("got schema %d, want %d", g.Schema, w.Schema)
	case g.Count != w.Count:
		return fmt.Sprintf("got count %d, want %d", g.Count, w.Count)
	case g.ZeroCount != w.ZeroCount:
		return fmt.Sprintf("got zero count %d, want %d", g.ZeroCount, w.ZeroCount)
	case !near(g.Sum, w.Sum):
		return fmt.Sprintf("got sum %v, want %v", g.Sum, w.Sum)
	case !same(g.Min, w.Min) || !same(g.Max, w.Max):
		return fmt.Sprintf("got min %v and max %v, want %v and %v", g.Min, g.Max, w.Min, w.Max)
	case g.Weighted != w.Weighted:
		return fmt.Sprintf("got weighted %v, want %v", g.Weighted, w.Weighted)
	case g.Squares != w.Squares:
		return fmt.Sprintf("got squares %v, want %v", g.Squares, w.Squares)
	}
	if d := diffBuckets(g.Positive, w.Positive); d != "" {
		return "positive buckets: " + d
	}
	if d := diffBuckets(g.Negative, w.Negative); d != "" {
		return "negative buckets: " + d
	}
	return ""
}

func diffBuckets(g, w hist.Buckets) string {
	counts := func(b hist.Buckets) map[int32]uint64 {
		m := map[int32]uint64{}
		for i, c := range b.Counts {
			if c != 0 {
				m[b.Offset+int32(i)] = c
			}
		}
		return m
	}
	a, b := counts(g), counts(w)
	for i, c := range a {
		if b[i] != c {
			return fmt.Sprintf("bucket %d: got %d, want %d", i, c, b[i])
		}
	}
	for i, c := range b {
		if a[i] != c {
			return fmt.Sprintf("bucket %d: got %d, want %d", i, a[i], c)
		}
	}
	return ""
}

func near(a, b float64) bool {
	return same(a, b) || math.Abs(a-b) <= 1e-9*max(math.Abs(a), math.Abs(b))
}

func same(a, b float64) bool { return a == b || math.IsNaN(a) && math.IsNaN(b) }
