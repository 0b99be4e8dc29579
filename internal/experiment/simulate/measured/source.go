package measured

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/hist"
	"tailscope/internal/experiment/simulate"
)

// source is one class as it was found.
type source struct {
	name, said string
	count      uint64
	start      int64 // Unix seconds
	step       int64 // 0: it has no slots
	slots      []*simulate.Distribution
	counts     []float64 // by slot
	whole      *simulate.Distribution
	latency    api.BenchLatency
	together   api.ScalingValue
	traces     int
	fanOut     api.Float
}

// errUnread reports a file in none of the known formats.
var errUnread = fmt.Errorf("it is neither a result of tailscope bench --output, nor leaves of tailscope simulate leaves, nor a duration in each line")

// ofFile reads the classes of a file.
func ofFile(name string, content []byte) ([]source, error) {
	content = bytes.TrimSpace(content)
	if len(content) == 0 {
		return nil, fmt.Errorf("it is empty")
	}
	if content[0] != '{' {
		return ofLines(name, content)
	}
	var what struct {
		Classes []json.RawMessage `json:"classes"`
		Bench   *api.BenchResult  `json:"bench"` // an experiment of a server's log book
	}
	if err := json.Unmarshal(content, &what); err != nil {
		return nil, fmt.Errorf("it is not JSON: %w", err)
	}
	if what.Classes != nil {
		var doc api.Leaves
		if err := json.Unmarshal(content, &doc); err != nil {
			return nil, fmt.Errorf("it has leaves that cannot be read: %w", err)
		}
		return ofLeaves(&doc)
	}
	b := what.Bench
	if b == nil {
		b = &api.BenchResult{}
		if err := json.Unmarshal(content, b); err != nil {
			return nil, errUnread
		}
	}
	return ofBench(name, b)
}

// ofBench reads the queries of a run of load, with times from when each was sent.
func ofBench(name string, b *api.BenchResult) ([]source, error) {
	list := b.Queries
	if len(list) == 0 || len(list) == 1 && len(list[0].Uncorrected.Counts) == 0 {
		list = []api.BenchQuery{{Name: b.Name, Uncorrected: b.Uncorrected}}
	}
	var out []source
	for _, q := range list {
		l := q.Uncorrected
		if l.Count == 0 {
			continue
		}
		if len(l.Counts) == 0 || len(l.Bounds) != len(l.Counts)+1 {
			return nil, errUnread
		}
		h, err := explicit(l.Bounds, func(yield func(i int, n uint64)) {
			for i, n := range l.Counts {
				yield(i, n)
			}
		}, l.Min, l.Max)
		if err != nil {
			return nil, err
		}
		d, err := simulate.FromHistogram(h)
		if err != nil {
			return nil, err
		}
		s := source{name: q.Name, said: fmt.Sprintf("%s: the run of load %s, %s answered requests", name, b.Name, grouped(h.Count)), count: h.Count, whole: d, latency: latencyOf(h), together: unknown, fanOut: nan}
		if math.IsNaN(float64(l.Mean)) {
			s.latency.Mean = l.Mean
		}
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, errUnread
	}
	return out, nil
}

// ofLines reads a duration from each line: 5ms, 0.005 (seconds). Empty lines and
// those that begin with # are left out.
func ofLines(name string, content []byte) ([]source, error) {
	var all []float64
	h := hist.New(hist.MaxSchema)
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		v, err := strconv.ParseFloat(text, 64)
		if err != nil {
			d, wrong := time.ParseDuration(text)
			if wrong != nil && n == 1 {
				return nil, errUnread
			}
			if wrong != nil {
				return nil, fmt.Errorf("line %d: %q is not a duration: write seconds such as 0.005, or 5ms", n, text)
			}
			v = d.Seconds()
		}
		if !(v >= 0) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("line %d: %q is not a duration: write seconds such as 0.005, or 5ms", n, text)
		}
		all = append(all, v)
		if err := h.Record(v); err != nil {
			return nil, fmt.Errorf("line %d: %w", n, err)
		}
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	d, err := simulate.FromSamples(all)
	if err != nil {
		return nil, err
	}
	return []source{{name: name, said: fmt.Sprintf("%s: %s durations", name, grouped(uint64(len(all)))), count: uint64(len(all)), whole: d, latency: latencyOf(h), together: unknown, fanOut: nan}}, nil
}

// ofLeaves reads classes slot by slot.
func ofLeaves(doc *api.Leaves) ([]source, error) {
	if doc.Format != 1 {
		return nil, fmt.Errorf("leaves of format %d: this program reads format 1", doc.Format)
	}
	if doc.Step <= 0 || doc.End <= doc.Start {
		return nil, fmt.Errorf("leaves from %d to %d in slots of %d s", doc.Start, doc.End, doc.Step)
	}
	start := doc.Start - doc.Start%doc.Step
	n := (doc.End - start + doc.Step - 1) / doc.Step
	if n > 100_000 {
		return nil, fmt.Errorf("%d slots of leaves are too many", n)
	}
	var out []source
	for i := range doc.Classes {
		c := &doc.Classes[i]
		s := source{
			name: c.Class, start: start, step: doc.Step, slots: make([]*simulate.Distribution, n), counts: make([]float64, n),
			together: c.Together, traces: c.Traces, fanOut: c.FanOut,
		}
		found := make([]*hist.Histogram, n)
		for _, slot := range c.Slots {
			at := (slot.Time - start) / doc.Step
			if len(slot.At) != len(slot.Counts) || slot.Time < start || at >= n || found[at] != nil {
				return nil, fmt.Errorf("leaves of %s have a slot at %d that does not fit", c.Class, slot.Time)
			}
			h, err := explicit(doc.Bounds, func(yield func(int, uint64)) {
				for i, b := range slot.At {
					yield(b, slot.Counts[i])
				}
			}, slot.Min, slot.Max)
			if err != nil {
				return nil, fmt.Errorf("leaves of %s: %w", c.Class, err)
			}
			if h.Count == 0 {
				return nil, fmt.Errorf("leaves of %s have a slot at %d with nothing in it", c.Class, slot.Time)
			}
			found[at], s.counts[at] = h, float64(h.Count)
		}
		whole, err := s.fill(found)
		if err != nil {
			return nil, fmt.Errorf("leaves of %s: %w", c.Class, err)
		}
		if whole == nil {
			continue
		}
		if s.whole, err = simulate.FromHistogram(whole); err != nil {
			return nil, fmt.Errorf("leaves of %s: %w", c.Class, err)
		}
		s.count, s.latency = whole.Count, latencyOf(whole)
		s.said = fmt.Sprintf("%s: %s requests", doc.Source, grouped(s.count))
		out = append(out, s)
	}
	if len(out) == 0 {
		return nil, fmt.Errorf("it has no leaves")
	}
	return out, nil
}

// fill makes the distributions of slots, and returns all of them as one. Neighbours
// with few observations share one: a slot's own few would be drawn again and again
// for all leaves of a query, which would look alike.
func (s *source) fill(found []*hist.Histogram) (whole *hist.Histogram, err error) {
	var ends []int // of stretches, the last one's left out
	some := uint64(0)
	for i, h := range found {
		if err := add(&whole, h); err != nil {
			return nil, err
		}
		if h != nil {
			some += h.Count
		}
		if some >= thin {
			ends, some = append(ends, i+1), 0
		}
	}
	if len(ends) == 0 {
		ends = append(ends, 0)
	}
	ends[len(ends)-1] = len(found) // what is left is of the last stretch
	from := 0
	for _, to := range ends {
		var all *hist.Histogram
		for _, h := range found[from:to] {
			if err := add(&all, h); err != nil {
				return nil, err
			}
		}
		if all != nil {
			d, err := simulate.FromHistogram(all)
			if err != nil {
				return nil, err
			}
			for i := from; i < to; i++ {
				if found[i] != nil {
					s.slots[i] = d
				}
			}
		}
		from = to
	}
	return whole, nil
}

// explicit makes a histogram of buckets between bounds; observations outside of them
// are refused.
func explicit(bounds []api.Float, each func(yield func(i int, n uint64)), least, most api.Float) (*hist.Histogram, error) {
	all := make([]float64, len(bounds))
	for i, b := range bounds {
		all[i] = float64(b)
	}
	if len(all) > 0 && math.IsInf(all[len(all)-1], 1) {
		all = all[:len(all)-1]
	}
	h, err := hist.NewExplicit(all)
	if err != nil {
		return nil, err
	}
	sum := 0.0
	each(func(i int, n uint64) {
		switch {
		case i < 0 || i+1 >= len(h.Positive.Counts):
			err = fmt.Errorf("a bucket above the last bound, or below the first: %d of %d", i, len(all))
		case n > math.MaxUint64/2-h.Count:
			err = fmt.Errorf("more observations than can be")
		default:
			h.Positive.Counts[i+1] += n
			h.Count += n
			if i+1 < len(all) {
				sum += float64(n) * (all[i] + all[i+1]) / 2
			}
		}
	})
	if err != nil {
		return nil, err
	}
	h.Sum, h.Min, h.Max = sum, float64(least), float64(most)
	if h.Count == 0 {
		return nil, fmt.Errorf("no observations")
	}
	return h, h.Validate()
}

// latencyOf returns a distribution for reports.
func latencyOf(h *hist.Histogram) api.BenchLatency {
	l := api.BenchLatency{Count: h.Count, Mean: api.Float(h.Mean()), Min: api.Float(h.Min), Max: api.Float(h.Max), Quantiles: map[string]api.Float{}, Error: api.Float(h.RelativeError())}
	for name, q := range quantiles {
		l.Quantiles[name] = api.Float(h.Quantile(q))
	}
	for b := range h.All() {
		low, high := max(0, b.Lower), b.Upper
		if n := len(l.Bounds); n == 0 || float64(l.Bounds[n-1]) != low {
			if n > 0 {
				l.Counts = append(l.Counts, 0)
			}
			l.Bounds = append(l.Bounds, api.Float(low))
		}
		l.Bounds, l.Counts = append(l.Bounds, api.Float(high)), append(l.Counts, b.Count)
	}
	return l
}

var quantiles = map[string]float64{"0.5": 0.5, "0.75": 0.75, "0.9": 0.9, "0.95": 0.95, "0.99": 0.99, "0.999": 0.999, "0.9999": 0.9999}

// given returns a source of a distribution that was written down.
func given(name, said string, d *simulate.Distribution) source {
	l := api.BenchLatency{Mean: api.Float(d.Mean()), Min: api.Float(d.Quantile(0)), Max: api.Float(d.Max()), Quantiles: map[string]api.Float{}}
	for name, q := range quantiles {
		l.Quantiles[name] = api.Float(d.Quantile(q))
	}
	return source{name: name, said: "given: " + said, whole: d, latency: l, together: unknown, fanOut: nan}
}

// grouped writes a number with its thousands apart.
func grouped(n uint64) string {
	s := strconv.FormatUint(n, 10)
	var parts []string
	for len(s) > 3 {
		parts, s = append(parts, s[len(s)-3:]), s[:len(s)-3]
	}
	parts = append(parts, s)
	slices.Reverse(parts)
	return strings.Join(parts, ",")
}
