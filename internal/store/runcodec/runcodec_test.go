package runcodec

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"pgregory.net/rapid"

	"tailscope/hist"
)

type entry struct {
	slot uint32
	data []byte
}

// pack packs series; a group begins where groups says so.
func pack(t testing.TB, series [][]entry, groups map[int]bool) []byte {
	var e Encoder
	e.Reset()
	for i, s := range series {
		if groups[i] {
			e.Group()
		}
		e.Series()
		for _, p := range s {
			if err := e.Add(p.slot, p.data); err != nil {
				t.Fatal(err)
			}
		}
	}
	return e.AppendTo(nil)
}

// encoded returns what hist makes of a point that it has decoded.
func encoded(data []byte) []byte {
	var h hist.Histogram
	_ = h.UnmarshalBinary(data)
	b, _ := h.AppendBinary(nil)
	return b
}

// unpack reads a run back, in four ways, and compares.
func unpack(t interface{ Fatalf(string, ...any) }, run []byte, series [][]entry, groups map[int]bool) {
	var byBytes, byHist, byMerge, byMoment Decoder
	for _, d := range [...]*Decoder{&byBytes, &byHist, &byMerge, &byMoment} {
		if err := d.Reset(run); err != nil {
			t.Fatalf("%v", err)
		}
	}
	h, acc := hist.New(5), hist.New(5)
	for i, s := range series {
		for _, d := range [...]*Decoder{&byBytes, &byHist, &byMerge, &byMoment} {
			if groups[i] {
				d.Group()
			}
			d.Series()
		}
		for _, p := range append(s, entry{slot: math.MaxUint32}) {
			for _, d := range [...]*Decoder{&byBytes, &byHist, &byMerge, &byMoment} {
				slot, ok, err := d.More()
				if err != nil || ok != (p.data != nil) || ok && slot != p.slot {
					t.Fatalf("series %d: slot %d, %v, %v, want %d", i, slot, ok, err, p.slot)
				}
			}
			if p.data == nil {
				continue
			}
			if b, err := byBytes.Append(nil); err != nil || !bytes.Equal(b, p.data) && !bytes.Equal(b, encoded(p.data)) {
				t.Fatalf("got %x, %v, want %x", b, err, p.data)
			}
			if err := byHist.Next(h); err != nil {
				t.Fatalf("%v", err)
			}
			m, err := byMoment.Moment()
			if want, _ := hist.Moments(p.data); err != nil || fmt.Sprint(m) != fmt.Sprint(want) {
				t.Fatalf("moments %+v, %v, want %+v", m, err, want)
			}
			if b, err := h.AppendBinary(nil); err == nil && !bytes.Equal(b, p.data) {
				if !bytes.Equal(b, encoded(p.data)) {
					t.Fatalf("histogram %x, want %x", b, p.data)
				}
			}
			schema := int8(3 + len(p.data)%6) // finer ones, coarser ones
			acc.Reset(schema)
			if err := byMerge.Merge(acc); err != nil {
				t.Fatalf("%v", err)
			}
			sum := hist.New(schema)
			if err := sum.Merge(h); err != nil {
				t.Fatalf("%v", err)
			}
			got, err := acc.AppendBinary(nil)
			want, werr := sum.AppendBinary(nil)
			if !bytes.Equal(got, want) || (err == nil) != (werr == nil) {
				t.Fatalf("merged at schema %d: %x, %v; want %x, %v", schema, got, err, want, werr)
			}
		}
	}
}

// workload draws series × slots points of log-normal durations, about n each.
func workload(seed uint64, series, slots, n int) [][]entry {
	rnd := rand.New(rand.NewPCG(seed, 1))
	out := make([][]entry, series)
	h := hist.New(hist.DefaultSchema)
	for i := range out {
		mu, sigma := math.Log(0.025)+0.5*rnd.NormFloat64(), 0.4+0.3*rnd.Float64()
		for slot := range slots {
			h.Reset(hist.DefaultSchema)
			m := int(float64(n) * (0.75 + 0.5*rnd.Float64()))
			for range max(1, m) {
				_ = h.RecordNanos(int64(1e9*math.Exp(mu+sigma*rnd.NormFloat64())), 1)
			}
			b, _ := h.AppendBinary(nil)
			out[i] = append(out[i], entry{uint32(slot), b})
		}
	}
	return out
}

func sizes(series [][]entry) (points, compact int) {
	for _, s := range series {
		points += len(s)
		for _, p := range s {
			compact += len(p.data)
		}
	}
	return points, compact
}

func TestSizes(t *testing.T) {
	for _, c := range []struct {
		series, slots, n int
		most             float64
	}{
		{1, 360, 200, 47},
		{20, 360, 200, 45},
		{400, 10, 200, 50},
		{2000, 3, 2, 10},
		{20, 60, 1200, 75},
		{20, 60, 12, 45},
	} {
		w := workload(7, c.series, c.slots, c.n)
		run := pack(t, w, nil)
		points, compact := sizes(w)
		per := float64(len(run)) / float64(points)
		t.Logf("series=%d slots=%d n=%d: %.2f B/point, compact %.2f", c.series, c.slots, c.n, per, float64(compact)/float64(points))
		if per > c.most {
			t.Errorf("series=%d slots=%d n=%d: %.1f bytes a point, want at most %v", c.series, c.slots, c.n, per, c.most)
		}
		unpack(t, run, w, nil)
	}
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 5).Draw(t, "series")
		series := make([][]entry, n)
		groups := map[int]bool{}
		for i := range series {
			groups[i] = rapid.IntRange(0, 3).Draw(t, "group") == 0
			slot := uint32(0)
			for range rapid.IntRange(0, 12).Draw(t, "points") {
				slot += rapid.OneOf(rapid.Uint32Range(0, 2), rapid.Uint32Range(0, 5000), rapid.Uint32Range(0, 1<<28)).Draw(t, "gap")
				series[i] = append(series[i], entry{slot, genPoint(t)})
				slot++
			}
		}
		var e Encoder
		e.Reset()
		for i, s := range series {
			if groups[i] {
				e.Group()
			}
			e.Series()
			for _, p := range s {
				if err := e.Add(p.slot, p.data); err != nil {
					t.Fatal(err)
				}
			}
		}
		unpack(t, e.AppendTo(nil), series, groups)
	})
}

func genPoint(t *rapid.T) []byte {
	h := hist.New(hist.DefaultSchema)
	if rapid.IntRange(0, 5).Draw(t, "schema?") == 0 {
		h = hist.New(int8(rapid.IntRange(hist.MinSchema, hist.MaxSchema).Draw(t, "schema")))
	}
	most := rapid.SampledFrom([]int64{3, 1e6, 1e9, 1 << 52, math.MaxInt64 / 1000}).Draw(t, "most")
	weights := rapid.SampledFrom([]uint64{1, 1, 1, 1000, 1 << 40}).Draw(t, "weights")
	for range rapid.SampledFrom([]int{0, 1, 2, 3, 4, 10, 60}).Draw(t, "n") {
		if err := h.RecordNanos(rapid.Int64Range(0, most).Draw(t, "ns"), rapid.Uint64Range(1, weights).Draw(t, "w")); err != nil {
			t.Fatal(err)
		}
	}
	switch rapid.IntRange(0, 8).Draw(t, "odd") {
	case 0:
		h.Weighted = false // many in few buckets
	case 1:
		h.Sum = rapid.Float64().Draw(t, "sum")
	case 2:
		if h.Count > 0 {
			_ = h.Record(-1.5)
		}
	case 3:
		h, _ = hist.NewExplicit([]float64{0.1, 1, 5})
		_ = h.Record(rapid.Float64Range(0, 9).Draw(t, "v"))
	}
	if math.IsInf(h.Sum, 0) && h.Count == 0 || math.IsNaN(h.Sum) {
		h.Sum = 0
	}
	b, err := h.AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// asSent returns log-normal distributions as OTLP senders make them.
func asSent(seed uint64, series, slots, n int, form func(rnd *rand.Rand, h *hist.Histogram)) [][]entry {
	rnd := rand.New(rand.NewPCG(seed, 2))
	out := workload(seed, series, slots, n)
	var h hist.Histogram
	for _, s := range out {
		for i := range s {
			if err := h.UnmarshalBinary(s[i].data); err != nil {
				panic(err)
			}
			form(rnd, &h)
			s[i].data, _ = h.AppendBinary(nil)
		}
	}
	return out
}

// Forms that senders choose, and how many bytes a point of 200 may take in each.
var sentForms = []struct {
	name string
	most float64
	form func(rnd *rand.Rand, h *hist.Histogram)
}{
	{"sum unknown to the nanosecond, no extremes", 42, func(rnd *rand.Rand, h *hist.Histogram) {
		h.Sum += 1e-10 * rnd.Float64()
		h.Min, h.Max, h.ZeroThreshold = math.NaN(), math.NaN(), 0
	}},
	{"extremes that are no whole nanoseconds", 58, func(rnd *rand.Rand, h *hist.Histogram) {
		h.Sum += 1e-10 * rnd.Float64()
		h.Min, h.Max = math.Nextafter(h.Min, 0), math.Nextafter(h.Max, 0)
	}},
	{"coarse, weighted, with an error and zeros", 45, func(rnd *rand.Rand, h *hist.Histogram) {
		h.Reduce(3)
		h.ZeroCount = 7
		h.Count += 7
		h.Weighted, h.Squares, h.Error = true, float64(h.Count), 0.01
	}},
	{"explicit", 26, func(rnd *rand.Rand, h *hist.Histogram) {
		e, _ := hist.NewExplicit([]float64{.005, .01, .025, .05, .075, .1, .25, .5, .75, 1, 2.5, 5, 7.5, 10})
		for b := range h.All() {
			for k := range e.Positive.Counts {
				if k == len(e.Bounds) || b.Upper <= e.Bounds[k] {
					e.Positive.Counts[k] += b.Count
					break
				}
			}
		}
		e.Count, e.Sum = h.Count, h.Sum+1e-10*rnd.Float64()
		*h = *e
	}},
}

func TestSentForms(t *testing.T) {
	for _, f := range sentForms {
		t.Run(f.name, func(t *testing.T) {
			w := asSent(3, 20, 50, 200, f.form)
			groups := map[int]bool{7: true}
			run := pack(t, w, groups)
			unpack(t, run, w, groups)
			n, compact := sizes(w)
			t.Logf("%.1f bytes a point, %.1f in hist's compact form", float64(len(run))/float64(n), float64(compact)/float64(n))
			if got := float64(len(run)) / float64(n); got > f.most {
				t.Errorf("%.1f bytes a point, at most %.0f wanted", got, f.most)
			}
		})
	}
}
