package query

import (
	"context"
	"math"
	"runtime"
	"slices"
	"sort"
	"sync"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/store"
)

// DefaultRows is how many rows a heatmap has at most unless asked otherwise.
const DefaultRows = 640

// HeatmapRequest asks how a distribution moves over time.
type HeatmapRequest struct {
	Selection
	Grid
	Rows int // the most rows wanted; 0 means DefaultRows
}

// Heatmap cuts the range into columns and the values into rows that all
// columns share. Rows are buckets, made coarser until they fit.
func Heatmap(ctx context.Context, st store.Store, r HeatmapRequest) (*api.HeatmapResponse, error) {
	if r.Rows < 0 || r.Rows == 1 || r.Rows > 10000 {
		return nil, Invalid("rows", "rows %d is not between 2 and 10000", r.Rows)
	}
	if r.Rows == 0 {
		r.Rows = DefaultRows
	}
	sel, err := resolve(ctx, st, r.Selection, nil)
	if err != nil {
		return nil, err
	}
	if err := sel.wantDistribution("heatmap"); err != nil {
		return nil, err
	}
	sel.q.Schema = hist.DefaultSchema
	res, q, err := stepped(ctx, st, sel.q, r.Start, r.End, r.Grid, sel.info.IntervalSeconds)
	if err != nil {
		return nil, err
	}
	out := &api.HeatmapResponse{
		Range: api.Range{Start: q.Start, End: q.End}, Family: sel.info.Name, Step: q.Step, Slot: slotOf(res),
		Bounds: []api.Float{}, Columns: []api.HeatmapColumn{},
	}
	var points []store.MergedPoint
	for _, g := range res.Groups {
		for _, p := range g.Points {
			if p.Hist != nil && p.Hist.Count > 0 {
				points = append(points, p)
			}
		}
	}
	if len(points) == 0 {
		return out, nil
	}
	rows := newRows(points, r.Rows)
	bounds := rows.bounds()
	out.Bounds = make([]api.Float, len(bounds))
	for i, b := range bounds {
		out.Bounds[i] = api.Float(b)
	}
	out.Error = api.Float(rows.relativeError())
	out.Columns = make([]api.HeatmapColumn, len(points))
	workers := min(runtime.GOMAXPROCS(0), 1+len(points)/columnsOfWorker)
	most := make([]uint64, workers)
	var work sync.WaitGroup
	for w := range workers {
		from, to := w*len(points)/workers, (w+1)*len(points)/workers
		work.Go(func() { most[w] = fillColumns(out.Columns[from:to], points[from:to], rows, len(bounds)-1) })
	}
	work.Wait()
	out.MaxCell = slices.Max(most)
	for i := range out.Columns {
		out.Count += out.Columns[i].Count
	}
	return out, nil
}

const (
	// columnsOfWorker are those that a goroutine more is worthwhile for.
	columnsOfWorker = 100
	// cellsAtOnce are the cells that memory is made for: a column's own would be a piece for each.
	cellsAtOnce = 8192
)

// fillColumns makes the columns of points in so many rows, and returns their greatest cell.
func fillColumns(columns []api.HeatmapColumn, points []store.MergedPoint, rows rower, n int) (most uint64) {
	dense := make([]uint64, n)
	var at []int
	var counts []uint64
	for i, p := range points {
		if cap(at)-len(at) < n {
			at, counts = make([]int, 0, max(n, cellsAtOnce)), make([]uint64, 0, max(n, cellsAtOnce))
		}
		from := len(at)
		rows.add(p.Hist, dense)
		for row, c := range dense {
			if c != 0 {
				at, counts, most = append(at, row), append(counts, c), max(most, c)
				dense[row] = 0
			}
		}
		to := len(at)
		columns[i] = api.HeatmapColumn{
			Start: p.Start, Count: p.Hist.Count, Sum: api.Float(p.Hist.Sum), Min: api.Float(p.Hist.Min), Max: api.Float(p.Hist.Max),
			Rows: at[from:to:to], Counts: counts[from:to:to],
		}
	}
	return most
}

// rower maps histograms onto rows shared by every column.
type rower interface {
	bounds() []float64 // ascending, one more than rows
	add(h *hist.Histogram, dense []uint64)
	relativeError() float64
}

// exponentialRows are the buckets of one schema: negative ones from the
// greatest magnitude down, perhaps a row for what lies around zero, positive ones.
type exponentialRows struct {
	schema           int8
	posLow, posHigh  int32 // bucket indexes, inclusive; empty when posHigh < posLow
	negLow, negHigh  int32
	zero             bool // there is a row between negative and positive ones
	worst            float64
	zeroRow, posRow0 int
}

func newExponentialRows(points []store.MergedPoint, limit int) *exponentialRows {
	r := &exponentialRows{schema: hist.DefaultSchema}
	for _, p := range points {
		r.schema = min(r.schema, p.Hist.Schema)
	}
	for {
		r.measure(points)
		if r.count() <= limit || r.schema == hist.MinSchema {
			break
		}
		r.schema--
	}
	for _, p := range points {
		r.worst = max(r.worst, p.Hist.Error)
	}
	neg := int(r.negHigh - r.negLow + 1)
	r.zeroRow, r.posRow0 = neg, neg
	if r.zero {
		r.posRow0++
	}
	return r
}

// measure finds the occupied buckets at r.schema.
func (r *exponentialRows) measure(points []store.MergedPoint) {
	r.posLow, r.posHigh = math.MaxInt32, math.MinInt32
	r.negLow, r.negHigh = math.MaxInt32, math.MinInt32
	r.zero = false
	for _, p := range points {
		shift := p.Hist.Schema - r.schema
		if lo, hi, ok := occupied(p.Hist.Positive); ok {
			r.posLow, r.posHigh = min(r.posLow, coarser(lo, shift)), max(r.posHigh, coarser(hi, shift))
		}
		if lo, hi, ok := occupied(p.Hist.Negative); ok {
			r.negLow, r.negHigh = min(r.negLow, coarser(lo, shift)), max(r.negHigh, coarser(hi, shift))
		}
		r.zero = r.zero || p.Hist.ZeroCount > 0
	}
	if r.posLow > r.posHigh {
		r.posLow, r.posHigh = 1, 0
	} else if r.negLow <= r.negHigh {
		r.zero = true // rows are contiguous, so the gap is one
	}
	if r.negLow > r.negHigh {
		r.negLow, r.negHigh = 1, 0
	}
}

func (r *exponentialRows) count() int {
	n := int(r.posHigh-r.posLow+1) + int(r.negHigh-r.negLow+1)
	if r.zero {
		n++
	}
	return n
}

// coarser maps a bucket's index to that of the bucket that holds it, shift schemas down.
func coarser(k int32, shift int8) int32 { return (k-1)>>shift + 1 }

func occupied(b hist.Buckets) (lo, hi int32, ok bool) {
	lo, counts := b.Occupied()
	return lo, lo + int32(len(counts)) - 1, len(counts) > 0
}

func (r *exponentialRows) bounds() []float64 {
	out := make([]float64, 0, r.count()+1)
	for k := r.negHigh; k >= r.negLow; k-- {
		out = append(out, -hist.UpperBound(k, r.schema))
	}
	if r.negHigh >= r.negLow {
		out = append(out, -hist.UpperBound(r.negLow-1, r.schema))
	} else if r.zero {
		out = append(out, 0)
	}
	switch {
	case r.posHigh >= r.posLow:
		out = append(out, hist.UpperBound(r.posLow-1, r.schema))
	case r.zero:
		out = append(out, max(zeroTop, math.Nextafter(out[len(out)-1], 1)))
	}
	for k := r.posLow; k <= r.posHigh; k++ {
		out = append(out, hist.UpperBound(k, r.schema))
	}
	return out
}

// zeroTop closes the zero row when there is no positive bucket above it.
const zeroTop = 1e-9

func (r *exponentialRows) add(h *hist.Histogram, dense []uint64) {
	shift := h.Schema - r.schema
	for i, n := range h.Negative.Counts {
		if n != 0 {
			dense[r.negHigh-coarser(h.Negative.Offset+int32(i), shift)] += n
		}
	}
	if h.ZeroCount > 0 {
		dense[r.zeroRow] += h.ZeroCount
	}
	base := r.posRow0 - int(r.posLow)
	for i, n := range h.Positive.Counts {
		if n != 0 {
			dense[base+int(coarser(h.Positive.Offset+int32(i), shift))] += n
		}
	}
}

func (r *exponentialRows) relativeError() float64 { return max(widthError(r.schema), r.worst) }

// explicitRows are cut at the bounds that all explicit histograms share.
// Exponential ones among them are placed by the middle of each bucket.
type explicitRows struct {
	cuts []float64
}

func newExplicitRows(points []store.MergedPoint, limit int) *explicitRows {
	r := &explicitRows{}
	var inner []float64
	first := true
	low, high := math.Inf(1), math.Inf(-1)
	for _, p := range points {
		h := p.Hist
		if h.Schema == hist.Explicit {
			if first {
				inner, first = slices.Clone(h.Bounds), false
			} else if !slices.Equal(inner, h.Bounds) {
				inner = slices.DeleteFunc(inner, func(b float64) bool { return !slices.Contains(h.Bounds, b) })
			}
		}
		eachBucket(h, func(lo, hi float64, _ uint64) {
			low, high = min(low, lo), max(high, hi)
		})
	}
	for len(inner)+1 > limit && len(inner) > 1 { // drop every other bound
		for i := 1; i < len(inner); i++ {
			inner = slices.Delete(inner, i, i+1)
		}
	}
	for len(inner) > 0 && inner[0] <= low {
		inner = inner[1:]
	}
	for len(inner) > 0 && inner[len(inner)-1] >= high {
		inner = inner[:len(inner)-1]
	}
	// Open ends are drawn to twice the outermost bound, so that rows are finite.
	if math.IsInf(high, 1) && len(inner) > 0 {
		high = inner[len(inner)-1] + math.Abs(inner[len(inner)-1])
	}
	if math.IsInf(low, -1) && len(inner) > 0 {
		low = inner[0] - math.Abs(inner[0])
	}
	if !(high > low) {
		high = math.Nextafter(low, math.Inf(1))
	}
	r.cuts = append(append([]float64{low}, inner...), high)
	return r
}

func (r *explicitRows) bounds() []float64 { return r.cuts }

func (r *explicitRows) add(h *hist.Histogram, dense []uint64) {
	eachBucket(h, func(lo, hi float64, n uint64) {
		at := hi
		if h.Schema != hist.Explicit {
			at = lo + (hi-lo)/2
		}
		i := sort.SearchFloat64s(r.cuts, at) - 1 // (cuts[i], cuts[i+1]]
		dense[min(max(i, 0), len(dense)-1)] += n
	})
}

// relativeError is that of the widest row; a row that begins at 0 has no bound.
func (r *explicitRows) relativeError() float64 {
	worst := 0.0
	for i := 1; i < len(r.cuts); i++ {
		low, high := r.cuts[i-1], r.cuts[i]
		if low < 0 {
			low, high = -high, -low
		}
		if low <= 0 {
			return math.Inf(1)
		}
		worst = max(worst, (high-low)/low)
	}
	return worst
}
