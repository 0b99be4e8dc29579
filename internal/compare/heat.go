package compare

import (
	"math"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/query"
)

const (
	// The most columns of a side and rows of the difference of heatmaps, unless
	// asked otherwise: finer cells hold little but chance.
	defaultWidth, defaultRows = 240, 120
	mostWidth, mostRows       = 2000, 640
)

// What requests are expected to be like.
const (
	expectedSlot = "slot" // as side A's of the same time
	expectedSide = "side" // as all of side A's
)

// heat is where requests went: each column's shares less those expected.
func (c *comparison) heat() error {
	out := &api.CompareHeat{Expected: expectedSide, Step: c.step, Bounds: []api.Float{}, Columns: []api.CompareHeatColumn{}}
	c.out.Heat = out
	if c.paired {
		out.Expected = expectedSlot
	}
	each := (max(c.a.slots(), c.b.slots()) + c.Width - 1) / c.Width // slots a column
	out.Step *= int64(each)
	var columns [2][]*hist.Histogram
	var all []*hist.Histogram
	for i, s := range []*side{c.a, c.b} {
		var err error
		if columns[i], err = s.columns(each); err != nil {
			return err
		}
		for _, h := range columns[i] {
			if h != nil {
				all = append(all, h)
			}
		}
	}
	if len(all) == 0 {
		return nil
	}
	rows := query.NewRows(all, c.Rows)
	bounds := rows.Bounds()
	for _, v := range bounds {
		out.Bounds = append(out.Bounds, api.Float(v))
	}
	var shares [2][][]float64
	for i := range columns {
		shares[i] = sharesOf(rows, len(bounds)-1, columns[i])
	}
	usual := usualShares(rows, len(bounds)-1, columns[0])
	for i, name := range []string{"a", "b"} {
		of := []*side{c.a, c.b}[i]
		for k, have := range shares[i] {
			expected := usual
			switch {
			case !c.paired:
			case i == 0:
				expected = neighbours(shares[0], k)
			default:
				expected = shares[0][k]
			}
			if have == nil || expected == nil {
				continue
			}
			col := api.CompareHeatColumn{Side: name, Start: of.startOf(k * each), Requests: columns[i][k].Count, Rows: []int{}, Differences: []api.Float{}}
			for row, v := range have {
				if d := share(v - expected[row]); d != 0 {
					col.Rows, col.Differences = append(col.Rows, row), append(col.Differences, d)
					out.Max = max(out.Max, d, -d)
				}
			}
			out.Columns = append(out.Columns, col)
		}
	}
	return nil
}

// columns are all requests of so many slots each; nil where there were none.
func (s *side) columns(each int) ([]*hist.Histogram, error) {
	out := make([]*hist.Histogram, (s.slots()+each-1)/each)
	for _, x := range s.strata {
		for i := range s.slots() {
			for _, h := range []*hist.Histogram{x.good[i], x.failed[i]} {
				if h == nil || h.Count == 0 {
					continue
				}
				if to := &out[i/each]; *to == nil {
					*to = h.Clone()
				} else if err := (*to).Merge(h); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

func sharesOf(rows *query.Rows, n int, columns []*hist.Histogram) [][]float64 {
	out := make([][]float64, len(columns))
	counts := make([]uint64, n)
	for k, h := range columns {
		if h == nil {
			continue
		}
		clear(counts)
		rows.Add(h, counts)
		out[k] = make([]float64, n)
		for row, v := range counts {
			out[k][row] = float64(v) / float64(h.Count)
		}
	}
	return out
}

// usualShares are those of all columns together; nil if there is nothing in them.
func usualShares(rows *query.Rows, n int, columns []*hist.Histogram) []float64 {
	counts := make([]uint64, n)
	total := 0.0
	for _, h := range columns {
		if h != nil {
			rows.Add(h, counts)
			total += float64(h.Count)
		}
	}
	if total == 0 {
		return nil
	}
	out := make([]float64, n)
	for row, v := range counts {
		out[row] = float64(v) / total
	}
	return out
}

// neighbours is the mean of the columns before and after k; nil if there are none.
func neighbours(shares [][]float64, k int) []float64 {
	var out []float64
	n := 0.0
	for _, i := range []int{k - 1, k + 1} {
		if i < 0 || i >= len(shares) || shares[i] == nil {
			continue
		}
		if out == nil {
			out = make([]float64, len(shares[i]))
		}
		n++
		for row, v := range shares[i] {
			out[row] += v
		}
	}
	for row := range out {
		out[row] /= math.Max(n, 1)
	}
	return out
}
