package experiments

import (
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/query"
	"tailscope/stat"
)

// Verdicts beside those of package compare.
const (
	WithinFloor = "within the noise floor"
	FewerErrors = "fewer errors"
	MoreErrors  = "more errors"
	Larger      = "larger"
	Smaller     = "smaller"
)

// measure is a figure that a candidate is judged by.
type measure struct {
	name     string
	kind     kind
	q        float64
	up, down string
	row      bool // operations and tenants are judged by it too
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

var measures = []measure{
	{"ratio", ofRatios, 0.5, compare.Slower, compare.Faster, true},
	{"p50", ofQuantiles, 0.5, compare.Slower, compare.Faster, true},
	{"p75", ofQuantiles, 0.75, compare.Slower, compare.Faster, false},
	{"p90", ofQuantiles, 0.9, compare.Slower, compare.Faster, false},
	{"p95", ofQuantiles, 0.95, compare.Slower, compare.Faster, true},
	{"p99", ofQuantiles, 0.99, compare.Slower, compare.Faster, true},
	{"p99.9", ofQuantiles, 0.999, compare.Slower, compare.Faster, false},
	{"mean", ofMeans, 0, compare.Slower, compare.Faster, false},
	{"errors", ofErrors, 0, MoreErrors, FewerErrors, true},
	{"first_byte", ofFirstBytes, 0.5, compare.Slower, compare.Faster, false},
	{"bytes", ofBytes, 0, Larger, Smaller, false},
}

const (
	level = 0.95
	// margin within which figures are the same: a relative change, and of a
	// share of errors a difference.
	margin, marginOfErrors = 0.05, 0.001
	// discovery is the false discovery rate. It is spent on three families of
	// figures, half of it on those of everything, a quarter each on operations
	// and tenants, so that of sessions without a difference no more than 5 % show
	// one anywhere: probabilities are multiplied by the inverse.
	discovery            = 0.05
	ofAll, ofRows        = 2, 4
	liveSeconds          = 1800 // when live intervals are tightest
	ratioName            = "ratio"
	mostRows, defaultRow = 200, 20
)

// checkMeasures returns those named, all of them if none is.
func checkMeasures(names []string) ([]measure, error) {
	var known []string
	for _, m := range measures {
		known = append(known, m.name)
	}
	for _, name := range names {
		if !slices.Contains(known, name) {
			return nil, query.Invalid("measures", "there is no measure %q; %s", name, query.Suggest(name, known))
		}
	}
	return slices.DeleteFunc(slices.Clone(measures), func(m measure) bool { return len(names) > 0 && !slices.Contains(names, m.name) }), nil
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
	if j.effect.Short == "" {
		j.p = j.effect.Beyond(j.noise)
	}
	return j, nil
}

// findFloor works out the noise floor: the end of the interval of control
// against primary that is further from no difference.
func (j *judged) findFloor(f figures, control, primary string, o stat.Options) error {
	floor, err := j.change(f, primary, control, o)
	if err != nil {
		return err
	}
	j.floor, j.noise = &floor, math.Inf(1)
	if floor.Short == "" {
		j.noise = max(j.noiseOfBuckets(), -floor.CI.Low, floor.CI.High)
	}
	return nil
}

// noiseOfBuckets is what buckets hide of a ratio, whose middle is 1 whatever is
// measured. Of two sides they hide the same.
func (j *judged) noiseOfBuckets() float64 {
	if j.kind != ofRatios || !(j.effect.ErrorB > 0) {
		return 0
	}
	return math.Log1p(j.effect.ErrorB)
}

// beyond says that the interval lies wholly on one side, outside the floor.
func (j *judged) beyond() bool {
	return j.effect.Short == "" && (j.effect.CI.Low > j.noise || j.effect.CI.High < -j.noise)
}

// claimed says that there is an effect, allowing for all that was looked at.
func (j *judged) claimed() bool { return j.beyond() && j.adjusted <= discovery }

func (j *judged) verdict() string {
	c := &j.effect
	same := margin
	if !c.Log {
		same = marginOfErrors
	}
	v := c.Verdict(0)
	switch {
	case c.Short != "":
		return compare.TooLittle
	case j.claimed() && v == stat.More:
		return j.up
	case j.claimed() && v == stat.Less:
		return j.down
	case c.Within(same) < 1-level:
		return compare.Same
	case v == stat.NoEvidence || j.beyond():
		return compare.NoEvidence
	case math.IsInf(j.noise, 1):
		return compare.TooLittle
	}
	return WithinFloor
}

// api is the measure in the words of the API. Of is whose it is: an operation, a
// tenant, or empty.
func (j *judged) api(of, against string) api.MirrorMeasure {
	nan := api.Float(math.NaN())
	out := api.MirrorMeasure{
		Name: j.name, Reference: api.Float(j.effect.A), Candidate: api.Float(j.effect.B), Verdict: j.verdict(),
		Floor: nan, FloorLow: nan, FloorHigh: nan, Noise: nan, P: api.Float(j.p), Adjusted: api.Float(j.adjusted),
	}
	out.Effect, out.Low, out.High = scaled(&j.effect)
	if j.floor != nil {
		out.Floor, out.FloorLow, out.FloorHigh = scaled(j.floor)
	}
	if j.floor != nil || j.kind == ofRatios {
		if out.Noise = api.Float(j.noise); j.effect.Log {
			out.Noise = api.Float(math.Expm1(j.noise))
		}
	}
	out.Sentence = sentence(&out, j.measure, of, against, j.effect.Short, j.floor != nil)
	return out
}

// scaled is an effect, with its interval, as a ratio or a difference.
func scaled(c *stat.Change) (effect, low, high api.Float) {
	if c.Short != "" {
		nan := api.Float(math.NaN())
		return nan, nan, nan
	}
	if c.Log {
		r, ci := c.Ratio()
		return api.Float(r), api.Float(ci.Low), api.Float(ci.High)
	}
	return api.Float(c.Effect), api.Float(c.CI.Low), api.Float(c.CI.High)
}

// certain is how large an effect is at least, in margins of sameness.
func certain(m *api.MirrorMeasure) float64 {
	if m.Name == "errors" {
		return max(0, float64(m.Low), -float64(m.High)) / marginOfErrors
	}
	return max(0, math.Log(float64(m.Low)), -math.Log(float64(m.High))) / math.Log1p(margin)
}
