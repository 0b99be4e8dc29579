package explain

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/series"
)

// longer is the next step where there are too few requests.
const longer = "draw a longer rectangle"

func (q *question) note(format string, args ...any) {
	q.out.Notes = append(q.out.Notes, fmt.Sprintf(format, args...))
}

// sentence returns the text of an item: tenant acme: 62 % of the requests inside, 4.1 %
// outside (+58 points, 95 % interval 51 … 64).
func (q *question) sentence(v *values, c *candidate, i *api.ExplainItem) string {
	s := fmt.Sprintf("%s: %s of the %s inside, %s outside %s", Title(v.labels(c.a, c.b)), percent(float64(i.InsideShare)), q.what, percent(float64(i.OutsideShare)), points(i))
	if len(i.Through) > 0 {
		for name, value := range i.Through {
			if _, ok := i.Labels[name]; !ok {
				s += "; only with " + labelText(name, value)
			}
		}
	}
	return s
}

// sentence returns the text of item n: tenant acme: 31 % of its requests are inside, 12 %
// were before (+19 points, 95 % interval 15 … 23), 34 % of the increase.
func (x *causes) sentence(n int) string {
	i := &x.items[n]
	title, its := Title(i.Labels), "its "+x.what
	switch {
	case title == "" && n > 0:
		title, its = "all other "+x.what, "them"
	case title == "":
		title, its = "all "+x.what, "them"
		var but []string
		for _, other := range x.items[1:] {
			but = append(but, Title(other.Labels))
		}
		if len(but) > 0 {
			title += " but those of " + strings.Join(but, " and of ")
		}
	}
	return fmt.Sprintf("%s: %s of %s %s%s, %s %s before %s%s", title, percent(float64(i.InsideShare)), its, x.are, x.when(i), percent(float64(i.OutsideShare)), x.were, points(i), x.ofIncrease(i))
}

// when returns the time of most of an item's increase, and its share then.
func (x *causes) when(i *api.ExplainItem) string {
	w := i.When
	switch {
	case w == nil:
		return ""
	case w.End >= x.out.To:
		return fmt.Sprintf(" (%s since %s)", percent(float64(w.Share)), clock(w.Start))
	}
	return fmt.Sprintf(" (%s %s)", percent(float64(w.Share)), fromTo(w.Start, w.End))
}

// ofIncrease returns what an item accounts for of the increase, unless it is of all requests.
func (x *causes) ofIncrease(i *api.ExplainItem) string {
	switch {
	case i.Part == 0 || len(i.Labels) == 0 && len(x.items) == 1:
		return ""
	case OthersDecreased(i):
		return ", more than the increase: others decreased"
	}
	return ", " + figure.Percent(min(1, float64(i.Part))) + " of the increase"
}

// OthersDecreased reports whether an item has more than all of the increase, beyond what noise
// makes of all of it.
func OthersDecreased(i *api.ExplainItem) bool { return i.Part > 1.1 }

// headline returns the first item's sentence, and whose the rest of the increase is.
func (x *causes) headline() string {
	const much = 0.1
	if len(x.items) == 0 {
		return ""
	}
	s, left := x.items[0].Sentence, 1-float64(x.items[0].Part)
	for i := range x.items[1:] {
		item := &x.items[1+i]
		left -= float64(item.Part)
		title := Title(item.Labels)
		if title == "" {
			title = "all others"
		}
		s += fmt.Sprintf("; %s is of %s", figure.Percent(float64(item.Part)), title)
	}
	switch {
	case slices.ContainsFunc(x.items, func(i api.ExplainItem) bool { return i.RestUnknown }):
		s += fmt.Sprintf("; it is not known whether more of the others %s as well: "+longer, x.are)
	case x.items[0].Part > 0 && left >= much:
		s += fmt.Sprintf("; the other %s is not explained", figure.Percent(left))
	}
	return s
}

// points returns an item's effect with its interval.
func points(i *api.ExplainItem) string {
	of := func(v api.Float) string { return figure.Points(float64(v)) }
	return fmt.Sprintf("(+%s points, %s interval %s)", of(i.Effect), figure.Percent(level), figure.Between(of(i.EffLow), of(i.EffHigh), ""))
}

// noteOwn notes operations that count from a threshold of their own, unless all do.
func (q *question) noteOwn() {
	const most = 3
	own := q.out.Before.Own
	if math.IsInf(q.band.low, -1) && math.IsInf(q.band.high, 1) {
		q.note("without a value above which it lies, what counts as slow are values that a quarter of its operation's %s exceeded before", q.what)
		return
	}
	for _, o := range own[:min(len(own), most)] {
		of := "the " + q.what
		if o.Operation != "" {
			of = labelText(series.LabelOperation, o.Operation)
		}
		of = judge.Where(of, o.Environment, "")
		unit := ""
		if q.span {
			unit = "seconds"
		}
		q.note("most of %s was inside before: of it only what is above %s counts, as a quarter was", of, figure.Value(float64(o.Above), unit))
	}
	if len(own) > most {
		q.note("so for %s more", figure.Counted(len(own)-most, "operation"))
	}
}

// conclude sets the answer's sentence where there are no items. It is empty if nothing could be
// judged.
func (q *question) conclude() {
	r, next, more := q.out, "; name another stretch before, or ask who is slow", ": "+longer
	if q.failing() {
		next, more = "", ""
	}
	switch {
	case len(r.Items) > 0: // said already
	case !q.judged: // a note says why
	case r.Inside == 0:
		r.Sentence = fmt.Sprintf("the rectangle is empty: it holds none of the %s of its time; draw one where there are some", q.what)
	case q.Against == Rest && r.LabelsTried > 0:
		r.Sentence = "nothing is over-represented: the rectangle looks like the rest; draw another, or ask who became slow"
	case q.Against == Rest:
		r.Sentence = "there is nothing to tell apart: every label has one value; take a filter off, or ask who became slow"
	case r.Low < 0 && !math.IsInf(float64(r.High), 1):
		r.Sentence = "nothing became more frequent here than it was " + fromTo(r.Before.Start, r.Before.End) + next
	case float64(r.Before.Now) >= least*float64(r.Before.Share):
		r.Sentence = fmt.Sprintf("it is not sure that anything became slower here: %s of the %s are inside, and %s were %s, but shares move as much by themselves%s", percent(float64(r.Before.Now)), q.what,
			percent(float64(r.Before.Share)), fromTo(r.Before.Start, r.Before.End), more)
	default:
		r.Sentence = "nothing became slower here than it was " + fromTo(r.Before.Start, r.Before.End) + next
	}
	e := r.Errors
	if e == nil {
		return
	}
	switch {
	case len(e.Items) > 0:
		if len(r.Items) == 0 {
			r.Sentence += "; but " + e.Sentence
		}
	case e.Failed == 0:
		e.Sentence = fmt.Sprintf("none of the %s of that time failed", q.what)
	case float64(e.Now) >= least*float64(e.Share):
		e.Sentence = fmt.Sprintf("it is not sure that more %s fail: %s do, and %s did %s, but shares move as much by themselves: "+longer, q.what, percent(float64(e.Now)), percent(float64(e.Share)), fromTo(e.Start, e.End))
	default:
		e.Sentence = fmt.Sprintf("no more %s fail than %s", q.what, fromTo(e.Start, e.End))
	}
}

// fromTo returns a range of time in words, its date once.
func fromTo(start, end int64) string {
	last := clock(end)
	if first := clock(start); first[:len(time.DateOnly)] == last[:len(time.DateOnly)] {
		last = last[len(time.DateOnly)+1:]
	}
	return "from " + strings.TrimSuffix(clock(start), " UTC") + " to " + last
}

// Title returns the names of labels: operation GET /search with tenant acme.
func Title(l api.Labels) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(l)) {
		parts = append(parts, labelText(name, l[name]))
	}
	return strings.Join(parts, " with ")
}

func labelText(name, value string) string {
	if value == "" {
		return "no " + name
	}
	return name + " " + value
}

// percent and points keep at least two digits: 62 %, 4.1 %, 0.04 %.
func percent(share float64) string { return figure.Points(share) + " %" }

// perhaps notes labels whose interval excludes 0, but of which one or another would by
// chance among so many.
func (q *question) perhaps(v *values, tried []*candidate) {
	const most = 3
	var names []string
	for _, c := range tried {
		if c.ok && c.low > 0 && c.adjusted > discovery && len(names) < most {
			names = append(names, fmt.Sprintf("%s (%s inside, %s outside)", Title(v.labels(c.a, c.b)), percent(c.effect.in), percent(c.effect.out)))
		}
	}
	if len(names) > 0 {
		q.note("perhaps %s: by itself it would stand out, but among so many labels one does by chance", strings.Join(names, ", "))
	}
}

// absent notes what is common outside and missing inside, and what is not known.
func (q *question) absent(v *values, singles []candidate, inside, outside float64) {
	const (
		enough = 100 // observations inside
		usual  = 0.1 // share outside
		nearly = 0.9
		most   = 3
	)
	var none []*candidate
	folded := 0.0
	full := map[string]bool{} // labels with one value for nearly all that is inside
	for i := range singles {
		if c := &singles[i]; c.in >= nearly*inside {
			full[v.list[c.a].Name] = true
		}
	}
	for i := range singles {
		c := &singles[i]
		if c.in == 0 && c.all >= usual*outside && !full[v.list[c.a].Name] {
			none = append(none, c)
		}
		if l := v.list[c.a]; l.Name == series.LabelTenant && l.Value == series.Other {
			folded = c.all / (inside + outside)
		}
	}
	if inside >= enough {
		slices.SortStableFunc(none, func(x, y *candidate) int { return int(math.Copysign(1, y.all-x.all)) })
		for _, c := range none[:min(len(none), most)] {
			q.note("nothing inside has %s (%s outside)", Title(v.labels(c.a, c.b)), percent(c.all/outside))
		}
	}
	if folded >= 0.01 {
		q.note("%s of the %s are of tenants without a name of their own (%s), which cannot be distinguished", percent(folded), q.what, series.Other)
	}
}
