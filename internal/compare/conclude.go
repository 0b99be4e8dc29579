package compare

import (
	"cmp"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/series"
	"tailscope/stat"
)

// sureRow is the greatest adjusted probability of a row's measure that counts in the
// verdict of all, and sureBeyond how many requests of each side then lie beyond its
// quantile at least, or have failed on both sides together. Both are strict, so that the
// lists beside the measures add at most a hundredth to how often a verdict is wrong: so far
// out in its tail the distribution of a figure of few requests is not Student's.
const (
	sureRow    = 0.002
	sureBeyond = 30
)

// conclude says what all measures amount to, with the rows of the lists that surely
// changed. Nine measures find something more often than one does, so a change counts
// here by its adjusted probability. What is known of errors alone is too little,
// unless nothing else was asked for.
func (c *comparison) conclude() {
	c.takeBack()
	for _, list := range [][]api.CompareRow{c.out.Operations, c.out.Tenants} {
		c.driftTogether(list)
	}
	c.agreeRows()
	var moved, rest judge.Sum
	known := len(c.out.Measures) == 1
	for i := range c.out.Measures {
		m := &c.out.Measures[i]
		switch {
		case c.aside(m) || m.Verdict == judge.TooLittle:
			continue
		case c.found(m):
			moved.Add(judge.Changed, m.Change)
		case m.Verdict == judge.Same || m.Verdict == judge.WithinTolerance:
			rest.Add(m.Verdict, "")
		case drifts(m):
			rest.Add(judge.Drifts, "")
		default:
			rest.Add(judge.NoEvidence, "")
		}
		known = known || m.Name != judge.ErrorShare
	}
	for r, m := range c.rowMeasuresOf() {
		if sure(r, m) {
			moved.Add(judge.Changed, m.Change)
		}
	}
	if c.out.Verdict = moved.Verdict(); c.out.Verdict == judge.TooLittle && known {
		c.out.Verdict = rest.Verdict()
	}
	c.lasting = c.headline(rest.Verdict())
	c.out.Sentence = c.lasting
	c.nameLight()
}

// rowList is a list of rows beside the measures of all.
type rowList struct {
	rows []api.CompareRow
	noun string // of one of its rows
}

// rowLists returns the lists, that which a sentence names rows of first.
func (c *comparison) rowLists() []rowList {
	operation := "operation"
	if c.kind != ofSpans {
		operation = "label"
	}
	return []rowList{{c.out.Tenants, "tenant"}, {c.out.Operations, operation}, {c.lightRows, "group"}, {c.out.Cohorts, "cohort"}}
}

// rowMeasuresOf goes through all measures of all rows.
func (c *comparison) rowMeasuresOf() iter.Seq2[*api.CompareRow, *api.CompareMeasure] {
	return func(yield func(*api.CompareRow, *api.CompareMeasure) bool) {
		for _, list := range c.rowLists() {
			for i := range list.rows {
				for j := range list.rows[i].Measures {
					if !yield(&list.rows[i], &list.rows[i].Measures[j]) {
						return
					}
				}
			}
		}
	}
}

// agreeRows makes rows agree with the verdict of all. A row that is less than sure keeps its
// change where all changed in its way, or where another row surely did and enough of its own
// requests lie beyond the quantile. Else it is no evidence, as the headline says.
func (c *comparison) agreeRows() {
	all, some := map[judge.Way]bool{}, map[judge.Way]bool{}
	for i := range c.out.Measures {
		if m := &c.out.Measures[i]; c.found(m) {
			all[m.Change] = true
		}
	}
	for r, m := range c.rowMeasuresOf() {
		some[m.Change] = some[m.Change] || sure(r, m)
	}
	for r, m := range c.rowMeasuresOf() {
		if judge.Moved(m.Verdict) && !all[m.Change] && !(some[m.Change] && Enough(r, m)) && !c.RowsApart {
			c.noEvidence(m, c.titleOf(r))
		}
	}
	for _, list := range c.rowLists() {
		for i := range list.rows {
			r := &list.rows[i]
			r.Changed = slices.ContainsFunc(r.Measures, func(m api.CompareMeasure) bool { return c.found(&m) })
		}
		slices.SortStableFunc(list.rows, func(x, y api.CompareRow) int {
			switch {
			case x.Changed == y.Changed:
				return 0
			case x.Changed:
				return -1
			}
			return 1
		})
	}
}

// takeBack makes what changed by itself, but not surely enough among all that was looked at
// beside it, no evidence, so that a list says of each figure what its headline is made of. A
// figure that drifts with the load is told so only where the load may be all of it.
func (c *comparison) takeBack() {
	for i := range c.out.Measures {
		c.Chosen.adjust(&c.out.Measures[i])
	}
	for _, m := range c.rowMeasuresOf() {
		c.Chosen.adjust(m)
	}
	for i := range c.out.Measures {
		if m := &c.out.Measures[i]; judge.Moved(m.Verdict) && !c.found(m) && !c.aside(m) {
			c.noEvidence(m, c.out.Of)
		}
	}
	for r, m := range c.rowMeasuresOf() {
		if judge.Moved(m.Verdict) && !c.found(m) {
			c.noEvidence(m, c.titleOf(r))
		}
	}
	for i := range c.out.Measures {
		m := &c.out.Measures[i]
		if m.Verdict != judge.Drifts || !m.Judged().ByLoad {
			continue
		}
		var beside []string
		for j := range c.out.Measures {
			if x := &c.out.Measures[j]; x.Scale == m.Scale && c.found(x) && x.Name != judge.Rate && (effectOf(x) > 0) == (effectOf(m) > 0) {
				beside = append(beside, judge.Title(x.Name, ""))
			}
		}
		if len(beside) > 0 {
			found := c.finding(c.measureOf(m), c.out.Of, m.Judged())
			found.Beside = beside
			m.Sentence = found.Sentence()
		}
	}
}

// driftTogether makes the rows of a list drift in a measure that drifts as a whole, where they
// may all have moved as it did: what makes the whole wander makes its parts wander, and of
// fewer requests that is seen less.
func (c *comparison) driftTogether(list []api.CompareRow) {
	for i := range c.out.Measures {
		whole := &c.out.Measures[i]
		if whole.Verdict != judge.Drifts {
			continue
		}
		way := func(m *api.CompareMeasure) bool { return (effectOf(m) > 0) == (effectOf(whole) > 0) }
		reach := ReachOf(list, whole.Name, func(r *api.CompareRow, m *api.CompareMeasure) bool { return sure(r, m) && way(m) })
		if reach.Sure == 0 || reach.Few() && reach.Rest == RestStays {
			continue
		}
		low, high := whole.Judged().Low, whole.Judged().High
		for j := range list {
			for k := range list[j].Measures {
				m := &list[j].Measures[k]
				if m.Name != whole.Name || !judge.Moved(m.Verdict) || !way(m) || m.Judged().Low > high || m.Judged().High < low {
					continue
				}
				found := c.weaken(m, c.titleOf(&list[j]), judge.Drifts)
				m.Sentence = found.Sentence()
			}
		}
	}
}

// titleOf names the row of a list in a sentence.
func (c *comparison) titleOf(r *api.CompareRow) string {
	switch {
	case r.Tenant != "":
		return c.of + " for " + r.Tenant
	case r.Cohort != "":
		return c.of + " for " + r.Cohort + " tenants"
	case r.Tenants > 0:
		return c.of + " for " + lightTenants(r)
	case c.kind == ofNumbers:
		return c.of + " where " + r.Operation
	}
	return orNone(cmp.Or(r.Operation, r.Service))
}

// measureOf returns what a measure of the answer is of.
func (c *comparison) measureOf(m *api.CompareMeasure) measure {
	all := c.measuresOf()
	if i := slices.IndexFunc(all, func(of measure) bool { return of.Name == m.Name }); i >= 0 {
		return all[i]
	}
	return measure{Figure: judge.Figure{Name: m.Name, Ratio: m.Scale == scaleName(stat.LogRatio)}}
}

func (c *comparison) noEvidence(m *api.CompareMeasure, of string) {
	found := c.weaken(m, of, judge.NoEvidence)
	m.Sentence = found.Claim()
}

// weaken gives a measure that changed by itself a verdict that claims no change, and returns
// the finding that its sentence is of.
func (c *comparison) weaken(m *api.CompareMeasure, of string, v judge.Verdict) *judge.Finding {
	found := c.finding(c.measureOf(m), of, m.Judged())
	found.Verdict, found.Between, found.Gate = v, m.Between, nil
	m.Verdict, m.Change = v, ""
	return found
}

// TakeBack makes a measure of requests no evidence where it is not sure enough among more
// than it was compared with. Of is whose measure it is; intervals are of DefaultLevel.
func TakeBack(m *api.CompareMeasure, of string) {
	c := comparison{Request: Request{Level: DefaultLevel, Within: DefaultWithin}}
	c.Family = series.SpanDuration
	c.noEvidence(m, of)
}

// sure says that a measure of a row changed, allowing for all rows.
func sure(r *api.CompareRow, m *api.CompareMeasure) bool {
	return judge.Moved(m.Verdict) && float64(m.Adjusted) <= sureRow && Enough(r, m)
}

// Enough says that enough requests of each side of a row lie beyond the quantile that
// a measure is of, or that enough failed where it is the share of errors.
func Enough(r *api.CompareRow, m *api.CompareMeasure) bool {
	i := slices.IndexFunc(measures, func(of measure) bool { return of.Name == m.Name })
	of := func(requests, effective uint64) uint64 {
		if effective > 0 {
			return effective
		}
		return requests
	}
	a, b := of(r.RequestsA, r.EffectiveA), of(r.RequestsB, r.EffectiveB)
	if m.Name == judge.ErrorShare {
		return float64(m.Raw.A)*float64(a)+float64(m.Raw.B)*float64(b) >= sureBeyond
	}
	least := min(a, b)
	return i < 0 || measures[i].q == 0 || float64(least)*(1-measures[i].q) >= sureBeyond
}

// found says that a measure changed, allowing for how many there are.
func (c *comparison) found(m *api.CompareMeasure) bool {
	return judge.Moved(m.Verdict) && float64(m.Adjusted) <= discovery && !c.aside(m)
}

// drifts says that a measure changed as it may by itself, allowing for how many there are.
func drifts(m *api.CompareMeasure) bool {
	return m.Verdict == judge.Drifts && float64(m.Adjusted) <= discovery
}

// headline is the sentence of the measure that stands for all. What got worse comes first,
// what got better last. Where a few tenants or operations changed and most did not, theirs
// comes first, but behind errors of all that became more. Whole is the verdict of the
// measures that did not change.
func (c *comparison) headline(whole judge.Verdict) string {
	way, other := judge.Leading(c.out.Verdict)
	found := func(way judge.Way) func(*api.CompareMeasure) bool {
		return func(m *api.CompareMeasure) bool { return m.Change == way && c.found(m) }
	}
	lead := leadOf(c.out.Measures, found(way), c.Within)
	last := ""
	if other != "" {
		if m := leadOf(c.out.Measures, found(other), c.Within); m != nil {
			whole, last = "", "but "+m.Sentence // all of it did change
		} else if row := c.rowSentence(other); row != "" {
			last = "but " + row
		}
	}
	var said []string
	few := c.few(way, lead != nil)
	if few != "" {
		said = append(said, few)
	}
	var mix *Mix
	if !judge.Moved(c.out.Verdict) && c.fineA != nil && c.likeForLike() != nil {
		mix = c.mix()
	}
	switch {
	case lead != nil && MoreErrors(lead):
		said = slices.Insert(said, 0, Say(c.out.Measures, c.found, c.Within))
	case lead != nil:
		said = append(said, Say(c.out.Measures, c.found, c.Within))
	case few != "":
		said = append(said, c.asAWhole(whole)...)
	case mix != nil:
		said = append(said, mix.Text(c.out.Of), "like for like "+c.likeForLike().Sentence)
	case !judge.Moved(c.out.Verdict):
		if lead = leadOf(c.out.Measures, func(m *api.CompareMeasure) bool { return m.Verdict == c.out.Verdict && !c.aside(m) }, c.Within); lead != nil {
			said = append(said, lead.Sentence)
		}
	default:
		said = append(said, c.most(way))
	}
	if last != "" {
		said = append(said, last)
	}
	if len(said) == 0 {
		if sides := c.nameSides(); sides != "" {
			return "no evidence of a difference between " + sides + ", as many measures were looked at"
		}
		return "no evidence of a change, as many measures were looked at"
	}
	return strings.Join(said, "; ")
}

// asAWhole says of measures of all that did not change what they amount to; nothing of an
// empty verdict.
func (c *comparison) asAWhole(v judge.Verdict) []string {
	of := c.out.Of
	switch v {
	case "":
		return nil
	case judge.TooLittle:
		return []string{"too little data to judge " + of + " as a whole"}
	case judge.WithinTolerance:
		return []string{of + " as a whole is within tolerance"}
	case judge.Drifts:
		return []string{of + " as a whole may only drift"}
	case judge.Same:
		return []string{of + " as a whole is the same"}
	}
	return []string{"no evidence that " + of + " " + judge.Differs(c.nameSides()) + " as a whole"}
}

// likeForLike returns the measure of those that the mix explains that stands for them; nil
// if there is none.
func (c *comparison) likeForLike() *api.CompareMeasure {
	return leadOf(c.out.Measures, ByMix, c.Within)
}

// few is the sentence of the tenant, else of the operation, that surely changed the most in a
// way, if at most half of its list did; empty if there is none. Where all changed in that way
// that covers the other rows, else it counts them.
func (c *comparison) few(way judge.Way, all bool) string {
	for _, list := range c.rowLists()[:2] {
		if reach, _ := c.reach(list.rows, way); reach.Few() {
			r, said := c.sentenceOf(list.rows, way)
			if !all {
				said += c.beside(way, r, "")
			}
			return said
		}
	}
	return ""
}

// most says for which rows of a list a measure went a way, where it is more than a few.
func (c *comparison) most(way judge.Way) string {
	lists := c.rowLists()
	for _, list := range []rowList{lists[1], lists[0]} {
		if reach, m := c.reach(list.rows, way); m != nil && reach.Judged >= 2 && c.kind == ofSpans {
			return fmt.Sprintf("%s is %s for %s", judge.Title(m.Name, c.out.Of), (&judge.Finding{Verdict: m.Verdict}).Adjective(), reach.Text(list.noun, "")) + c.beside(way, nil, list.noun)
		}
	}
	return c.rowSentence(way)
}

// beside counts the rows that changed in a way besides one that is named, and besides those of
// a list that is counted already. A single one is named. It is empty if there are none.
func (c *comparison) beside(way judge.Way, named *api.CompareRow, counted string) string {
	var words []string
	for _, list := range c.rowLists() {
		if list.noun == counted {
			continue
		}
		n, other := 0, ""
		var last *api.CompareRow
		for i := range list.rows {
			switch r := &list.rows[i]; {
			case r == named:
				other = "other "
			case c.wentIn(r, way):
				n, last = n+1, r
			}
		}
		switch {
		case n == 1:
			words = append(words, c.nameOf(last))
		case n > 1:
			words = append(words, figure.Counted(n, other+list.noun))
		}
	}
	if len(words) == 0 {
		return ""
	}
	did := map[judge.Way]string{judge.Worse: "got worse", judge.Better: "got better"}[way]
	return "; " + figure.Listed(words) + " " + cmp.Or(did, "changed") + " as well"
}

// wentIn reports whether a measure of a row changed in a way.
func (c *comparison) wentIn(r *api.CompareRow, way judge.Way) bool {
	return slices.ContainsFunc(r.Measures, func(m api.CompareMeasure) bool { return m.Change == way && c.found(&m) })
}

// nameOf names a row among those of its list.
func (c *comparison) nameOf(r *api.CompareRow) string {
	switch {
	case r.Tenant != "":
		return r.Tenant
	case r.Cohort != "":
		return r.Cohort + " tenants"
	case r.Tenants > 0:
		return lightTenants(r)
	}
	return orNone(cmp.Or(r.Operation, r.Service))
}

// effectOf is the effect on a measure on the scale on which effects add up.
func effectOf(m *api.CompareMeasure) float64 {
	of := float64(m.Judged().Effect)
	if m.Scale == scaleName(stat.LogRatio) {
		of = math.Log(of)
	}
	return of
}

// firstLead is the measure that stands for the first row that surely changed in a way; nil
// if none did.
func firstLead(list []api.CompareRow, way judge.Way, within float64) *api.CompareMeasure {
	for i := range list {
		if m := rowLead(&list[i], way, within); m != nil {
			return m
		}
	}
	return nil
}

// rowSentence is the sentence of the row that surely changed the most in a way, with those
// that did beside it.
func (c *comparison) rowSentence(way judge.Way) string {
	for _, list := range c.rowLists() {
		if r, said := c.sentenceOf(list.rows, way); r != nil {
			return said + c.beside(way, r, "")
		}
	}
	return ""
}

// sentenceOf returns the first row of a list that surely changed in a way, and its sentence;
// nil if none did.
func (c *comparison) sentenceOf(list []api.CompareRow, way judge.Way) (*api.CompareRow, string) {
	for i := range list {
		r := &list[i]
		m := rowLead(r, way, c.Within)
		if m == nil {
			continue
		}
		if r.Operation == "" || r.Service == "" || c.kind != ofSpans {
			return r, m.Sentence
		}
		found := c.finding(c.measureOf(m), r.Operation+" of "+r.Service, m.Judged())
		found.Between = m.Between
		return r, found.Claim()
	}
	return nil, ""
}

// rowLead is the measure that stands for a row that surely changed in a way.
func rowLead(r *api.CompareRow, way judge.Way, within float64) *api.CompareMeasure {
	return leadOf(r.Measures, func(m *api.CompareMeasure) bool { return m.Change == way && sure(r, m) }, within)
}

// Say returns the sentence of the measure that stands for those found to have changed.
// Where both errors and times got worse it says both, errors first.
func Say(of []api.CompareMeasure, found func(*api.CompareMeasure) bool, within float64) string {
	worse := func(of []api.CompareMeasure, errors bool) *api.CompareMeasure {
		return leadOf(of, func(m *api.CompareMeasure) bool {
			return m.Change == judge.Worse && (m.Name == judge.ErrorShare) == errors && m.Name != judge.Apdex && found(m)
		}, within)
	}
	if failed, slow := worse(of, true), worse(of, false); failed != nil && slow != nil {
		return failed.Sentence + ", and " + slow.Sentence
	}
	return Lead(of, found, within).Sentence
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

// MoreErrors reports whether a measure is a share of errors that rose.
func MoreErrors(m *api.CompareMeasure) bool {
	return m.Name == judge.ErrorShare && m.Change == judge.Worse
}

// leadOf returns the candidate that stands for all: a share of errors that rose before any
// time, as a request that failed is worse than one that was slow, a quantile between two
// bumps only if there is no other, and Apdex, which says no time, if there is not even that.
func leadOf(of []api.CompareMeasure, candidate func(*api.CompareMeasure) bool, within float64) *api.CompareMeasure {
	if i := slices.IndexFunc(of, func(m api.CompareMeasure) bool { return MoreErrors(&m) && candidate(&m) }); i >= 0 {
		return &of[i]
	}
	last := func(m *api.CompareMeasure) int {
		switch {
		case m.Name == judge.Apdex:
			return 2
		case m.Between != nil:
			return 1
		}
		return 0
	}
	for place := range 3 {
		lead := judge.Lead(of, judge.Reading, func(m *api.CompareMeasure) string {
			if last(m) != place || !candidate(m) {
				return ""
			}
			return m.Name
		}, func(m *api.CompareMeasure) (float64, float64) { return margins(m, within) })
		if lead != nil {
			return lead
		}
	}
	return nil
}

// margins is how large the change of a measure seems, and how large it is at least,
// see judge.Finding.
func margins(m *api.CompareMeasure, within float64) (seems, certain float64) {
	if b := m.Between; b != nil {
		return (&judge.Finding{Effect: float64(b.B - b.A), Low: float64(b.Low), High: float64(b.High), Margin: within}).Margins()
	}
	f := m.Judged()
	of := judge.Finding{Effect: float64(f.Effect), Low: float64(f.Low), High: float64(f.High), Margin: within}
	if of.Ratio = m.Scale == scaleName(stat.LogRatio); !of.Ratio {
		of.Margin = 0
		if i := slices.IndexFunc(measures, func(of measure) bool { return of.Name == m.Name }); i >= 0 {
			of.Margin = measures[i].margin
		}
	}
	return of.Margins()
}

// aside says that a measure does not count in the verdict of all: how often something was
// observed says nothing of what was. A rate of requests counts where a gate names it, and
// where they nearly stop.
func (c *comparison) aside(m *api.CompareMeasure) bool {
	if m.Name != judge.Rate || c.kind == ofNumbers || len(c.out.Measures) == 1 {
		return false
	}
	_, gated := c.gateOfRate()
	return c.kind == ofObservations || !gated && m.Change == ""
}
