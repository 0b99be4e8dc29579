package compare

import (
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/stat"
)

// measure is a figure that sides are judged by.
type measure struct {
	name  string
	q     float64 // of a quantile, else 0
	scale stat.Scale
	up    string // what it is called when B is above A,
	down  string // and below
	// margin of sameness of a difference; the relative one of the request if 0.
	margin float64
	sense  sense
	unit   string // of the figure: seconds, bytes or empty
}

// sense is which way a figure should go.
type sense int

const (
	less sense = iota // is better
	more
	neither
)

const (
	meanName   = "mean"
	errorsName = "errors"
	apdexName  = "apdex"
	rateName   = "rate"        // per second
	eachName   = "per_request" // for each request
)

func quantileMeasure(name string, q float64) measure {
	return measure{name: name, q: q, scale: stat.LogRatio, up: Slower, down: Faster, unit: "seconds"}
}

// measures in the order of the answer. A share of errors of nought has no
// ratio, so shares and scores are set against each other by their difference.
var measures = []measure{
	quantileMeasure("p50", 0.5), quantileMeasure("p75", 0.75), quantileMeasure("p90", 0.9), quantileMeasure("p95", 0.95),
	quantileMeasure("p99", 0.99), quantileMeasure("p99.9", 0.999),
	{name: meanName, scale: stat.LogRatio, up: Slower, down: Faster, unit: "seconds"},
	{name: errorsName, scale: stat.Difference, up: Higher, down: Lower, margin: 0.001},
	{name: apdexName, scale: stat.Difference, up: Higher, down: Lower, margin: 0.01, sense: more},
}

var (
	rateMeasure = measure{name: rateName, scale: stat.LogRatio, up: Higher, down: Lower}
	eachMeasure = measure{name: eachName, scale: stat.LogRatio, up: Higher, down: Lower}
)

// measuresOf are those of what is compared. Of a metric less is better if it is
// time or bytes; of what else nobody knows.
func (c *comparison) measuresOf() []measure {
	if c.kind == ofSpans {
		if c.Family == series.SpanDuration {
			return measures
		}
		return measures[:len(measures)-1] // parts of a request satisfy nobody
	}
	of := less
	if c.unit == "" {
		of = neither
	}
	in := func(m measure) measure {
		m.sense, m.unit = of, c.unit
		if m.name == rateName || c.unit != "seconds" {
			m.up, m.down = Higher, Lower
		}
		return m
	}
	switch {
	case c.Per != "":
		return []measure{in(eachMeasure)}
	case c.kind == ofNumbers && c.number == series.Counter:
		return []measure{in(rateMeasure)}
	case c.kind == ofNumbers:
		m := in(measure{name: meanName, scale: stat.LogRatio})
		m.up, m.down = Higher, Lower
		return []measure{m}
	}
	var out []measure
	for _, m := range measures {
		if m.q > 0 || m.name == meanName {
			out = append(out, in(m))
		}
	}
	rate := rateMeasure
	rate.sense = neither
	return append(out, rate)
}

func checkMeasures(names []string) error {
	known := []string{rateName, eachName}
	for _, m := range measures {
		known = append(known, m.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return query.Invalid("measures", "there is no measure %s; %s", quote(name), query.Suggest(name, known))
		}
	}
	return nil
}

// asked are the measures to judge.
func (c *comparison) asked() []measure {
	var out []measure
	for _, m := range c.measuresOf() {
		if len(c.Measures) == 0 || slices.Contains(c.Measures, m.name) {
			out = append(out, m)
		}
	}
	return out
}

// checkAsked refuses measures that what is compared does not have.
func (c *comparison) checkAsked() error {
	if len(c.asked()) > 0 {
		return nil
	}
	var known []string
	for _, m := range c.measuresOf() {
		known = append(known, m.name)
	}
	return query.Invalid("measures", "%s has no %s; write %s", c.Family, strings.Join(c.Measures, ", "), strings.Join(known, ", "))
}

// change works a measure out, at a mix if it is not nil.
func (m measure) change(s *strata, mix []float64, o stat.Options) (stat.Change, error) {
	switch {
	case m.q > 0:
		return stat.Quantile(s.a, s.b, m.q, mix, o)
	case s.valuesA != nil:
		return stat.Ratios(s.valuesA, s.valuesB, nil, m.scale, o)
	case m.name == rateName:
		return stat.Ratios(s.ratesA, s.ratesB, nil, m.scale, o)
	case m.name == meanName:
		return stat.Mean(s.a, s.b, mix, o)
	case m.name == errorsName:
		return stat.Shares(s.errorsA, s.errorsB, mix, m.scale, o)
	}
	return stat.Shares(s.apdexA, s.apdexB, mix, m.scale, o)
}

// judge fills in the measures and the verdict of all: raw ones, and those of
// strata at their common mix.
func (c *comparison) judge(whole, s *strata) error {
	var p []float64
	asked := c.asked()
	for _, m := range asked {
		m = m.over(whole)
		raw, err := m.change(whole, nil, c.opts)
		if err != nil {
			return err
		}
		out := api.CompareMeasure{Name: m.name, Scale: scaleName(m.scale), Raw: c.figure(m, raw)}
		judged, figure := raw, &out.Raw
		if s.mix != nil && m.name != rateName {
			like, err := m.change(s, s.mix, c.opts)
			if err != nil {
				return err
			}
			f := c.figure(m, like)
			out.Like = &f
			judged, figure = like, &f
		}
		out.Verdict, out.Change = figure.Verdict, m.direction(figure.Verdict)
		out.Sentence = c.sentence(m, c.out.Of, figure)
		p = append(p, probability(judged))
		c.out.Measures = append(c.out.Measures, out)
	}
	for i, v := range stat.BenjaminiHochberg(p) {
		c.out.Measures[i].Adjusted = api.Float(v)
	}
	c.conclude()
	return nil
}

// over is the measure on a scale on which it can be judged: what is 0 or less
// on a side has no ratio.
func (m measure) over(s *strata) measure {
	if s.valuesA == nil {
		return m
	}
	for _, t := range [][]stat.Tally{s.valuesA, s.valuesB} {
		if sum(t[0].Den) > 0 && sum(t[0].Num) <= 0 {
			m.scale = stat.Difference
		}
	}
	return m
}

// probability of a change, NaN if it was not judged.
func probability(c stat.Change) float64 {
	if c.Short != "" {
		return math.NaN()
	}
	return c.P
}

func scaleName(s stat.Scale) string {
	if s == stat.LogRatio {
		return "ratio"
	}
	return "difference"
}

// direction is whether a verdict is good news; empty if it is no news, or
// nobody knows.
func (m measure) direction(verdict string) string {
	if m.sense == neither || verdict != m.down && verdict != m.up {
		return ""
	}
	if (verdict == m.down) == (m.sense == less) {
		return Better
	}
	return Worse
}

// figure puts a change into the words of the API.
func (c *comparison) figure(m measure, x stat.Change) api.CompareFigure {
	f := api.CompareFigure{
		A: api.Float(x.A), B: api.Float(x.B), P: api.Float(probability(x)), Short: x.Short,
		Error: api.Float(max(x.ErrorA, x.ErrorB)),
	}
	margin := m.margin
	if x.Log {
		ratio, ci := x.Ratio()
		f.Effect, f.Low, f.High = api.Float(ratio), api.Float(ci.Low), api.Float(ci.High)
		margin = c.Within
	} else {
		f.Effect, f.Low, f.High = api.Float(x.Effect), api.Float(x.CI.Low), api.Float(x.CI.High)
	}
	if x.Short != "" {
		f.Low, f.High = api.Float(math.NaN()), api.Float(math.NaN())
	}
	switch x.Verdict(margin) {
	case stat.TooLittle:
		f.Verdict = TooLittle
	case stat.NoEvidence:
		f.Verdict = NoEvidence
	case stat.Same:
		f.Verdict = Same
	case stat.Less:
		f.Verdict = m.down
	case stat.More:
		f.Verdict = m.up
	}
	target := margin
	if x.Log {
		target = math.Log1p(margin)
	}
	f.Needed = api.Float(c.needed(m, x, target))
	lengthA, lengthB := c.a.end-c.a.start, c.b.end-c.b.start
	length := max(lengthA, lengthB)
	if x.Short != "" && x.SlotsA != x.SlotsB { // the side that has too little
		if length = lengthA; x.SlotsB < x.SlotsA {
			length = lengthB
		}
	}
	f.NeededSeconds = api.Float(float64(f.Needed) * float64(length))
	return f
}

// needed is how many times the data there should be; NaN if nobody knows.
func (c *comparison) needed(m measure, x stat.Change, effect float64) float64 {
	const power, fewest, beyond = 0.9, 20, 10
	if x.Short == "" {
		if n := x.Needed(effect, power).Both; !math.IsInf(n, 0) {
			return n
		}
		return math.NaN()
	}
	slots, requests := float64(min(x.SlotsA, x.SlotsB)), min(x.CountA, x.CountB)
	if slots == 0 || requests == 0 {
		return math.NaN()
	}
	n := fewest / slots
	if m.q > 0 {
		n = max(n, beyond/((1-m.q)*requests)) // so that some requests lie beyond it
	}
	if n <= 1 {
		return math.NaN() // it is something else that is missing
	}
	return n
}
