package rounds

import (
	"fmt"
	"math"
	"slices"

	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// Of is whose figure it is, in a sentence; empty for everything together.
func (k Key) Of() string {
	if k.Tenant != "" {
		return "tenant " + k.Tenant
	}
	return k.Query
}

// FigureOf is a measure as package judge knows it.
func FigureOf(name string) judge.Figure {
	f := judge.Figure{Name: name, Ratio: !difference(name)}
	switch {
	case duration(name):
		f.Kind = judge.Time
	case name == judge.ErrorShare:
		f.Kind = judge.Errors
	case !Lower(name):
		f.Sense = judge.MoreIsBetter
	}
	return f
}

// conclude gives a measure its verdict and sentence. A difference that is none of
// chance by its own interval, but is by how many rows were looked at, is no
// evidence.
func (m *Measure) conclude(in *Input, r *Row) {
	e, c := &m.Estimate, r.Contrast
	f := judge.Finding{
		Figure: FigureOf(m.Name), Of: r.Key.Of(), With: c.Setting, Against: c.Against, Joint: c.Effect == "interaction",
		Effect: m.Effect, Low: m.Low, High: m.High, Level: in.Level, Margin: in.Within, Noise: math.NaN(),
	}
	if difference(m.Name) {
		f.Margin = judge.MarginOfErrors
	}
	f.Short = m.Short
	f.Same = !f.Joint && e.within(in.margin(m.Name), in.Level)
	f.Sure = (e.Low > 0 || e.High < 0) && !(m.Adjusted > 1-in.Level)
	f.Conclude()
	if m.Verdict = f.Verdict; m.Verdict == judge.NoEvidence || m.Verdict == judge.TooLittle {
		m.Needs = m.needs(in, f.MarginText(f.Margin))
	}
	m.Sentence = f.Claim()
}

// needs is how many more rounds would tell a change of a margin.
func (m *Measure) needs(in *Input, margin string) string {
	if m.Short != "" || in.Slots {
		return ""
	}
	e := m.Estimate
	n := e.rounds(in.margin(m.Name), in.Level)
	switch more := n - float64(e.N); {
	case math.IsInf(n, 1):
		return "no number of rounds up to 10,000 would tell a change of " + margin
	case more < 1:
		return ""
	default:
		return fmt.Sprintf("%s more would tell a change of %s in nine cases of ten", rounds(int(more)), margin)
	}
}

func rounds(n int) string { return figure.Counted(n, "round") }

// conclude gives a row its verdict by its durations and errors, a closed loop's
// rate, and the measure that decides; and the measure that says most.
func (r *Row) conclude(in *Input) {
	var sum judge.Sum
	ways := map[string]judge.Way{}
	counts := func(m *Measure) bool {
		return duration(m.Name) || m.Name == judge.ErrorShare || m.Name == judge.Rate && in.Closed || m.Name == in.Decides
	}
	for i := range r.Measures {
		if m := &r.Measures[i]; counts(m) {
			f := FigureOf(m.Name)
			ways[m.Name] = f.Way(m.Verdict)
			sum.Add(m.Verdict, ways[m.Name])
		}
	}
	r.Verdict = sum.Verdict()
	way, _ := judge.Leading(r.Verdict)
	lead := judge.Lead(r.Measures, Reading(in.Decides), func(m *Measure) string {
		if !counts(m) || ways[m.Name] != way || way == "" && m.Verdict != r.Verdict {
			return ""
		}
		return m.Name
	}, nil)
	if lead == nil {
		return
	}
	if r.Lead = lead.Name; r.Verdict != judge.Mixed {
		r.Verdict = lead.Verdict
	}
}

// Reading is the order in which measures are read: the one that decides, unless it
// is empty, then those that say most.
func Reading(decides string) []string {
	if decides == "" {
		return judge.Reading
	}
	return append([]string{decides}, slices.DeleteFunc(slices.Clone(judge.Reading), func(name string) bool { return name == decides })...)
}

// Sentence is that of the measure that says most.
func (r *Row) Sentence() string {
	if m := r.Of(r.Lead); m != nil {
		return m.Sentence
	}
	return "nothing was measured"
}

// Of is a measure of a row, nil if it has none of that name.
func (r *Row) Of(name string) *Measure {
	if i := slices.IndexFunc(r.Measures, func(m Measure) bool { return m.Name == name }); i >= 0 {
		return &r.Measures[i]
	}
	return nil
}

// Together returns the verdict of several rows, and the row that says most: one that
// got worse before one that got better, and that before one that did not change.
func Together(rows []*Row) (judge.Verdict, *Row) {
	var sum judge.Sum
	for _, r := range rows {
		sum.Add(r.Verdict, r.way())
	}
	return sum.Word(), slices.MinFunc(rows, func(a, b *Row) int { return a.rank() - b.rank() })
}

// way says whether the measure that says most got better or worse; empty where its
// verdict says so itself, or nobody knows.
func (r *Row) way() judge.Way {
	if r.Lead == "" || r.Verdict == judge.Mixed {
		return ""
	}
	return FigureOf(r.Lead).Way(r.Verdict)
}

func (r *Row) rank() int {
	if r.way() == judge.Worse {
		return 0
	}
	switch r.Verdict {
	case judge.Slower, judge.MoreErrors, judge.Mixed:
		return 0
	case judge.NoEvidence:
		return 2
	case judge.Same:
		return 3
	case judge.TooLittle:
		return 4
	}
	return 1
}
