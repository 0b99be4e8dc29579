package marks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// measures that a mark is judged by: few, so that little is lost to looking at
// many, and none that another contains.
var measures = []string{"p50", "p95", "p99", "p99.9", "errors", judge.Rate}

// Of a service all operations and tenants are looked at, and mostRows of either kept.
const (
	allRows  = 500
	mostRows = 10
)

// A service has four families of figures: its measures, those of its operations, of its
// tenants, and of its cohorts. In each the false discovery rate is controlled at a quarter of 5 %,
// so that where nothing changed something is found in at most 5 of 100 marks.
// Services of one mark are families among which some are selected, see stat.AmongFamilies.
const (
	discovery = 0.05
	families  = 4
)

func (s sides) warnings(out []api.CompareWarning) []api.CompareWarning {
	for _, c := range []struct {
		side, by string
		span
	}{{"before", s.cutBefore, s.before}, {"after", s.cutAfter, s.after}} {
		if c.by == "" {
			continue
		}
		text := fmt.Sprintf("the time %s is %s only, because of %s", c.side, inMinutes(c.end-c.start), c.by)
		if c.end-c.start <= fewest*slot && strings.HasPrefix(c.by, "the mark") {
			text = fmt.Sprintf("the time %s is only as long as it must be, %s: %s may lie within it", c.side, inMinutes(c.end-c.start), c.by)
		}
		out = append(out, api.CompareWarning{Code: "cut", Text: text})
	}
	if s.near != "" {
		out = append(out, api.CompareWarning{Code: "near", Text: "what is said may be of " + s.near + ", too near the mark to be told apart from it"})
	}
	if len(s.rollouts) > 0 {
		out = append(out, api.CompareWarning{Code: "near", Text: "what is said may be of " + figure.Listed(s.rollouts) + ", within the time after"})
	}
	return out
}

func inMinutes(seconds int64) string {
	if seconds%60 == 0 {
		return fmt.Sprintf("%d min", seconds/60)
	}
	return fmt.Sprintf("%d min %d s", seconds/60, seconds%60)
}

func emptyVerdict(service string, s sides) api.ServiceVerdict {
	return api.ServiceVerdict{
		Service: service, Before: api.Range{Start: s.before.start, End: s.before.end}, After: api.Range{Start: s.after.start, End: s.after.end},
		Together: s.names(), Outage: s.outage, Then: s.then, Measures: []api.CompareMeasure{}, Operations: []api.CompareRow{}, Tenants: []api.CompareRow{}, Cohorts: []api.CompareRow{}, Shapes: []api.Shape{}, Warnings: s.warnings([]api.CompareWarning{}),
	}
}

func tooLittle(service string, s sides, why string) api.ServiceVerdict {
	v := emptyVerdict(service, s)
	v.Verdict, v.Sentence = judge.TooLittle, "too little data to judge "+service+": "+why
	return v
}

// ofAMark says of the sides of a mark what they are.
var ofAMark = strings.NewReplacer("than on side A", "than before", "on side A", "before", "on side B", "after", "side A", "before", "side B", "after")

// serviceVerdict takes over what a comparison found.
func serviceVerdict(service string, s sides, r *api.CompareResponse) api.ServiceVerdict {
	v := emptyVerdict(service, s)
	v.Before, v.After = r.A.Range, r.B.Range
	v.Measures = append(v.Measures, r.Measures...)
	v.Operations = append(v.Operations, r.Operations...)
	of := map[string]int{}
	for _, row := range r.Tenants {
		if math.IsNaN(float64(row.Adjusted)) {
			continue
		}
		v.TenantsJudged++
		of[row.Cohort]++
		v.Tenants = append(v.Tenants, row)
	}
	v.TenantsRest = string(compare.RestOf(v.Tenants, func(row *api.CompareRow, m *api.CompareMeasure) bool {
		return slices.ContainsFunc(changedOfRow(row), func(x api.CompareMeasure) bool { return x.Name == m.Name })
	}))
	for _, row := range r.Cohorts {
		if math.IsNaN(float64(row.Adjusted)) {
			continue
		}
		v.CohortsJudged++
		row.TenantsJudged = of[row.Cohort]
		v.Cohorts = append(v.Cohorts, row)
	}
	for _, w := range r.Warnings {
		if w.Code == "season" { // without how to ask for it
			w.Text, _, _ = strings.Cut(w.Text, ", b=")
		}
		w.Text = ofAMark.Replace(w.Text)
		v.Warnings = append(v.Warnings, w)
	}
	v.Shapes, v.Hints = append(v.Shapes, r.Shapes...), r.Hints
	v.Verdict, v.Sentence = r.Verdict, r.Sentence
	switch {
	case weigh(&v):
	case slices.ContainsFunc(v.Measures, func(m api.CompareMeasure) bool { return m.Change != "" }):
		demote(&v) // an interval that leaves out 1, not sure enough among all
	case r.Verdict == judge.TooLittle:
		// Errors alone may have been judged: what could not be is what is said.
		if i := slices.IndexFunc(v.Measures, func(m api.CompareMeasure) bool { return m.Verdict == judge.TooLittle }); i >= 0 {
			v.Sentence = v.Measures[i].Sentence
		}
	}
	v.Sentence = ofAMark.Replace(v.Sentence)
	return v
}

// weigh keeps the operations, tenants and cohorts that changed, those first that matter most,
// and says what was found; false if nothing was, surely enough.
func weigh(v *api.ServiceVerdict) bool {
	found := changedOf(v.Measures)
	for _, rows := range []*[]api.CompareRow{&v.Operations, &v.Tenants, &v.Cohorts} {
		kept := []api.CompareRow{}
		for _, row := range *rows {
			if of := changedOfRow(&row); len(of) > 0 {
				row.Changed = true
				found, kept = append(found, of...), append(kept, row)
			}
		}
		slices.SortStableFunc(kept, func(x, y api.CompareRow) int {
			return cmp.Or(cmp.Compare(failed(&y), failed(&x)), cmp.Compare(moved(&y), moved(&x)))
		})
		*rows = kept
	}
	if len(found) == 0 {
		return false
	}
	var sum judge.Sum
	for _, m := range found {
		sum.Add(m.Verdict, m.Change)
	}
	v.Verdict = sum.Verdict()
	v.Sentence, v.Lead = say(v)
	return true
}

// moved is how much time an operation's requests after the mark take more or
// less for it, in seconds. When a machine was busy all operations waited for
// the one that kept it so, and the quickest became the most times as quick.
func moved(row *api.CompareRow) float64 {
	if v := float64(row.RequestsB) * math.Abs(float64(row.MeanB-row.MeanA)); !math.IsNaN(v) {
		return v
	}
	return 0 // then the order is that of the comparison
}

// failed returns how many more requests of a row failed after the mark, by its rise of
// errors; 0 if they did not rise.
func failed(row *api.CompareRow) float64 {
	for _, m := range changedOfRow(row) {
		if compare.MoreErrors(&m) {
			return float64(row.RequestsB) * float64(m.Judged().Effect)
		}
	}
	return 0
}

// changedOf are the measures that changed, surely enough among their family.
func changedOf(measures []api.CompareMeasure) (out []api.CompareMeasure) {
	for _, m := range measures {
		if m.Change != "" && sure(&m) {
			out = append(out, m)
		}
	}
	return out
}

// sure reports whether a measure is sure enough among its family.
func sure(m *api.CompareMeasure) bool { return float64(m.Adjusted) <= discovery/families }

// changedOfRow returns the measures of an operation or a tenant that changed, surely
// enough. Of a tenant or a cohort, which may have few requests, some must lie beyond the
// quantile, and of either some must have failed.
func changedOfRow(row *api.CompareRow) []api.CompareMeasure {
	return slices.DeleteFunc(changedOf(row.Measures), func(m api.CompareMeasure) bool {
		return (row.Tenant != "" || row.Cohort != "" || m.Name == judge.ErrorShare) && !compare.Enough(row, &m)
	})
}

// demote takes back a finding that is not sure enough among all that was looked at.
func demote(v *api.ServiceVerdict) {
	v.Verdict, v.Lead, v.Operations, v.Tenants, v.Cohorts = judge.NoEvidence, "", []api.CompareRow{}, []api.CompareRow{}, []api.CompareRow{}
	v.Sentence = "no evidence that " + v.Service + " changed: what differs is no more than chance shows among so many figures"
}

// say names the measure that stands for those of the service that changed, and the
// operation of which that matters most; before them the cohort that changed as a whole, or
// else, if at most half of the tenants changed, the tenant of which it matters most. More
// errors of the service come first. Lead is the name of the measure of the service that it
// begins with, empty if it begins with another.
func say(v *api.ServiceVerdict) (sentence, lead string) {
	var said []string
	n := len(v.Tenants)
	reach := compare.Reach{Judged: v.TenantsJudged, Sure: n, Rest: compare.Rest(v.TenantsRest)}
	reached, few := reach.Text("tenant", "changed"), reach.Few()
	whole := tell(changedOf(v.Measures))
	if whole != nil {
		lead = whole.Name
		said = append(said, compare.Say(changedOf(v.Measures), func(*api.CompareMeasure) bool { return true }, compare.DefaultWithin))
	}
	cohort := wholeCohort(v)
	if cohort != nil || few {
		at := 0
		if whole != nil && compare.MoreErrors(whole) {
			at = 1
		} else {
			lead = ""
		}
		who := ""
		if cohort != nil {
			who = tell(changedOfRow(cohort)).Sentence
		} else {
			who = reached + ", most of all " + tell(changedOfRow(&v.Tenants[0])).Sentence
		}
		said = slices.Insert(said, at, who)
	}
	if len(v.Operations) > 0 {
		row := &v.Operations[0]
		switch s := tell(changedOfRow(row)).Sentence; {
		case len(said) == 0:
			said = append(said, s)
		case row.Operation != "" && whole != nil && !few && cohort == nil:
			said = append(said, "of its operations most of all "+s)
		}
	}
	switch {
	case len(said) > 0:
	case n > 1: // most tenants, and nothing else
		said = append(said, reached+", most of all "+tell(changedOfRow(&v.Tenants[0])).Sentence)
	default:
		said = append(said, tell(changedOfRow(&slices.Concat(v.Tenants, v.Cohorts)[0])).Sentence)
	}
	if i := slices.IndexFunc(v.Cohorts, func(row api.CompareRow) bool { return row.Alone != "" }); len(v.Tenants) == 0 && i >= 0 {
		said = append(said, fmt.Sprintf("most of what changed of the cohort %s is of %s alone", v.Cohorts[i].Cohort, v.Cohorts[i].Alone))
	}
	text := strings.Join(said, "; ")
	first, last := judge.Leading(v.Verdict)
	if last == "" {
		return text, lead
	}
	m, ofService := leading(v, first)
	if m == nil || strings.Contains(text, m.Sentence) {
		return text, lead
	}
	if lead = ""; ofService {
		lead = m.Name
	}
	return m.Sentence + "; " + text, lead
}

// leading returns the measure that stands for what went a way, of the service if it did, else
// of what matters most of its operations, tenants and cohorts; nil if nothing did.
func leading(v *api.ServiceVerdict, way judge.Way) (m *api.CompareMeasure, ofService bool) {
	got := func(found []api.CompareMeasure) *api.CompareMeasure {
		return tell(slices.DeleteFunc(found, func(m api.CompareMeasure) bool { return m.Change != way }))
	}
	if m := got(changedOf(v.Measures)); m != nil {
		return m, true
	}
	for _, rows := range [][]api.CompareRow{v.Operations, v.Tenants, v.Cohorts} {
		for i := range rows {
			if m := got(changedOfRow(&rows[i])); m != nil {
				return m, false
			}
		}
	}
	return nil, false
}

// wholeCohort returns the cohort to name in place of tenants: that of which a change matters
// most, if at most half of the cohorts changed and it did not for single tenants, see
// compare.OfSingleTenants. It is nil if there is none.
func wholeCohort(v *api.ServiceVerdict) *api.CompareRow {
	if 2*len(v.Cohorts) > v.CohortsJudged {
		return nil
	}
	for i := range v.Cohorts {
		row, n := &v.Cohorts[i], 0
		for _, tenant := range v.Tenants {
			if tenant.Cohort == row.Cohort {
				n++
			}
		}
		if !compare.OfSingleTenants(row, n, row.TenantsJudged) {
			return row
		}
	}
	return nil
}

// tell chooses the measure to speak of; nil if there is none.
func tell(found []api.CompareMeasure) *api.CompareMeasure {
	return compare.Lead(found, func(*api.CompareMeasure) bool { return true }, compare.DefaultWithin)
}

// least is the least probability of a service, adjusted for all its figures;
// NaN if nothing was judged.
func least(v *api.ServiceVerdict) float64 {
	p := math.NaN()
	take := func(q api.Float) {
		if !math.IsNaN(float64(q)) && !(p <= float64(q)) {
			p = float64(q)
		}
	}
	for i := range v.Measures {
		if m := &v.Measures[i]; m.Name != judge.Rate || m.Change != "" { // a rate that moved says nothing by itself
			take(m.Adjusted)
		}
	}
	for _, rows := range [][]api.CompareRow{v.Operations, v.Tenants, v.Cohorts} {
		for i := range rows {
			take(rows[i].Adjusted)
		}
	}
	return min(1, families*p)
}
