package compare

import (
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/stat"
)

// measure is a figure that sides are judged by.
type measure struct {
	judge.Figure
	q float64 // of a quantile, else 0
	// margin of sameness of a difference; the relative one of the request if 0.
	margin float64
}

func timeMeasure(name string, q float64) measure {
	return measure{Figure: judge.Figure{Name: name, Kind: judge.Time, Ratio: true, Unit: "seconds"}, q: q}
}

func ratioMeasure(name string) measure {
	return measure{Figure: judge.Figure{Name: name, Ratio: true}}
}

// measures in the order of the answer. A share of errors of nought has no
// ratio, so shares and scores are set against each other by their difference.
var measures = []measure{
	timeMeasure("p50", 0.5), timeMeasure("p75", 0.75), timeMeasure("p90", 0.9), timeMeasure("p95", 0.95),
	timeMeasure("p99", 0.99), timeMeasure("p99.9", 0.999), timeMeasure(judge.Mean, 0),
	{Figure: judge.Figure{Name: judge.ErrorShare, Kind: judge.Errors}, margin: judge.MarginOfErrors},
	{Figure: judge.Figure{Name: judge.Apdex, Sense: judge.MoreIsBetter}, margin: 0.01},
}

// measuresOf are those of what is compared. Of a metric less is better if it is
// time or bytes; of what else nobody knows.
func (c *comparison) measuresOf() []measure {
	if c.kind == ofSpans {
		if c.Family == series.SpanDuration {
			return append(slices.Clip(measures), c.rateOfRequests())
		}
		return measures[:len(measures)-1] // parts of a request satisfy nobody
	}
	of := judge.LessIsBetter
	if c.unit == "" {
		of = judge.NeitherIsBetter
	}
	in := func(m measure) measure {
		if m.Sense, m.Unit = of, c.unit; c.unit != "seconds" {
			m.Kind = judge.Amount
		}
		return m
	}
	switch {
	case c.Per != "":
		return []measure{in(ratioMeasure(judge.PerRequest))}
	case c.kind == ofNumbers && c.number == series.Counter:
		return []measure{in(ratioMeasure(judge.Rate))}
	case c.kind == ofNumbers:
		return []measure{in(ratioMeasure(judge.Mean))}
	}
	var out []measure
	for _, m := range measures {
		if m.q > 0 || m.Name == judge.Mean {
			out = append(out, in(m))
		}
	}
	rate := ratioMeasure(judge.Rate)
	rate.Sense = judge.NeitherIsBetter
	return append(out, rate)
}

// rateOfRequests is the measure of requests a second. Nobody knows whether more is better,
// unless a gate says which way matters.
func (c *comparison) rateOfRequests() measure {
	m := ratioMeasure(judge.Rate)
	m.Sense = judge.NeitherIsBetter
	if gate, ok := c.gateOfRate(); ok {
		switch gate.Direction {
		case judge.Increase:
			m.Sense = judge.LessIsBetter
		case judge.Decrease:
			m.Sense = judge.MoreIsBetter
		}
	}
	return m
}

// gateOfRate returns the gate that names the rate.
func (c *comparison) gateOfRate() (judge.Gate, bool) {
	gate, ok := c.Gates.Of(judge.Figure{Name: judge.Rate, Ratio: true, Sense: judge.NeitherIsBetter}, 0)
	return gate, ok && gate.Measure == judge.Rate
}

// NearlyNothing is the ratio of two rates below which requests nearly stop.
const NearlyNothing = 0.2

// stops reports whether requests surely nearly stop from side A to side B: sides of one hour
// of the day, for at night they may do so by themselves. Values of a label share requests as
// they were set to.
func (c *comparison) stops(m measure, f *api.CompareFigure) bool {
	if m.Name != judge.Rate || c.kind != ofSpans || c.Label != "" || f.Verdict != judge.Lower || !c.oneHour() {
		return false
	}
	return f.B == 0 || m.Ratio && float64(f.High) < NearlyNothing
}

func checkMeasures(field string, names []string) error {
	known := []string{judge.Rate, judge.PerRequest}
	for _, m := range measures {
		known = append(known, m.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return query.Invalid(field, "there is no measure %s; %s", quote(name), query.Suggest(name, known))
		}
	}
	return nil
}

// asked are the measures to judge.
func (c *comparison) asked() []measure {
	var out []measure
	for _, m := range c.measuresOf() {
		if len(c.Measures) == 0 || slices.Contains(c.Measures, m.Name) {
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
		known = append(known, m.Name)
	}
	return query.Invalid("measures", "%s has no %s; write %s", c.Family, strings.Join(c.Measures, ", "), strings.Join(known, ", "))
}

// change works a measure out, at a mix if it is not nil.
func (m measure) change(s *strata, mix []float64, o stat.Options) (stat.Change, error) {
	switch {
	case m.q > 0:
		return stat.Quantile(s.a, s.b, m.q, mix, o)
	case s.valuesA != nil:
		return stat.Ratios(s.valuesA, s.valuesB, nil, m.scale(), o)
	case m.Name == judge.Rate:
		return stat.Ratios(s.ratesA, s.ratesB, nil, m.scale(), o)
	case m.Name == judge.Mean:
		return stat.Mean(s.a, s.b, mix, o)
	case m.Name == judge.ErrorShare:
		return stat.Shares(s.errorsA, s.errorsB, mix, m.scale(), o)
	}
	return stat.Shares(s.apdexA, s.apdexB, mix, m.scale(), o)
}

// leastCovered is the share of requests that a claim like for like rests on at least.
const leastCovered = 0.5

// judge fills in the measures: raw ones, and those of strata at their common mix.
func (c *comparison) judge(whole, s *strata) error {
	asked := c.asked()
	c.out.Measures = make([]api.CompareMeasure, len(asked))
	var work errgroup.Group
	work.SetLimit(runtime.GOMAXPROCS(0))
	for i, m := range asked {
		work.Go(func() error {
			out, _, err := c.judged(m, whole, s, c.out.Of)
			if err == nil {
				out.Adjusted = out.Judged().P
			}
			c.out.Measures[i] = out
			return err
		})
	}
	if err := work.Wait(); err != nil {
		return err
	}
	var count []*api.CompareMeasure // in the verdict
	for i := range c.out.Measures {
		m := &c.out.Measures[i]
		if _, gated := c.gateOfRate(); c.kind == ofSpans && m.Name == judge.Rate && len(asked) > 1 && !gated {
			continue // what is not looked at for the verdict costs the others nothing
		}
		count = append(count, m)
	}
	judge.Adjust(count, func(m *api.CompareMeasure) float64 { return float64(m.Judged().P) }, func(m *api.CompareMeasure, p float64) { m.Adjusted = api.Float(p) })
	return nil
}

// judged judges one measure of what is called of: raw over whole, which is one
// stratum, and like for like over like, if that is not nil and has a common mix.
// Change is the one that the verdict is of.
func (c *comparison) judged(m measure, whole, like *strata, of string) (out api.CompareMeasure, change stat.Change, err error) {
	m = m.over(whole)
	if change, err = m.change(whole, nil, c.opts); err != nil {
		return out, change, err
	}
	out = api.CompareMeasure{Name: m.Name, Scale: scaleName(m.scale()), Raw: c.figure(m, change)}
	lacks := like != nil && like.rests < leastCovered && (like.mix != nil || like.apart)
	if like != nil && (like.mix != nil || lacks) && m.Name != judge.Rate && !(lacks && m.Name == judge.ErrorShare && !c.atOneTime()) {
		if change, err = m.change(like, like.mix, c.opts); err != nil {
			return out, change, err
		}
		if err = c.comeAndGo(like, like.mix, c.eachRequest(m, math.Sqrt(change.A*change.B)), &change); err != nil {
			return out, change, err
		}
		if lacks {
			change.Short = fmt.Sprintf("only %s of the %ss can be compared like for like, at least %s are needed", figure.Percent(like.rests), c.what(), figure.Percent(leastCovered))
		}
		f := c.figure(m, change)
		if lacks { // more data would not help
			f.Needed, f.NeededSeconds = api.Float(math.NaN()), api.Float(math.NaN())
			out.Raw.Needed, out.Raw.NeededSeconds = f.Needed, f.NeededSeconds
		}
		out.Like = &f
		whole = like
	}
	f := out.Judged()
	if err := c.between(m, whole, &out, &change); err != nil {
		return out, change, err
	}
	if out.Verdict, out.Change = f.Verdict, m.Way(f.Verdict); c.stops(m, f) {
		out.Change = judge.Worse
	}
	found := c.finding(m, of, f)
	found.Between = out.Between
	if out.Sentence = found.Sentence(); m.Name == judge.Rate && !m.Ratio && judge.Moved(f.Verdict) {
		out.Sentence = fmt.Sprintf("%s went from %s/s to %s/s", judge.Title(m.Name, of), figure.Digits(float64(f.A)), figure.Digits(float64(f.B)))
	}
	if found.Gate != nil {
		out.Allowed = found.Gate.Text(m.Figure)
	}
	return out, change, nil
}

// between finds the bumps that a quantile lies between, and judges it by their shares where
// no gate says what matters of the quantile itself. Of is the strata that it is of.
func (c *comparison) between(m measure, of *strata, out *api.CompareMeasure, change *stat.Change) error {
	f := out.Judged()
	if m.q == 0 || f.Verdict == judge.Same || f.Verdict == judge.WithinTolerance || f.Verdict == judge.TooLittle {
		return nil
	}
	var mix []float64
	if out.Like != nil {
		mix = of.mix
	}
	bumps, share, ok, err := stat.Between(of.a, of.b, m.q, mix, change, c.opts)
	if err != nil || !ok {
		return err
	}
	if err := c.comeAndGo(of, mix, above(math.Sqrt(float64(bumps.Lower*bumps.Upper))), &share); err != nil {
		return err
	}
	out.Between = &api.CompareBumps{
		Lower: api.Float(bumps.Lower), Upper: api.Float(bumps.Upper),
		A: api.Float(share.A), B: api.Float(share.B), Low: api.Float(share.CI.Low), High: api.Float(share.CI.High),
	}
	f.Needed, f.NeededSeconds, f.NeededWindows = api.Float(math.NaN()), api.Float(math.NaN()), 0 // it lies there however much there is
	if _, gated := c.Gates.Of(m.Figure, m.margin); gated {
		return nil
	}
	as := judge.Finding{Figure: m.Figure, Effect: 1 + share.Effect, Evidence: judge.EvidenceOf(share.Verdict(0), "")}
	as.Conclude()
	f.Verdict, f.P = as.Verdict, api.Float(share.P)
	return nil
}

// over is the measure on a scale on which it can be judged: what is 0 or less
// on a side has no ratio.
func (m measure) over(s *strata) measure {
	sides := [][]stat.Tally{s.valuesA, s.valuesB}
	switch {
	case s.valuesA != nil:
	case m.Name == judge.Rate:
		sides = [][]stat.Tally{s.ratesA, s.ratesB}
	default:
		return m
	}
	for _, t := range sides {
		if sum(t[0].Den) > 0 && sum(t[0].Num) <= 0 {
			m.Ratio = false
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

func (m measure) scale() stat.Scale {
	if m.Ratio {
		return stat.LogRatio
	}
	return stat.Difference
}

func scaleName(s stat.Scale) string {
	if s == stat.LogRatio {
		return "ratio"
	}
	return "difference"
}

// finding is what a figure amounts to.
func (c *comparison) finding(m measure, of string, f *api.CompareFigure) *judge.Finding {
	out := &judge.Finding{
		Figure: m.Figure, Of: of, Effect: float64(f.Effect), Low: float64(f.Low), High: float64(f.High), Level: c.Level, Margin: m.margin, Noise: math.NaN(), Sides: c.nameSides(),
		Evidence: judge.Evidence{Short: f.Short, ByLoad: f.ByLoad}, Verdict: f.Verdict,
	}
	if m.Ratio {
		out.Margin = c.Within
	}
	if gate, ok := c.Gates.Of(m.Figure, m.margin); ok {
		out.Gate = &gate
		if gate.Allowed > 0 {
			out.Margin = gate.Allowed
		}
	}
	if f.Verdict == judge.Drifts {
		if out.Needs = "measure for longer, or compare rounds"; f.ByLoad {
			out.Needs = "compare sides with as many " + c.what() + "s"
		}
		return out
	}
	if f.JudgedAt > 0 {
		at := NextMinute(f.JudgedAt)
		if today := clock(c.Now.Unix()); at[:len(time.DateOnly)] == today[:len(time.DateOnly)] {
			at = at[len(time.DateOnly)+1:]
		}
		out.Coming = "the newest stretch is still coming, and can be judged at " + at + " UTC"
		if c.step > int64(series.Base) && c.Label == "" {
			out.Needs = fmt.Sprintf("sides of up to %s are cut into slots of %d s, which tell sooner", figure.Planned(float64(sideSlots*series.Base)), int64(series.Base))
		}
		return out
	}
	if f.Verdict == judge.TooLittle && c.several() && min(len(c.a.windows), len(c.b.windows)) < fewestWindows {
		out.Needs = fmt.Sprintf("give at least %d windows a side, such as --b 'daily 22:00-06:00 last 5', or earlier days, --days 4 --set like=day", fewestWindows)
		return out
	}
	// How much more data there should be, if that is known and is more.
	if float64(f.Needed) > 1 {
		switch out.Needs = neededText(f) + " a side"; f.Verdict {
		case judge.TooLittle:
			out.Needs = "about " + out.Needs + " may do"
		default:
			out.Needs = "a change of " + m.MarginText(out.Margin) + " needs about " + out.Needs
		}
	}
	return out
}

// figure puts a change into the words of the API.
func (c *comparison) figure(m measure, x stat.Change) api.CompareFigure {
	f := api.CompareFigure{
		A: api.Float(x.A), B: api.Float(x.B), P: api.Float(probability(x)), Short: x.Short, ByLoad: x.ByLoad,
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
	found := c.finding(m, "", &f)
	if found.Gate != nil {
		var p float64
		found.Evidence, p = found.Gate.Judge(&x, 0)
		f.P = api.Float(p)
	} else {
		found.Evidence = judge.EvidenceOf(x.Verdict(margin), x.Short)
	}
	found.Conclude()
	f.Verdict = found.Verdict
	target := margin
	if x.Log {
		target = math.Log1p(margin)
	}
	needed, slots := c.needed(m, x, target)
	f.Needed = api.Float(needed)
	lengthA, lengthB := c.a.end-c.a.start, c.b.end-c.b.start
	length := max(lengthA, lengthB)
	if x.Short != "" && x.SlotsA != x.SlotsB { // the side that has too little
		if length = lengthA; x.SlotsB < x.SlotsA {
			length = lengthB
		}
	}
	f.NeededSeconds = api.Float(needed * float64(length))
	if !math.IsNaN(slots) {
		f.NeededSeconds = api.Float(slots * float64(c.step))
	}
	f.JudgedAt = c.judgedAt(&f, &x)
	if c.several() && float64(f.Needed) > 1 {
		f.NeededWindows = int(math.Ceil(float64(f.Needed) * float64(min(len(c.a.windows), len(c.b.windows)))))
	}
	return f
}

// judgedAt returns when side B holds enough for an interval, where it reaches up to now and
// nothing else is short; else 0.
func (c *comparison) judgedAt(f *api.CompareFigure, x *stat.Change) int64 {
	growing := !c.Now.IsZero() && c.atLatest(time.Unix(c.b.end+c.step, 0)).Before(time.Unix(c.b.end+c.step, 0))
	if x.Short == "" || !(f.Needed > 1) || !growing || c.Seconds != nil || c.several() || x.SlotsB > x.SlotsA || !c.paired && x.SlotsA < fewestSlots {
		return 0
	}
	slots := math.Ceil(float64(f.Needed) * float64(c.b.end-c.b.start) / float64(c.step))
	return c.b.start + int64(slots)*c.step + int64(unfinished/time.Second)
}

// needed returns the multiple of the data that there should be, and the number of slots that
// each of two sides of one length then has; NaN if nobody knows.
func (c *comparison) needed(m measure, x stat.Change, effect float64) (times, each float64) {
	const power, fewest, beyond = 0.9, 20, 10
	if x.Short == "" {
		n := x.Needed(effect, power)
		if !math.IsInf(n.Both, 0) && !math.IsInf(n.Slots, 0) {
			return n.Both, n.Slots
		}
		return math.NaN(), math.NaN()
	}
	slots, requests := float64(min(x.SlotsA, x.SlotsB)), min(x.EffectiveA, x.EffectiveB)
	if slots == 0 || requests == 0 {
		return math.NaN(), math.NaN()
	}
	n := fewest / slots
	if m.q > 0 {
		n = max(n, beyond/((1-m.q)*requests)) // so that some requests lie beyond it
	}
	if n <= 1 {
		return math.NaN(), math.NaN() // it is something else that is missing
	}
	return n, math.NaN()
}
