package rounds

import (
	"fmt"
	"math"

	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// Plan says how many rounds there should be, after those that there are.
type Plan struct {
	Rounds  int  // in all, as known so far
	Done    bool // no more are needed
	Decided bool // before the last round
	Why     string
}

// Fixed is a number of rounds that was chosen before.
func Fixed(n, have int) Plan {
	if have < n {
		return Plan{Rounds: n, Why: rounds(n) + " were asked for"}
	}
	return Plan{Rounds: n, Done: true, Why: "as many as were asked for"}
}

// Precision chooses the number of rounds such that the interval of every setting
// against the control is at most half wide to either side, half a share such as
// 0.03: from the variance of the first stage alone, once (Stein 1945). With at
// most as many as are allowed. in.Rule must be the rule of that stage, in.Decides
// the measure.
func Precision(in Input, half float64, most int) Plan {
	in.defaults()
	stage := in.Rule.Stage
	have := Complete(in)
	if have < stage {
		return Plan{Rounds: stage, Why: fmt.Sprintf("the first %s show how much rounds differ", rounds(stage))}
	}
	need, widest, judged := float64(stage), "", false
	margin := math.Log1p(half)
	if difference(in.Decides) {
		margin = half
	}
	first := in
	first.Runs, first.Rule = in.first(stage), Rule{}
	t := tabulate(first.Runs)
	for _, c := range in.Contrasts {
		r := t.row(&first, Key{}, c)
		m := r.Of(in.Decides)
		if m == nil || m.Short != "" || math.IsNaN(m.Estimate.SE) {
			continue
		}
		judged = true
		s := m.Estimate.SE * math.Sqrt(float64(m.Estimate.N))
		n := math.Ceil(math.Pow(critical((1-in.Level)/2, m.Estimate.DF)*s/margin, 2))
		if n > need {
			need, widest = n, c.Setting
		}
	}
	title := judge.Title(in.Decides, Key{}.Of())
	of := "±" + figure.TwoDigits(100*half) + " %"
	switch {
	case !judged:
		return Plan{Rounds: most, Done: have >= most, Why: title + " could not be judged in the first stage: as many as are allowed"}
	case need > float64(most):
		return Plan{Rounds: most, Done: have >= most, Why: fmt.Sprintf("%s of %s with %s would take %.0f rounds; %d are allowed", of, title, widest, need, most)}
	case widest == "":
		return Plan{Rounds: stage, Done: have >= stage, Why: fmt.Sprintf("the first %s are enough for %s of %s", rounds(stage), of, title)}
	}
	return Plan{Rounds: int(need), Done: have >= int(need), Why: fmt.Sprintf("%s of %s with %s takes %s, as the first %d differ", of, title, widest, rounds(int(need)), stage)}
}

// Decided ends the rounds as soon as every setting is told from the control, or
// from being different, by the measure in.Decides and an interval that holds at
// every look, and is still among all the figures that are looked at: an end of
// which the result then says that it is no evidence would be none. in.Rule must be
// live.
func Decided(in Input, least, most int) Plan {
	in.defaults()
	have := Complete(in)
	title := judge.Title(in.Decides, Key{}.Of())
	p := Plan{Rounds: most, Done: have >= most, Why: fmt.Sprintf("%s is not decided of every setting", title)}
	if have < max(least, liveLeast) {
		p.Why = fmt.Sprintf("%s at least", rounds(max(least, liveLeast)))
		return p
	}
	t := tabulate(in.Runs)
	rows := make([]Row, 0, len(in.Contrasts))
	for _, c := range in.Contrasts {
		rows = append(rows, t.row(&in, Key{}, c))
	}
	Conclude(in, rows)
	for i := range rows {
		m := rows[i].Of(in.Decides)
		if m == nil || m.Verdict == judge.TooLittle || m.Verdict == judge.NoEvidence && !m.Estimate.within(in.margin(m.Name), in.Level) {
			return p
		}
	}
	return Plan{Rounds: have, Done: true, Decided: have < most, Why: fmt.Sprintf("%s is decided of every setting, by intervals that hold at every look", title)}
}

// first are the runs of the first n complete rounds.
func (in *Input) first(n int) []Run {
	t := tabulate(in.Runs)
	var out []Run
	for _, round := range t.rounds {
		if len(t.all[round]) < len(in.Settings) {
			continue
		}
		if n--; n < 0 {
			break
		}
		for s := range in.Settings {
			out = append(out, *t.runs[[2]int{round, s}])
		}
	}
	return out
}

// Complete is the number of rounds that have every setting.
func Complete(in Input) int {
	n := 0
	for _, settings := range tabulate(in.Runs).all {
		if len(settings) == len(in.Settings) {
			n++
		}
	}
	return n
}
