package compare

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query/querytest"
)

func TestCurve(t *testing.T) {
	const ratio = 1.3
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(3, 3))
	cart := load{operation: "GET /cart", perSlot: 20, median: 0.02}
	search := load{operation: "GET /search", perSlot: 20, median: 0.1}
	send(w, rng, epoch, epoch+1800, cart, search)
	cart.median, search.median, search.perSlot = cart.median*ratio, search.median*ratio, 40
	send(w, rng, epoch+1800, epoch+3600, cart, search)
	r := compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600), Include: []string{IncludeCurve}, Measures: []string{"p99"}})
	c := r.Curve
	if c == nil || r.Heat != nil || !c.LikeForLike || len(c.Ps) != ratios || len(c.Values) > mostBounds {
		t.Fatalf("curve %+v", c)
	}
	if r.Whole == nil || r.Whole.Verdict != Different || r.Whole.P > 0.01 {
		t.Errorf("whole %+v", r.Whole)
	}
	for i := range c.Values {
		if i > 0 && (c.Values[i] <= c.Values[i-1] || c.A[i] < c.A[i-1] || c.B[i] < c.B[i-1]) {
			t.Fatalf("point %d does not ascend", i)
		}
	}
	if n := len(c.Values) - 1; c.A[n] != 1 || c.B[n] != 1 {
		t.Errorf("distributions end at %v and %v", c.A[n], c.B[n])
	}
	held := 0
	for i := range c.Ps {
		// A quantile is where its share of requests is at or below it.
		if at := along(c.Values, c.A, c.QuantilesA[i]); math.Abs(at-float64(c.Ps[i])) > 0.01 {
			t.Errorf("%v of A at or below its quantile %v, want %v", at, c.QuantilesA[i], c.Ps[i])
		}
		if c.Low[i] <= ratio && ratio <= c.High[i] {
			held++
		}
		if math.Abs(float64(c.Ratio[i]*c.QuantilesA[i]/c.QuantilesB[i])-1) > 1e-9 {
			t.Errorf("ratio %v of %v and %v", c.Ratio[i], c.QuantilesA[i], c.QuantilesB[i])
		}
	}
	if held < ratios-1 { // the last quantile may have no upper end
		t.Errorf("the band holds %v at %d of %d quantiles", ratio, held, ratios)
	}
	again := compared(t, stored(t, w), Request{A: window(0, 1800), B: window(1800, 3600), Include: []string{IncludeCurve}, Measures: []string{"p99"}})
	if again.Whole.P != r.Whole.P || !slices.Equal(again.Curve.Low, c.Low) {
		t.Error("the same question has another answer")
	}
}

// along is a function at v, given by points.
func along(x, y []api.Float, v api.Float) float64 {
	i, _ := slices.BinarySearch(x, v)
	if i == 0 || i >= len(x) {
		return math.NaN()
	}
	share := math.Log(float64(v/x[i-1])) / math.Log(float64(x[i]/x[i-1]))
	return float64(y[i-1]) + share*float64(y[i]-y[i-1])
}

func TestHeat(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(4, 4))
	l := load{operation: "GET /cart", perSlot: 50, median: 0.02}
	send(w, rng, epoch, epoch+600, l)
	l.median *= 2
	send(w, rng, epoch+600, epoch+1200, l)
	r := compared(t, stored(t, w), Request{A: window(0, 600), B: window(600, 1200), Include: []string{IncludeHeat}, Width: 20, Rows: 40})
	h := r.Heat
	if h == nil || r.Curve != nil || h.Expected != expectedSide || h.Step != 30 || len(h.Columns) != 40 || len(h.Bounds) > 41 {
		t.Fatalf("heat %+v", h)
	}
	moved := map[string]float64{}
	for _, c := range h.Columns {
		sum := 0.0
		for i, row := range c.Rows {
			d := float64(c.Differences[i])
			if sum += d; d == 0 || d > float64(h.Max) || row >= len(h.Bounds)-1 || i > 0 && row <= c.Rows[i-1] {
				t.Fatalf("%s %d: row %d, %v", c.Side, c.Start, row, d)
			}
			moved[c.Side] += math.Abs(d) / 40
		}
		if math.Abs(sum) > 1e-4 {
			t.Errorf("%s %d: differences sum to %v, want 0", c.Side, c.Start, sum)
		}
		if c.Requests != 150 {
			t.Errorf("%d requests in a column", c.Requests)
		}
	}
	if moved["b"] < 2*moved["a"] {
		t.Errorf("%v of B's requests moved, and %v of A's", moved["b"], moved["a"])
	}
}

// Of the same slots, what moves both sides is no difference.
func TestHeatOfPairs(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(5, 5))
	for slot := int64(0); slot < 300; slot += 10 {
		median := 0.02 * math.Exp(float64(slot)/100) // a trend
		for _, variant := range []string{"control", "candidate"} {
			send(w, rng, epoch+slot, epoch+slot+10, load{operation: "GET /cart", perSlot: 200, median: median, more: []string{"variant", variant}})
		}
	}
	st := stored(t, w)
	sel := selection("service", "shop")
	sel.Start, sel.End = at(epoch), at(epoch+300)
	r := compared(t, st, Request{Selection: sel, Label: "variant", ValueA: "control", ValueB: "candidate", Include: []string{IncludeHeat}})
	if h := r.Heat; !r.Paired || h.Expected != expectedSlot || len(h.Columns) != 60 || h.Max > 0.15 {
		t.Errorf("paired %v, heat of %d columns up to %v by %s", r.Paired, len(h.Columns), h.Max, h.Expected)
	}
}

func TestOutline(t *testing.T) {
	var x, f, g []float64
	for i := range 2000 {
		x = append(x, math.Pow(1.01, float64(i)))
		f = append(f, 1/(1+math.Exp(-(float64(i)-700)/30)))
		g = append(g, map[bool]float64{false: 0, true: 1}[i >= 1500]) // a step
	}
	keep := outline(100, x, f, g)
	if len(keep) > 100 || keep[0] != 0 || keep[len(keep)-1] != 1999 || !slices.IsSorted(keep) {
		t.Fatalf("kept %v", keep)
	}
	for _, want := range []int{1499, 1500} {
		if !slices.Contains(keep, want) {
			t.Errorf("the step at %d is lost", want)
		}
	}
	for i := 1; i < len(keep); i++ {
		from, to := keep[i-1], keep[i]
		for j := from; j < to; j++ {
			line := f[from] + float64(j-from)/float64(to-from)*(f[to]-f[from])
			if off := math.Abs(line - f[j]); off > 0.002 {
				t.Fatalf("%v off at %d", off, j)
			}
		}
	}
	if got := outline(10, []float64{1, 2}, []float64{0, 1}); !slices.Equal(got, []int{0, 1}) {
		t.Errorf("of two points %v", got)
	}
}

// Where a side has nothing there is nothing to draw, and no error.
func TestCurveOfNothing(t *testing.T) {
	w, rng := querytest.NewWriter(), rand.New(rand.NewPCG(7, 7))
	send(w, rng, epoch+600, epoch+1200, load{operation: "GET /cart", perSlot: 5, median: 0.02})
	r := compared(t, stored(t, w), Request{A: window(0, 600), B: window(600, 1200), Include: []string{IncludeCurve, IncludeHeat}})
	if r.Whole == nil || r.Whole.Verdict != judge.TooLittle || !math.IsNaN(float64(r.Whole.P)) {
		t.Errorf("whole %+v", r.Whole)
	}
	c := r.Curve
	if c == nil || len(c.Ps) != ratios || len(c.Values) == 0 {
		t.Fatalf("curve %+v", c)
	}
	for i := range c.Ps {
		if !math.IsNaN(float64(c.Ratio[i])) || !math.IsNaN(float64(c.Low[i])) || !math.IsNaN(float64(c.High[i])) {
			t.Fatalf("a ratio of nothing: %v (%v to %v)", c.Ratio[i], c.Low[i], c.High[i])
		}
	}
	if h := r.Heat; h == nil || len(h.Columns) != 0 {
		t.Errorf("differences from nothing: %+v", h)
	}
}
