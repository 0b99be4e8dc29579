package compare

import (
	"slices"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/stat"
)

// conclude says what all measures amount to. Nine measures find something more
// often than one does, so a change counts here by its adjusted probability. What is
// known of errors alone, unless nothing else was asked for, is too little.
func (c *comparison) conclude() {
	var moved, rest judge.Sum
	known := len(c.out.Measures) == 1
	for i := range c.out.Measures {
		m := &c.out.Measures[i]
		switch {
		case c.aside(m) || m.Verdict == judge.TooLittle:
			continue
		case c.found(m):
			moved.Add(judge.Changed, m.Change)
		case m.Verdict == judge.Same:
			rest.Add(judge.Same, "")
		default:
			rest.Add(judge.NoEvidence, "")
		}
		known = known || m.Name != judge.ErrorShare
	}
	if c.out.Verdict = moved.Verdict(); c.out.Verdict == judge.TooLittle && known {
		c.out.Verdict = rest.Verdict()
	}
	c.out.Sentence = c.headline()
}

// found says that a measure changed, allowing for how many there are.
func (c *comparison) found(m *api.CompareMeasure) bool {
	return judge.Moved(m.Verdict) && float64(m.Adjusted) <= discovery && !c.aside(m)
}

// headline is the sentence of the measure that stands for all.
func (c *comparison) headline() string {
	lead := Lead(c.out.Measures, c.found, c.Within)
	if lead == nil && !judge.Moved(c.out.Verdict) {
		lead = leadOf(c.out.Measures, func(m *api.CompareMeasure) bool { return m.Verdict == c.out.Verdict && !c.aside(m) }, c.Within)
	}
	if lead == nil {
		return "No evidence of a change, as many measures were looked at"
	}
	return figure.Sentence(lead.Sentence)
}

// Lead returns the measure that stands for those that are found to have changed, one
// that got worse if any did; nil if none is.
func Lead(of []api.CompareMeasure, found func(*api.CompareMeasure) bool, within float64) *api.CompareMeasure {
	for _, way := range []judge.Way{judge.Worse, judge.Better, ""} {
		if lead := leadOf(of, func(m *api.CompareMeasure) bool { return m.Change == way && found(m) }, within); lead != nil {
			return lead
		}
	}
	return nil
}

func leadOf(of []api.CompareMeasure, candidate func(*api.CompareMeasure) bool, within float64) *api.CompareMeasure {
	return judge.Lead(of, judge.Reading, func(m *api.CompareMeasure) string {
		if !candidate(m) {
			return ""
		}
		return m.Name
	}, func(m *api.CompareMeasure) (float64, float64) { return margins(m, within) })
}

// margins is how large the change of a measure seems, and how large it is at least,
// see judge.Finding.
func margins(m *api.CompareMeasure, within float64) (seems, certain float64) {
	f := &m.Raw
	if m.Like != nil {
		f = m.Like
	}
	of := judge.Finding{Effect: float64(f.Effect), Low: float64(f.Low), High: float64(f.High), Margin: within}
	if of.Ratio = m.Scale == scaleName(stat.LogRatio); !of.Ratio {
		of.Margin = 0
		if i := slices.IndexFunc(measures, func(of measure) bool { return of.Name == m.Name }); i >= 0 {
			of.Margin = measures[i].margin
		}
	}
	return of.Margins()
}

// aside says that a measure does not count in the verdict of all: how often
// something was observed says nothing of what was.
func (c *comparison) aside(m *api.CompareMeasure) bool {
	return c.kind == ofObservations && m.Name == judge.Rate && len(c.out.Measures) > 1
}
