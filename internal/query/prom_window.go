package query

import (
	"context"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"tailscope/hist"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

func (m marker) convert(h *hist.Histogram) *histogram.FloatHistogram {
	if m.moments {
		return momentsOnly(h)
	}
	return FloatHistogram(h)
}

// windows answers one sample per window that ends in [hints.Start, hints.End], at
// its end. A window reaches back from the end of the last slot that has ended then, and
// of which all is stored.
// It holds whole slots, and of the slot that its beginning cuts the share that lies
// within, as if that slot's observations had come evenly. A window of a multiple of
// 10 s therefore holds the slots that end in (end - window, end], exactly.
func (q *promQuerier) windows(ctx context.Context, set *promSet, f store.FamilyInfo, m marker, hints *storage.SelectHints, sq store.Query) error {
	const base = int64(series.Base) * 1000
	if m.window < base {
		set.warn("a window of %s is shorter than the slots of %s and gets its share of one; write at least [10s]", durationText(time.Duration(m.window)*time.Millisecond), f.Name)
	}
	first, count := hints.Start, int64(1)
	if m.period > 0 {
		first = ceilTo(hints.Start-m.phase, m.period) + m.phase
		if first > hints.End {
			return nil
		}
		count = (hints.End-first)/m.period + 1
	}
	// Windows up to now end with the last slot of which all is stored.
	whole := (LastWhole(q.now()) - q.shift) * 1000
	before := func(end int64) int64 { // how many windows end before
		switch {
		case end <= first:
			return 0
		case m.period == 0:
			return 1
		}
		return min(count, (end-1-first)/m.period+1)
	}
	past, now := before(whole+base), before(floorTo(q.now().UnixMilli(), base)-q.shift*1000+base)
	var found []promGroup
	for _, part := range []struct{ from, to, latest int64 }{{0, past, math.MaxInt64}, {past, now, whole}, {now, count, math.MaxInt64}} {
		if part.from < part.to {
			w := windowing{first: first + part.from*m.period, period: m.period, window: m.window, count: int(part.to - part.from), latest: part.latest}
			if err := q.slide(ctx, set, f, m, sq, &w, &found); err != nil {
				return err
			}
		}
	}
	for _, g := range found {
		if m.classic.suffix != "" {
			if err := set.keepAs(m.classic, f.Name, g.labels, g.samples); err != nil {
				return err
			}
			continue
		}
		if err := set.add(f.Name, g.labels, g.samples); err != nil {
			return err
		}
	}
	return nil
}

// promGroup is the samples of one group's windows.
type promGroup struct {
	labels  labels.Labels
	samples []promSample
}

// slide appends the samples of windows to those of the groups that were found.
func (q *promQuerier) slide(ctx context.Context, set *promSet, f store.FamilyInfo, m marker, sq store.Query, w *windowing, found *[]promGroup) error {
	const base = int64(series.Base) * 1000
	// Slots are merged into the longest blocks that every window takes whole.
	// The last slot of a window is the one that ended last.
	block := gcd(w.window, w.period)
	if block%base != 0 || w.latest != math.MaxInt64 {
		block = base
	}
	w.block = block / 1000
	w.start = (floorTo(min(w.first, w.latest), base) - ceilTo(w.window, base)) / 1000
	w.end = floorTo(min(w.first+int64(w.count-1)*w.period, w.latest), base) / 1000
	sq.Start, sq.End, sq.Step = w.start+q.shift, w.end+q.shift, w.block
	if sq.Start >= sq.End {
		return nil
	}
	res, err := q.store.Query(ctx, sq)
	if err != nil {
		return AsError(err)
	}
	slot := w.block
	if kept := int64(res.Resolution); kept > w.block || res.Start < sq.Start || res.End > sq.End {
		set.warn("%s is kept only by %s this far back; a window gets its share of a slot that it cuts", f.Name, durationText(time.Duration(kept)*time.Second))
		slot, sq.Step = kept, kept
		sq.Start, sq.End = series.Resolution(kept).Slot(sq.Start), series.Resolution(kept).Slot(sq.End+kept-1)
		if res, err = q.store.Query(ctx, sq); err != nil {
			return AsError(err)
		}
	}
	known := make(map[string]int, len(*found))
	for i := range *found {
		known[string((*found)[i].labels.Bytes(nil))] = i
	}
	for _, g := range res.Groups {
		samples, err := w.sums(g.Points, slot, q.shift, m, set)
		if err != nil {
			return AsError(err)
		}
		if i, ok := known[string(g.Labels.Bytes(nil))]; ok {
			(*found)[i].samples = append((*found)[i].samples, samples...)
		} else {
			*found = append(*found, promGroup{labels: g.Labels, samples: samples})
		}
	}
	return nil
}

func ceilTo(a, b int64) int64 { return -floorTo(-a, b) }

// windowing says which windows are wanted, in milliseconds, and which blocks
// of slots were read, in seconds.
type windowing struct {
	first, period, window int64
	count                 int
	latest                int64 // no window ends later; one that would is moved back to it
	block, start, end     int64
}

// sums slides over points, which are slots of a length in seconds. Counts of whole
// slots are integers, so that what leaves a window is taken away exactly; of a slot that
// the window cuts it takes the share within.
func (w *windowing) sums(points []store.MergedPoint, slot, shift int64, m marker, set *promSet) ([]promSample, error) {
	var sum slider = &merging{m: m}
	if w.count > 1 && !m.moments && uniform(points) {
		sum = newDense(points)
	}
	most := min(w.count, 16+len(points)*int(1+(w.window+slot*1000)/max(w.period, 1)))
	if err := set.hold(most * promSampleBytes); err != nil {
		return nil, err
	}
	out := make([]promSample, 0, most)
	started := func(i int) int64 { return (points[i].Start - shift) * 1000 }
	ended := func(i int) int64 { return started(i) + slot*1000 }
	from, to := 0, 0 // points that are wholly in the window
	for i := range w.count {
		t := w.first + int64(i)*w.period
		end := floorTo(min(t, w.latest), int64(series.Base)*1000)
		begin := end - w.window
		for to < len(points) && ended(to) <= end {
			sum.enter(points[to].Hist)
			to++
		}
		for from < to && started(from) < begin {
			sum.leave(points[from].Hist)
			from++
		}
		var h *histogram.FloatHistogram
		var err error
		if from < to {
			h, err = sum.total(points[from:to])
		}
		share := func(i int) {
			within := min(end, ended(i)) - max(begin, started(i))
			if err == nil && within > 0 {
				h, err = addShare(h, points[i].Hist, float64(within)/float64(slot*1000), m)
			}
		}
		if from > 0 {
			share(from - 1)
		}
		if to < len(points) {
			share(to)
		}
		if err != nil {
			return nil, err
		}
		if h != nil {
			out = append(out, promSample{t: t, h: h})
			if err := set.hold(sizeOfHistogram(h)); err != nil {
				return nil, err
			}
		}
		if from == len(points) && (from == 0 || ended(from-1) <= begin) {
			break
		}
		if i%64 == 0 && set.ctx.Err() != nil {
			return nil, set.ctx.Err()
		}
	}
	return out, nil
}

// addShare adds a share of h to sum, which may be nil and is changed.
func addShare(sum *histogram.FloatHistogram, h *hist.Histogram, share float64, m marker) (*histogram.FloatHistogram, error) {
	if h == nil || h.Count == 0 {
		return sum, nil
	}
	part := m.convert(h).Mul(share)
	if sum == nil {
		return part, nil
	}
	sum, _, _, err := sum.Add(part)
	return sum, err
}

// slider keeps the sum of the points in a window.
type slider interface {
	enter(h *hist.Histogram)
	leave(h *hist.Histogram)
	// total returns the sum; in are the points in the window.
	total(in []store.MergedPoint) (*histogram.FloatHistogram, error)
}

// merging merges each window anew: it takes histograms of any kind.
type merging struct{ m marker }

func (*merging) enter(*hist.Histogram) {}
func (*merging) leave(*hist.Histogram) {}

func (s *merging) total(in []store.MergedPoint) (*histogram.FloatHistogram, error) {
	if s.m.moments {
		f := &histogram.FloatHistogram{CounterResetHint: histogram.GaugeType}
		for _, p := range in {
			if p.Hist != nil {
				f.Count += float64(p.Hist.Count)
				f.Sum += p.Hist.Sum
			}
		}
		if f.Count == 0 {
			return nil, nil
		}
		return f, nil
	}
	var h *hist.Histogram
	for _, p := range in {
		switch {
		case p.Hist == nil || p.Hist.Count == 0:
		case h == nil:
			h = p.Hist.Clone()
		default:
			if err := h.Merge(p.Hist); err != nil {
				return nil, err
			}
		}
	}
	if h == nil {
		return nil, nil
	}
	return FloatHistogram(h), nil
}

// uniform says whether all histograms have the same exponential buckets.
func uniform(points []store.MergedPoint) bool {
	var like *hist.Histogram
	for _, p := range points {
		h := p.Hist
		if h == nil || h.Count == 0 {
			continue
		}
		if like == nil {
			like = h
		}
		if h.Schema == hist.Explicit || h.Schema != like.Schema || h.ZeroThreshold != like.ZeroThreshold {
			return false
		}
	}
	return like != nil
}

// dense keeps a window's counts over all the buckets that occur.
type dense struct {
	sum                hist.Histogram
	positive, negative hist.Buckets
}

func newDense(points []store.MergedPoint) *dense {
	d := &dense{}
	span := func(side func(*hist.Histogram) hist.Buckets) hist.Buckets {
		low, high := int32(math.MaxInt32), int32(math.MinInt32)
		for _, p := range points {
			if p.Hist == nil {
				continue
			}
			if lo, hi, ok := occupied(side(p.Hist)); ok {
				low, high = min(low, lo), max(high, hi)
			}
		}
		if low > high {
			return hist.Buckets{}
		}
		return hist.Buckets{Offset: low, Counts: make([]uint64, high-low+1)}
	}
	d.positive = span(func(h *hist.Histogram) hist.Buckets { return h.Positive })
	d.negative = span(func(h *hist.Histogram) hist.Buckets { return h.Negative })
	for _, p := range points {
		if p.Hist != nil && p.Hist.Count > 0 {
			d.sum.Schema, d.sum.ZeroThreshold = p.Hist.Schema, p.Hist.ZeroThreshold
			break
		}
	}
	return d
}

func (d *dense) enter(h *hist.Histogram) { d.apply(h, 1) }
func (d *dense) leave(h *hist.Histogram) { d.apply(h, ^uint64(0)) } // minus one

func (d *dense) apply(h *hist.Histogram, sign uint64) {
	if h == nil || h.Count == 0 {
		return
	}
	d.sum.Count += sign * h.Count
	d.sum.ZeroCount += sign * h.ZeroCount
	for _, side := range [...]struct {
		to   hist.Buckets
		from hist.Buckets
	}{{d.positive, h.Positive}, {d.negative, h.Negative}} {
		lo, hi, ok := occupied(side.from)
		if !ok {
			continue
		}
		from := side.from.Counts[lo-side.from.Offset : hi-side.from.Offset+1]
		to := side.to.Counts[lo-side.to.Offset:]
		for i, n := range from {
			to[i] += sign * n
		}
	}
}

func (d *dense) total(in []store.MergedPoint) (*histogram.FloatHistogram, error) {
	if d.sum.Count == 0 {
		return nil, nil
	}
	d.sum.Sum = 0
	for _, p := range in { // floats are added anew, since taking away would leave dust
		if p.Hist != nil && p.Hist.Count > 0 {
			d.sum.Sum += p.Hist.Sum
		}
	}
	d.sum.Positive, d.sum.Negative = d.positive, d.negative
	return FloatHistogram(&d.sum), nil
}
