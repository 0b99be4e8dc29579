package experiments

import (
	"fmt"
	"math"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
)

// title is a measure in a sentence: p99 of GET /search.
func (m measure) title(of string) string {
	name := m.name
	switch m.kind {
	case ofRatios:
		name = "the typical request"
	case ofMeans:
		name = "the mean"
	case ofErrors:
		name = "the share of errors"
	case ofFirstBytes:
		name = "the median to the first byte"
	case ofBytes:
		name = "the mean answer"
	}
	if of != "" {
		name += " of " + of
	}
	return name
}

// sentence says what a measure amounts to.
func sentence(f *api.MirrorMeasure, m measure, of, against, short string, floored bool) string {
	title := m.title(of)
	if against == "primary" {
		against = "the primary"
	}
	if f.Verdict == compare.TooLittle {
		if short == "" {
			short = "the noise floor is not known"
		}
		return "too little data to judge " + title + ": " + short
	}
	interval := func(low, high string) string {
		s := fmt.Sprintf("(%s %% interval %s", figure.TwoDigits(100*level), low)
		if high != "" {
			s += "–" + high
		}
		if floored && !math.IsNaN(float64(f.Noise)) {
			s += "; noise floor " + noise(f, m)
		}
		return s + ")"
	}
	both := interval(figure.Signed(m.percent(f.Low))+" to "+figure.Signed(m.percent(f.High))+m.unit(), "")
	switch f.Verdict {
	case compare.NoEvidence:
		if none := m.none(); float64(f.Low) > none || float64(f.High) < none { // but for how many were looked at
			return fmt.Sprintf("%s differs from %s by %s%s, which is no evidence among so many figures %s", title, against, figure.Signed(m.percent(f.Effect)), m.unit(), both)
		}
		return fmt.Sprintf("no evidence that %s differs from %s %s", title, against, both)
	case compare.Same:
		same := figure.TwoDigits(100 * margin)
		if m.kind == ofErrors {
			same = figure.TwoDigits(100 * marginOfErrors)
		}
		return fmt.Sprintf("%s is the same as with %s within %s%s %s", title, against, same, m.unit(), both)
	case WithinFloor:
		return fmt.Sprintf("%s differs from %s by %s%s, not surely more than %s from the primary %s", title, against, figure.Signed(m.percent(f.Effect)), m.unit(), against, both)
	}
	word := f.Verdict
	switch word {
	case MoreErrors:
		word = "higher"
	case FewerErrors:
		word = "lower"
	}
	const many = 2
	if r := float64(f.Effect); m.kind != ofErrors && r >= many {
		form := "%s takes %s times as long as %s %s"
		if m.kind == ofBytes {
			form = "%s is %s times as large as with %s %s"
		}
		return fmt.Sprintf(form, title, figure.TwoDigits(r), with(against, m), interval(figure.TwoDigits(float64(f.Low)), figure.TwoDigits(float64(f.High))))
	}
	size, low, high := m.percent(f.Effect), m.percent(f.Low), m.percent(f.High)
	if size < 0 {
		size, low, high = -size, -high, -low
	}
	return fmt.Sprintf("%s is %s%s %s than %s %s", title, figure.TwoDigits(size), m.unit(), word, against, interval(figure.TwoDigits(low), figure.TwoDigits(high)+m.unit()))
}

func with(against string, m measure) string {
	if m.kind == ofBytes {
		return against
	}
	return "with " + against
}

func (m measure) unit() string {
	if m.kind == ofErrors {
		return " points"
	}
	return " %"
}

// none is the effect that is none.
func (m measure) none() float64 {
	if m.kind == ofErrors {
		return 0
	}
	return 1
}

// percent is an effect in per cent, or in points of a share.
func (m measure) percent(v api.Float) float64 {
	return 100 * (float64(v) - m.none())
}

func noise(f *api.MirrorMeasure, m measure) string {
	if v := float64(f.Noise); math.IsInf(v, 0) {
		return "not known"
	}
	return "±" + figure.TwoDigits(100*float64(f.Noise)) + m.unit()
}
