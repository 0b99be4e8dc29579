package judge

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"tailscope/internal/figure"
)

// The words of a measure and of a row; those of comparisons everywhere.
const (
	Faster      = "faster"
	Slower      = "slower"
	Higher      = "higher"
	LowerThan   = "lower"
	MoreErrors  = "more errors"
	FewerErrors = "fewer errors"
	Mixed       = "mixed"
	Same        = "same"
	NoEvidence  = "no evidence"
	TooLittle   = "too little data"
)

// conclude gives a measure its verdict and sentence. A difference that is none of
// chance by its own interval, but is by how many rows were looked at, is no
// evidence.
func (m *Measure) conclude(in *Input, r *Row) {
	e := &m.Estimate
	switch {
	case m.Verdict == TooLittle:
	case e.within(in.margin(m.Name), in.Level) && r.Contrast.Effect != "interaction":
		m.Verdict = Same
	case (e.Low > 0 || e.High < 0) && !(m.Adjusted > 1-in.Level):
		m.Verdict = changed(m.Name, e.Effect > 0)
	default:
		m.Verdict = NoEvidence
	}
	if m.Verdict == NoEvidence || m.Verdict == TooLittle {
		m.Needs = m.needs(in)
	}
	m.Sentence = m.sentence(in, r)
}

func changed(name string, more bool) string {
	words := [2]string{LowerThan, Higher}
	switch {
	case duration(name):
		words = [2]string{Faster, Slower}
	case name == errorsOf:
		words = [2]string{FewerErrors, MoreErrors}
	}
	if more {
		return words[1]
	}
	return words[0]
}

// needs is how many more rounds would tell.
func (m *Measure) needs(in *Input) string {
	if m.Short != "" || in.Slots {
		return ""
	}
	e := m.Estimate
	n := e.rounds(in.margin(m.Name), in.Level)
	of := figure.TwoDigits(100*in.Within) + " %"
	if difference(m.Name) {
		of = figure.TwoDigits(100*marginOfErrors) + " points"
	}
	switch more := n - float64(e.N); {
	case math.IsInf(n, 1):
		return "no number of rounds up to 10,000 would tell a change of " + of
	case more < 1:
		return ""
	default:
		return fmt.Sprintf("%s more would tell a change of %s in nine cases of ten", rounds(int(more)), of)
	}
}

func rounds(n int) string {
	if n == 1 {
		return "1 round"
	}
	return strconv.Itoa(n) + " rounds"
}

// Title is a measure in a sentence.
func Title(name string, k Key) string {
	switch name {
	case "mean":
		name = "the mean"
	case errorsOf:
		name = "the share of errors"
	case rate:
		name = "the rate"
	case "p999":
		name = "p99.9"
	case Ratio:
		name = "the typical request"
	default:
		if !isQuantile(name) {
			name = strings.ReplaceAll(strings.ReplaceAll(name, "_", " "), "per request", "a request")
		}
	}
	switch {
	case k.Tenant != "":
		return name + " of tenant " + k.Tenant
	case k.Query != "":
		return name + " of " + k.Query
	}
	return name
}

func (m *Measure) sentence(in *Input, r *Row) string {
	title, c := Title(m.Name, r.Key), r.Contrast
	with := " with " + c.Setting
	if m.Verdict == TooLittle {
		return "too little data to judge " + title + with + ": " + m.Short
	}
	unit := " %"
	percent := func(v float64) float64 { return 100 * (v - 1) }
	if difference(m.Name) {
		unit, percent = " points", func(v float64) float64 { return 100 * v }
	}
	signs := fmt.Sprintf("(%s %% interval %s to %s%s)", figure.TwoDigits(100*in.Level), figure.Signed(percent(m.Low)), figure.Signed(percent(m.High)), unit)
	if c.Effect == "interaction" {
		if m.Verdict == NoEvidence {
			return fmt.Sprintf("no evidence that %s depends on both of %s together %s", title, c.Setting, signs)
		}
		return fmt.Sprintf("%s with %s is %s%s from what each by itself adds up to %s", title, c.Setting, figure.Signed(percent(m.Effect)), unit, signs)
	}
	switch m.Verdict {
	case NoEvidence:
		if m.Low > none(m.Name) || m.High < none(m.Name) {
			return fmt.Sprintf("%s%s differs from %s by %s%s, which is no evidence among so many figures %s", title, with, c.Against, figure.Signed(percent(m.Effect)), unit, signs)
		}
		return fmt.Sprintf("no evidence that %s%s differs from %s %s", title, with, c.Against, signs)
	case Same:
		same := figure.TwoDigits(100 * in.Within)
		if difference(m.Name) {
			same = figure.TwoDigits(100 * marginOfErrors)
		}
		return fmt.Sprintf("%s%s is the same as with %s within %s%s %s", title, with, c.Against, same, unit, signs)
	}
	word := m.Verdict
	switch word {
	case MoreErrors:
		word = Higher
	case FewerErrors:
		word = LowerThan
	}
	const many = 2
	if m.Effect >= many && !difference(m.Name) {
		form := "%s%s is %s times that with %s (%s %% interval %s–%s)"
		if duration(m.Name) {
			form = "%s%s takes %s times as long as with %s (%s %% interval %s–%s)"
		}
		return fmt.Sprintf(form, title, with, figure.TwoDigits(m.Effect), c.Against, figure.TwoDigits(100*in.Level), figure.TwoDigits(m.Low), figure.TwoDigits(m.High))
	}
	size, low, high := percent(m.Effect), percent(m.Low), percent(m.High)
	if size < 0 {
		size, low, high = -size, -high, -low
	}
	return fmt.Sprintf("%s%s is %s%s %s than with %s (%s %% interval %s–%s%s)", title, with, figure.TwoDigits(size), unit, word, c.Against, figure.TwoDigits(100*in.Level), figure.TwoDigits(low), figure.TwoDigits(high), unit)
}

// none is the effect that is none.
func none(name string) float64 {
	if difference(name) {
		return 0
	}
	return 1
}

// conclude gives a row its verdict by its durations and errors, a closed loop's
// rate, and the measure that decides; and the measure that says most.
func (r *Row) conclude(in *Input) {
	var better, worse, same, open, little []*Measure
	for i := range r.Measures {
		m := &r.Measures[i]
		if !(duration(m.Name) || m.Name == errorsOf || m.Name == rate && in.Closed || m.Name == in.Decides) {
			continue
		}
		switch m.Verdict {
		case TooLittle:
			little = append(little, m)
		case NoEvidence:
			open = append(open, m)
		case Same:
			same = append(same, m)
		case Faster, FewerErrors:
			better = append(better, m)
		case Slower, MoreErrors:
			worse = append(worse, m)
		default:
			if (m.Verdict == LowerThan) == Lower(m.Name) {
				better = append(better, m)
			} else {
				worse = append(worse, m)
			}
		}
	}
	read := func(ms []*Measure) {
		if r.Lead = r.lead(in, ms); r.Lead != "" {
			for _, m := range ms {
				if m.Name == r.Lead {
					r.Verdict = m.Verdict
				}
			}
		}
	}
	switch {
	case len(better) > 0 && len(worse) > 0:
		read(worse)
		r.Verdict = Mixed
	case len(worse) > 0:
		read(worse)
	case len(better) > 0:
		read(better)
	case len(open) > 0:
		read(open)
	case len(same) > 0:
		read(same)
	default:
		read(little)
		r.Verdict = TooLittle
	}
}

// leads is the order in which measures are read, unless one is named.
var leads = []string{Ratio, "p99", "p95", "p50", errorsOf, "mean", "p90", "p75", "p999", rate}

// Reading is the order in which measures are read: the one that decides, unless it
// is empty, then those that say most.
func Reading(decides string) []string {
	if decides == "" {
		return leads
	}
	return append([]string{decides}, leads...)
}

func (r *Row) lead(in *Input, ms []*Measure) string {
	for _, name := range Reading(in.Decides) {
		for _, m := range ms {
			if m.Name == name {
				return name
			}
		}
	}
	if len(ms) > 0 {
		return ms[0].Name
	}
	return ""
}

// Sentence is that of the measure that says most.
func (r *Row) Sentence() string {
	for i := range r.Measures {
		if r.Measures[i].Name == r.Lead {
			return r.Measures[i].Sentence
		}
	}
	return "nothing was measured"
}

// Of is a measure of a row, nil if it has none of that name.
func (r *Row) Of(name string) *Measure {
	for i := range r.Measures {
		if r.Measures[i].Name == name {
			return &r.Measures[i]
		}
	}
	return nil
}
