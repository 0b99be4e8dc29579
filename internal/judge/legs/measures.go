package legs

import (
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/stat"
)

// measure is a figure that a candidate is judged by.
type measure struct {
	judge.Figure
	kind kind
	q    float64
	row  bool        // operations and tenants are judged by it too
	gate *judge.Gate // what is allowed, nil if a session allows nothing of it
}

type kind int

const (
	ofRatios kind = iota
	ofQuantiles
	ofMeans
	ofErrors
	ofFirstBytes
	ofBytes
)

func timeMeasure(name string, kind kind, q float64, row bool) measure {
	return measure{Figure: judge.Figure{Name: name, Kind: judge.Time, Ratio: true}, kind: kind, q: q, row: row}
}

var measures = []measure{
	timeMeasure(judge.Ratio, ofRatios, 0.5, true),
	timeMeasure("p50", ofQuantiles, 0.5, true),
	timeMeasure("p75", ofQuantiles, 0.75, false),
	timeMeasure("p90", ofQuantiles, 0.9, false),
	timeMeasure("p95", ofQuantiles, 0.95, true),
	timeMeasure("p99", ofQuantiles, 0.99, true),
	timeMeasure("p99.9", ofQuantiles, 0.999, false),
	timeMeasure(judge.Mean, ofMeans, 0, false),
	{Figure: judge.Figure{Name: judge.ErrorShare, Kind: judge.Errors}, kind: ofErrors, row: true},
	timeMeasure(judge.FirstByte, ofFirstBytes, 0.5, false),
	{Figure: judge.Figure{Name: judge.Bytes, Ratio: true, Sense: judge.NeitherIsBetter}, kind: ofBytes},
}

const (
	level = 0.95
	// margin within which figures are the same: a relative change.
	margin = 0.05
	// discovery is the false discovery rate. It is spent on three families of
	// figures, half of it on those of everything, a quarter each on operations
	// and tenants, so that of sessions without a difference no more than 5 % show
	// one anywhere: probabilities are multiplied by the inverse.
	discovery     = 0.05
	ofAll, ofRows = 2, 4
	liveSeconds   = 1800 // when live intervals are tightest
	// MostRows is how many operations, and how many tenants, are judged.
	MostRows = 200
)

// CheckMeasures refuses names of measures that there are not.
func CheckMeasures(names []string) error { return check("measures", names) }

// Gates reads what a session allows, as judge.ParseGates does, of the measures that there
// are.
func Gates(text string) (judge.Gates, error) {
	gates, err := judge.ParseGates(text)
	if err != nil {
		return nil, query.Invalid("allow", "%v", err)
	}
	return gates, check("allow", gates.Measures())
}

func check(field string, names []string) error {
	var known []string
	for _, m := range measures {
		known = append(known, m.Name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return query.Invalid(field, "there is no measure %q; %s", name, query.Suggest(name, known))
		}
	}
	return nil
}

// asked returns the measures that are named, all of them if none is, with their gates.
func asked(names []string, gates judge.Gates) (out []measure) {
	for _, m := range measures {
		if len(names) > 0 && !slices.Contains(names, m.Name) {
			continue
		}
		if gate, ok := gates.Of(m.Figure, judge.MarginOfErrors); ok {
			m.gate = &gate
		}
		out = append(out, m)
	}
	return out
}

// figures are all that is measured of everything, of an operation or a tenant.
type figures struct{ duration, first, bytes, ratio legs }

// change sets b against a. It has no slots if either side was not measured.
func (m measure) change(f figures, a, b string, o stat.Options) (stat.Change, error) {
	of := f.duration
	switch m.kind {
	case ofFirstBytes:
		of = f.first
	case ofBytes:
		of = f.bytes
	case ofRatios:
		l := f.ratio[legKey{b, a}]
		if l == nil {
			return missing(o), nil
		}
		s, err := l.series()
		if err != nil {
			return stat.Change{}, err
		}
		c, err := stat.QuantilesAgainst(1, stat.Side{s}, []float64{m.q}, nil, o)
		if err != nil {
			return stat.Change{}, err
		}
		return c[0], nil
	}
	la, lb := of[legKey{variant: a}], of[legKey{variant: b}]
	if la == nil || lb == nil {
		return missing(o), nil
	}
	o.Paired = true
	if m.kind == ofErrors {
		x, y := shares(la, lb)
		return stat.Shares([]stat.Tally{x}, []stat.Tally{y}, nil, stat.Difference, o)
	}
	x, y, err := sides(la, lb)
	if err != nil {
		return stat.Change{}, err
	}
	if m.q == 0 {
		return stat.Mean(x, y, nil, o)
	}
	return stat.Quantile(x, y, m.q, nil, o)
}

// missing is the change of what was not measured.
func missing(o stat.Options) stat.Change {
	nan := math.NaN()
	return stat.Change{A: nan, B: nan, Effect: nan, Level: o.Level, CI: stat.Interval{Low: nan, High: nan}, SE: nan, P: 1, Short: "no requests on both sides"}
}

// judged is a measure of a candidate, and what it has to exceed.
type judged struct {
	measure
	effect stat.Change
	floor  *stat.Change // nil without a control, or if it was of no account
	// noise is how far from 0 the effect has to be, on its own scale; +Inf if the
	// floor is not known.
	noise    float64
	p        float64 // NaN if it was not judged
	adjusted float64
}

// judge sets a candidate against its reference, and works out the noise floor,
// of control against primary, if there is one and full says so or the effect
// would otherwise be one.
func (m measure) judge(f figures, candidate, reference, control, primary string, full bool, o stat.Options) (judged, error) {
	j := judged{measure: m, p: math.NaN()}
	var err error
	if j.effect, err = m.change(f, reference, candidate, o); err != nil {
		return j, err
	}
	j.noise = j.noiseOfBuckets()
	if control != "" && (full || j.effect.Short == "" && j.effect.P <= discovery) {
		if err := j.findFloor(f, control, primary, o); err != nil {
			return j, err
		}
	}
	switch {
	case m.gate != nil:
		_, j.p = m.gate.Judge(&j.effect, j.noise)
	case j.effect.Short == "":
		j.p = j.effect.Beyond(j.noise)
	}
	return j, nil
}

// finding is what the measure amounts to. Of is whose it is: an operation, a
// tenant, or empty. A sure effect is said even within the margin of sameness.
func (j *judged) finding(of, against string) *judge.Finding {
	c := &j.effect
	f := &judge.Finding{Figure: j.Figure, Of: of, Against: against, Level: level, Margin: marginOf(c), Noise: math.NaN()}
	if against == "primary" {
		f.Against = "the primary"
	}
	f.Effect, f.Low, f.High = scaled(c)
	if j.floor != nil {
		f.Noise = j.shownNoise()
	}
	if f.Gate = j.gate; f.Gate != nil {
		f.Evidence, _ = f.Gate.Judge(c, j.noise)
		f.Sure = f.Sure && j.claimed()
	} else {
		v := c.Verdict(0)
		f.Evidence = judge.Evidence{Short: c.Short, Sure: j.claimed() && (v == stat.Less || v == stat.More)}
		f.Same = !f.Sure && c.Verdict(f.Margin) == stat.Same
		f.Hidden = v != stat.NoEvidence && !j.beyond()
	}
	f.Conclude()
	return f
}

func marginOf(c *stat.Change) float64 {
	if c.Log {
		return margin
	}
	return judge.MarginOfErrors
}

// api is the measure in the words of the API.
func (j *judged) api(of, against string) api.MirrorMeasure {
	f, nan := j.finding(of, against), api.Float(math.NaN())
	out := api.MirrorMeasure{
		Name: j.Name, Reference: api.Float(j.effect.A), Candidate: api.Float(j.effect.B), Effect: api.Float(f.Effect), Low: api.Float(f.Low), High: api.Float(f.High),
		Floor: nan, FloorLow: nan, FloorHigh: nan, Noise: nan, P: api.Float(j.p), Adjusted: api.Float(j.adjusted), Verdict: f.Verdict, Sentence: f.Sentence(),
	}
	if j.floor != nil {
		effect, low, high := scaled(j.floor)
		out.Floor, out.FloorLow, out.FloorHigh = api.Float(effect), api.Float(low), api.Float(high)
	}
	if j.floor != nil || j.kind == ofRatios {
		out.Noise = api.Float(j.shownNoise())
	}
	if f.Gate != nil {
		out.Allowed = f.Gate.Text(f.Figure)
	}
	return out
}

// scaled is an effect, with its interval, as a ratio or a difference.
func scaled(c *stat.Change) (effect, low, high float64) {
	switch {
	case c.Short != "":
		return math.NaN(), math.NaN(), math.NaN()
	case c.Log:
		r, ci := c.Ratio()
		return r, ci.Low, ci.High
	}
	return c.Effect, c.CI.Low, c.CI.High
}

// margins is how large an effect seems and how large it is at least, see
// judge.Finding.
func margins(m *api.MirrorMeasure) (seems, certain float64) {
	f := judge.Finding{Effect: float64(m.Effect), Low: float64(m.Low), High: float64(m.High), Margin: margin}
	if f.Ratio = m.Name != judge.ErrorShare; !f.Ratio {
		f.Margin = judge.MarginOfErrors
	}
	return f.Margins()
}
