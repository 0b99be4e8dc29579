package compare

import (
	"math"
	"slices"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/stat"
)

// conclude says what all measures amount to. Nine measures find something more
// often than one does, so a change counts here by its adjusted probability.
func (c *comparison) conclude() {
	var better, worse, changed, same, judged int
	for i := range c.out.Measures {
		m := &c.out.Measures[i]
		switch found := c.found(m); {
		case m.Verdict == TooLittle:
		case found && m.Change == Worse:
			worse++
		case found && m.Change == Better:
			better++
		case found:
			changed++
		case m.Verdict == Same:
			same++
		}
		if m.Verdict != TooLittle && m.Name != errorsName && !c.aside(m) {
			judged++
		}
	}
	of := len(c.out.Measures)
	switch {
	case worse > 0 && better > 0:
		c.out.Verdict = Mixed
	case worse > 0:
		c.out.Verdict = Regression
	case better > 0:
		c.out.Verdict = Improvement
	case changed > 0:
		c.out.Verdict = Changed
	case judged == 0 && !(of == 1 && c.out.Measures[0].Name == errorsName && c.out.Measures[0].Verdict != TooLittle):
		c.out.Verdict = TooLittle
	case same > 0 && c.allSame():
		c.out.Verdict = Same
	default:
		c.out.Verdict = NoEvidence
	}
	c.out.Sentence = c.headline()
}

// found says that a measure changed, allowing for how many there are.
func (c *comparison) found(m *api.CompareMeasure) bool {
	moved := m.Verdict != TooLittle && m.Verdict != NoEvidence && m.Verdict != Same
	return moved && float64(m.Adjusted) <= discovery && !c.aside(m)
}

// first is the order in which measures stand for all of them.
var first = []string{"p99", "p95", "p50", errorsName, eachName, rateName, meanName, "p90", "p75", "p99.9", apdexName}

// headline is the sentence of the measure that stands for all: the first of
// those that share the verdict, unless a later one has certainly changed more
// than that one seems to, both in margins of sameness. Of a mixed verdict it is
// one that got worse.
func (c *comparison) headline() string {
	var best *api.CompareMeasure
	for _, name := range first {
		i := slices.IndexFunc(c.out.Measures, func(m api.CompareMeasure) bool { return m.Name == name })
		if i < 0 {
			continue
		}
		m := &c.out.Measures[i]
		if !c.shares(m) {
			continue
		}
		if best == nil {
			best = m
			continue
		}
		if _, certain := c.margins(m); c.found(m) {
			if seems, _ := c.margins(best); certain > seems {
				best = m
			}
		}
	}
	if best == nil {
		return "No evidence of a change, as many measures were looked at"
	}
	return figure.Sentence(best.Sentence)
}

// shares says whether a measure says what the verdict of all does.
func (c *comparison) shares(m *api.CompareMeasure) bool {
	switch c.out.Verdict {
	case Regression, Mixed:
		return c.found(m) && m.Change == Worse
	case Improvement:
		return c.found(m) && m.Change == Better
	case Changed:
		return c.found(m)
	}
	return m.Verdict == c.out.Verdict && !c.aside(m)
}

// margins is how large a change seems, and how large it is at least by its
// interval, in margins of sameness; 0 where there is no margin.
func (c *comparison) margins(m *api.CompareMeasure) (seems, certain float64) {
	f := &m.Raw
	if m.Like != nil {
		f = m.Like
	}
	size := func(v api.Float) float64 { return math.Log(float64(v)) / math.Log1p(c.Within) }
	if m.Scale != scaleName(stat.LogRatio) {
		i := slices.IndexFunc(measures, func(of measure) bool { return of.name == m.Name })
		if i < 0 || measures[i].margin == 0 {
			return 0, 0
		}
		size = func(v api.Float) float64 { return float64(v) / measures[i].margin }
	}
	low, high := size(f.Low), size(f.High)
	return math.Abs(size(f.Effect)), max(0, low, -high)
}

// aside says that a measure does not count in the verdict of all: how often
// something was observed says nothing of what was.
func (c *comparison) aside(m *api.CompareMeasure) bool {
	return c.kind == ofObservations && m.Name == rateName && len(c.out.Measures) > 1
}

// allSame says that whatever could be judged is the same.
func (c *comparison) allSame() bool {
	for i := range c.out.Measures {
		if m := &c.out.Measures[i]; m.Verdict != TooLittle && m.Verdict != Same && !c.aside(m) {
			return false
		}
	}
	return true
}
