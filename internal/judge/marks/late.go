package marks

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/series"
	"tailscope/internal/store"
)

const (
	// LateWithin is how long after a mark a change that ends the time after it may begin, in
	// seconds, to be told with the mark: a deploy that rolls out takes a while.
	LateWithin = 15 * 60
	// mostCalled bounds the called services whose own changes are searched, those whose time
	// explains the most of a late change.
	mostCalled = 3
	// mostParts bounds the parts of requests that are read.
	mostParts = 100
	// ofLate is the share of a late change that called services explain at least where it
	// began in them, and more by which factor the requests may then call them more often, and
	// their other time may become more or less.
	ofLate, more = 0.8, 1.1
	// ofAllCallers is the least share, in logarithms, of how much longer the calls of one
	// service take that all requests of the called one show.
	ofAllCallers = 0.7
)

// late returns what began a while after the mark, given the changes that were found, that
// which ends the side after, and where that ended without it. Changes that follow it so
// closely that no side fits between, or within LateWithin of the mark, are of one event.
func (s *sides) late(found []api.Change, first *api.Change, end int64) *api.MarkThen {
	then := &api.MarkThen{Time: first.Time, Low: first.Low, High: first.High, Change: cmp.Or(first.Headline, first.Sentence), Changes: []string{}, Verdict: first.Verdict}
	then.Sentence = then.Change
	found = slices.Clone(found)
	slices.SortStableFunc(found, func(x, y api.Change) int { return cmp.Compare(x.Low, y.Low) })
	from := int64(first.High)
	s.causes = []*api.Change{first}
	for i := range found {
		c := &found[i]
		low := int64(c.Low)
		switch {
		case low < s.after.end || low >= end:
			continue
		case low > s.after.start+LateWithin && low >= from+fewest*slot:
			end = series.Base.Slot(low)
		default:
			from = max(from, int64(c.High))
			if c.ID != first.ID || c.Low != first.Low {
				s.causes = append(s.causes, c)
			}
			if !slices.Contains(then.Changes, c.ID) { // what came and went is two of one id
				then.Changes = append(then.Changes, c.ID)
			}
		}
	}
	from = series.Base.Slot(from+slot-1) + slot
	then.After = api.Range{Start: from, End: max(from, end)}
	return then
}

// serviceCalls returns which services call which on both sides. It reads them once.
type serviceCalls func() (map[string]map[string]bool, error)

// nameThen names the mark, of a service that the marked one calls or is called by, at whose
// moment a late change began.
func (s *sides) nameThen(marks []store.Mark, service string, calls serviceCalls) error {
	if s.then == nil {
		return nil
	}
	low, high := int64(s.then.Low)-surelyApart, int64(s.then.High)+surelyApart
	for i := range marks {
		m := &marks[i]
		if at := m.Time.Unix(); at < low || at > high || slices.Contains(s.together, m) {
			continue
		}
		if service != "" && m.Service != "" && m.Service != service {
			calls, err := calls()
			if err != nil {
				return err
			}
			if !calls[service][m.Service] && !calls[m.Service][service] {
				continue
			}
		}
		s.then.Mark = &api.MarkName{ID: m.ID, Name: m.Name, Time: api.UnixTime(m.Time)}
		return nil
	}
	return nil
}

// nameCalled names the services in which a late change of durations began, where that is not
// the marked one: most of what its requests take more or less is time in those and the rest of
// their time stands still, it calls them no more often, and they changed at that moment
// themselves, for all who call them. Whose fault errors are is not known from how many there
// are: a call may be refused for what it asks.
func (r *Around) nameCalled(ctx context.Context, service string, matchers []*labels.Matcher, s *sides, now time.Time) error {
	if s.then == nil || s.then.Mark != nil || service == "" || s.moved(judge.ErrorShare, "") {
		return nil
	}
	until := min(s.then.After.End, series.Base.Slot(now.Unix()-ripe))
	since := s.then.After.Start
	if since >= until {
		since = series.Base.Slot(int64(s.then.Time))
	}
	parts, err := query.PartsBySlot(ctx, r.Store, matchers, s.after.start, max(until, s.after.end), slot, mostParts)
	if err != nil || len(parts) == 0 {
		return err
	}
	at := func(t int64) int { return int((t - s.after.start) / slot) }
	candidates, all := calledOf(parts, service, [2]int{0, at(s.after.end)}, [2]int{at(since), at(until)})
	rest := all
	var names []string
	for _, c := range candidates[:min(len(candidates), mostCalled)] {
		if !(c.share(all) > 0 && c.others <= (more-1)*c.calls[0]) {
			continue
		}
		of, err := ofService(c.service)
		if err != nil {
			return err
		}
		for _, m := range matchers {
			if m.Name == series.LabelEnvironment {
				of = append(of, m)
			}
		}
		found, err := r.Changes(ctx, query.Selection{Family: series.SpanDuration, Matchers: of, Start: time.Unix(s.before.start, 0), End: time.Unix(until, 0)})
		if err != nil {
			return err
		}
		if slices.ContainsFunc(found, func(x api.Change) bool { return c.explainedBy(s, &x) }) {
			names = append(names, c.service)
			rest[0], rest[1] = rest[0]-c.seconds[0], rest[1]-c.seconds[1]
		}
	}
	if 1-(rest[1]-rest[0])/(all[1]-all[0]) >= ofLate && within(rest, more) {
		s.then.Called = names
	}
	return nil
}

// within reports whether the second of two figures is the first, times or by a factor at most.
func within(of [2]float64, factor float64) bool {
	return of[1] <= factor*of[0] && of[0] <= factor*of[1]
}

// calledService is a service that the requests of another one call: how much time they spend
// in it, and how many calls they make, each per request before and after. Others is by how
// many calls of single operations these differ.
type calledService struct {
	service        string
	seconds, calls [2]float64
	others         float64
}

// share returns how much of what all time per request changed by is time in the service.
func (c *calledService) share(all [2]float64) float64 {
	return (c.seconds[1] - c.seconds[0]) / (all[1] - all[0])
}

// explainedBy reports whether a change of the called service is of a late change's moment and
// direction, and seen by all its callers: what one of them alone sees may come of what it asks.
func (c *calledService) explainedBy(s *sides, x *api.Change) bool {
	if !sameMoment(s.then, x) || judge.Opposite(s.causes[0].Verdict, x.Verdict) {
		return false
	}
	i := slices.IndexFunc(x.Measures, func(m api.CompareMeasure) bool { return m.Name == "p50" })
	if i < 0 {
		return false
	}
	took := math.Log(c.seconds[1] / c.calls[1] * c.calls[0] / c.seconds[0])
	return math.Log(float64(x.Measures[i].Raw.Effect))/took >= ofAllCallers
}

// calledOf returns the services that requests call, those first that explain the most of how
// their time differs between two ranges of slots, and all time per request in each.
func calledOf(parts []query.PartSlots, service string, before, after [2]int) (out []calledService, all [2]float64) {
	sum := func(v []float64, in [2]int) (s float64) {
		for i := max(0, in[0]); i < min(in[1], len(v)); i++ {
			s += v[i]
		}
		return s
	}
	var requests [2]float64 // in all environments
	counted := map[string]bool{}
	for i := range parts {
		p := &parts[i]
		if counted[p.Environment] {
			continue
		}
		counted[p.Environment] = true
		for k, in := range [2][2]int{before, after} {
			requests[k], all[k] = requests[k]+sum(p.Requests, in), all[k]+sum(p.OfAll, in)
		}
	}
	if requests[0] == 0 || requests[1] == 0 {
		return nil, all
	}
	for i := range parts {
		p := &parts[i]
		if p.Part.Service == service || p.Part.Service == "" {
			continue
		}
		k := slices.IndexFunc(out, func(c calledService) bool { return c.service == p.Part.Service })
		if k < 0 {
			k = len(out)
			out = append(out, calledService{service: p.Part.Service})
		}
		var calls [2]float64
		for side, in := range [2][2]int{before, after} {
			out[k].seconds[side] += sum(p.Seconds, in) / requests[side]
			calls[side] = sum(p.Calls, in) / requests[side]
		}
		if p.Part.Component == series.ComponentApp { // its own requests, not what those call
			out[k].calls[0], out[k].calls[1] = out[k].calls[0]+calls[0], out[k].calls[1]+calls[1]
			out[k].others += math.Abs(calls[1] - calls[0])
		}
	}
	for k := range all {
		all[k] /= requests[k]
	}
	slices.SortStableFunc(out, func(x, y calledService) int { return cmp.Compare(y.share(all), x.share(all)) })
	return out, all
}

// sameMoment reports whether a change may be of the moment of a late one.
func sameMoment(then *api.MarkThen, c *api.Change) bool {
	return c.Low <= then.High+surelyApart && then.Low <= c.High+surelyApart
}

// mostRollouts bounds the marks of other services that a warning names.
const mostRollouts = 3

// nameRollouts names the marks of other services about the mark and in the time after it, of
// those that the marked one calls and of those that call it.
func (s *sides) nameRollouts(marks []store.Mark, i int, service string, calls serviceCalls, now time.Time) error {
	for k := range marks {
		m := &marks[k]
		if at := m.Time.Unix(); at < s.before.end-surelyApart || at >= s.after.end || at > now.Unix() {
			continue
		}
		if service == "" || m.Service == "" || m.Service == service || !m.Concerns(m.Service, marks[i].Environment) || s.then != nil && s.then.Mark != nil && s.then.Mark.ID == m.ID {
			continue
		}
		calls, err := calls()
		if err != nil {
			return err
		}
		which := ""
		switch {
		case calls[service][m.Service]:
			which = "which " + service + " calls"
		case calls[m.Service][service]:
			which = "which calls " + service
		default:
			continue
		}
		if s.rollouts = append(s.rollouts, fmt.Sprintf("%s of %s, %s, at %s", theMark(m), m.Service, which, clock(m.Time.Unix()))); len(s.rollouts) == mostRollouts {
			break
		}
	}
	return nil
}

// judgeThen gives what began a while after the mark its verdict, that of a comparison of the
// time after it. Where that is too short yet, the change speaks for itself, unless r has
// gates, of which it knows nothing, or asks for nothing that changed then. Changed are the
// measures that changed up to then.
func (s *sides) judgeThen(ctx context.Context, st store.Store, r compare.Request, changed []api.CompareMeasure, now time.Time) error {
	if s.then == nil {
		return nil
	}
	asked := s.asked(&r)
	if len(r.Gates) > 0 || len(asked) == 0 {
		s.then.Verdict = judge.TooLittle
	}
	after := span{s.then.After.Start, min(s.then.After.End, series.Base.Slot(now.Unix()-ripe))}
	if after.end < after.start+fewest*slot || len(asked) == 0 {
		return nil
	}
	r.B, r.Newest, r.Chosen = after.window(), nil, nil
	again := s.withoutChanged(&r, changed)
	out, err := compare.Compare(ctx, st, r)
	switch {
	case refused(err) != nil || err == nil && (out.Verdict == judge.TooLittle || again && !s.back() && !judge.Moved(out.Verdict)):
		return nil
	case err != nil:
		return err
	}
	s.then.After, s.then.Verdict, s.then.Sentence = out.B.Range, out.Verdict, ofAMark.Replace(out.Sentence)
	if again {
		s.then.Sentence = "compared with the time between the mark and then, " + s.then.Sentence
	}
	return nil
}

// canNarrow reports whether a question can be narrowed to what a late change was found in. Gates
// are of all that differs from the time before the mark, and what metrics changed in is not known.
func canNarrow(r *compare.Request) bool {
	return len(r.Gates) == 0 && (r.Family == "" || r.Family == series.SpanDuration)
}

// asked returns which of the measures that are asked for, of all if none is named, are of what
// a late change was found in; all of them where the question cannot be narrowed.
func (s *sides) asked(r *compare.Request) []string {
	all := r.Measures
	if len(all) == 0 {
		all = measures
	}
	if !canNarrow(r) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(name string) bool { return !s.moved(name, "") })
}

// back reports whether one of the causes goes the other way than the first.
func (s *sides) back() bool {
	return slices.ContainsFunc(s.causes, func(c *api.Change) bool { return judge.Opposite(c.Verdict, s.causes[0].Verdict) })
}

// withoutChanged narrows a question about the time after a late change to what asked returns,
// so that it does not repeat what the mark did at once. If that changed before and again in the
// same way, the question is about the time between and the time after, and withoutChanged
// returns true.
func (s *sides) withoutChanged(r *compare.Request, changed []api.CompareMeasure) (again bool) {
	if !canNarrow(r) {
		return false
	}
	if asked := s.asked(r); len(asked) < cmp.Or(len(r.Measures), len(measures)) {
		r.Measures = asked
	}
	again = slices.ContainsFunc(changed, func(m api.CompareMeasure) bool {
		return m.Name != judge.Apdex && m.Name != judge.Rate && s.moved(m.Name, m.Change)
	})
	if again {
		r.A, r.Moment = s.after.window(), s.causes[0].Time.Time()
	}
	return again
}

// moved reports whether a late change was found in what a measure is of, in a way if that is
// not empty.
func (s *sides) moved(measure string, way judge.Way) bool {
	thing := judge.Durations
	if measure == judge.ErrorShare {
		thing = judge.ErrorShare
	}
	return slices.ContainsFunc(s.causes, func(c *api.Change) bool {
		opposite := way == judge.Better && c.Verdict == judge.Regression || way == judge.Worse && c.Verdict == judge.Improvement
		return slices.Contains(c.Found, thing) && !opposite
	})
}

// chosenBy returns which findings are likelier of a time after a mark that ends at a late change
// for the worse, nil of another one.
func chosenBy(c *api.Change) *compare.Chosen {
	if c.Verdict == judge.Improvement {
		return nil
	}
	out := &compare.Chosen{Among: int(LateWithin/slot) - fewest + 1}
	if slices.Contains(c.Found, judge.ErrorShare) {
		out.Of = append(out.Of, judge.FewerErrors)
	}
	if slices.Contains(c.Found, judge.Durations) {
		out.Of = append(out.Of, judge.Faster)
	}
	return out
}

// changedAmong returns the measures that changed of what was compared, and of its rows.
func changedAmong(measures []api.CompareMeasure, lists ...[]api.CompareRow) []api.CompareMeasure {
	out := slices.Clone(measures)
	for _, row := range slices.Concat(lists...) {
		out = append(out, row.Measures...)
	}
	return slices.DeleteFunc(out, func(m api.CompareMeasure) bool { return m.Change == "" })
}

// withThen returns what a verdict of the time up to a late change and that of the time after
// it amount to, and the sentence of both: a late effect counts as one of the mark, so that
// who waits for a verdict is not told that all is well.
func withThen(v judge.Verdict, sentence string, shapes []api.Shape, then *api.MarkThen) (judge.Verdict, string) {
	if then == nil {
		return v, sentence
	}
	at := clock(int64(then.Time))
	since := "since then "
	switch {
	case spiked(shapes), v != judge.NoEvidence && v != judge.TooLittle:
		since = "since " + at + " "
	case v == judge.NoEvidence:
		sentence = "no evidence of change until " + at
	default:
		sentence = "too little data until " + at
	}
	switch {
	case judge.Moved(then.Verdict) && then.Mark != nil:
		return v, sentence + "; " + since + then.Sentence + fmt.Sprintf(", as of about the mark %q", then.Mark.Name)
	case judge.Moved(then.Verdict) && len(then.Called) > 0:
		return v, sentence + "; not counted, as it began in " + figure.Listed(then.Called) + ": " + since + then.Sentence
	case judge.Moved(then.Verdict):
		var sum judge.Sum
		sum.Add(v, "")
		sum.Add(then.Verdict, "")
		return sum.Verdict(), sentence + "; " + since + then.Sentence + ": a late effect of the mark, or a change that nobody marked"
	case then.Verdict == judge.TooLittle:
		return v, sentence + "; then a change was found: " + then.Change
	case judge.Moved(v):
		return v, sentence + "; " + since + then.Sentence
	}
	return v, sentence + "; then a change was found: " + then.Change + "; since then " + then.Sentence
}
