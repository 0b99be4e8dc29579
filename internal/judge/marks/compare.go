package marks

import (
	"cmp"
	"context"
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

// Compare answers a comparison at the mark that r names. Its sides are those that the mark's
// own verdict is of. Where the question is the mark's own, so are its verdict and its
// sentence, by j if there is one: a mark has one story wherever it is told. A mark of a service asks about its requests by default.
func (o *Around) Compare(ctx context.Context, j *Judge, r compare.Request) (*api.CompareResponse, error) {
	marks, err := store.AllMarks(ctx, o.Store)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(marks, func(m store.Mark) bool { return m.ID == r.Mark })
	if i < 0 || marks[i].Time.After(r.Now) {
		return compare.Compare(ctx, o.Store, r) // which says what is wrong
	}
	if r.Gates == nil {
		r.Gates = gatesOf(&marks[i])
	}
	named := slices.ContainsFunc(r.Matchers, func(m *labels.Matcher) bool { return m.Name == series.LabelService })
	if name := marks[i].Service; name != "" && !named && (r.Family == "" || r.Family == series.SpanDuration) {
		of, err := ofService(name)
		if err != nil {
			return nil, err
		}
		r.Matchers = slices.Concat(r.Matchers, of)
	}
	young, err := j.youngOf(ctx, &marks[i], &r)
	if err != nil {
		return nil, err
	}
	if out, err := o.compareYoung(ctx, j, r, &marks[i], young); out != nil || err != nil {
		return out, err
	}
	out, refusal := o.compareAt(ctx, j, r, marks, i, math.MaxInt64)
	if refusal == nil && young != nil { // what is told does not depend on who asks, and when
		out.Verdict, out.Sentence = young.Verdict, young.Sentence
	}
	// Of marks that are judged as one the newest may have no slot after it yet: what the others
	// show up to it stands.
	for early := refused(refusal); early != nil && early.Code == query.CodeTooEarly; {
		of := together(marks, i, query.Named(r.Matchers, series.LabelService))
		newest := of[len(of)-1]
		if newest == &marks[i] {
			return nil, refusal
		}
		marks = slices.DeleteFunc(slices.Clone(marks), func(m store.Mark) bool { return m.ID != r.Mark && !m.Time.Before(newest.Time) })
		i = slices.IndexFunc(marks, func(m store.Mark) bool { return m.ID == r.Mark })
		older, err := o.compareAt(ctx, j, r, marks, i, slotOf(newest.Time))
		if err == nil {
			older.Sentence += "; " + early.Message
			return older, nil
		}
		if refused(err) == nil {
			return nil, err
		}
	}
	return out, refusal
}

// compareAt answers a comparison at mark i whose sides end at until at the latest.
func (o *Around) compareAt(ctx context.Context, j *Judge, r compare.Request, marks []store.Mark, i int, until int64) (*api.CompareResponse, error) {
	m, service := &marks[i], query.Named(r.Matchers, series.LabelService)
	window := cmp.Or(r.Length, defaultWindow)
	s := sidesOf(marks, i, service, window)
	if r.Settle >= 0 {
		s.leave(r.Settle)
	}
	of := ofServices(r.Matchers)
	if m.Environment != "" && query.Named(of, series.LabelEnvironment) == "" {
		of = append(of, query.InEnvironment(m.Environment))
	}
	s, err := o.sides(ctx, marks, i, service, of, s, r.Now)
	if err != nil {
		return nil, err
	}
	s.before.start = max(s.before.start, s.before.end-int64(window/time.Second))
	s.after.end = min(s.after.end, s.after.start+int64(window/time.Second), until)
	r.A, r.B, r.Moment = s.before.window(), s.after.window(), s.first().Time
	r.Together, r.Chosen = s.together, s.ending
	out, err := compare.Compare(ctx, o.Store, r)
	if err != nil {
		return nil, err
	}
	if out.Together = s.names(); out.Provisional {
		out.Verdict, out.Sentence = withBeside(out.Verdict, out.Sentence, nil, out.Together)
		return out, nil
	}
	out.Warnings = append(out.Warnings, s.warnings(nil)...)
	out.Outage = s.outage
	if v := j.finalOf(m, &r, of); v != nil && v.Before == out.A.Range && v.After == out.B.Range && sameFigures(v.Measures, out.Measures) {
		out.Verdict, out.Sentence, out.Then = v.Verdict, v.Sentence, v.Then
		return out, nil
	}
	if err := s.judgeThen(ctx, o.Store, r, changedAmong(out.Measures, out.Operations, out.Tenants, out.Cohorts), r.Now); err != nil {
		return nil, err
	}
	out.Then = s.then
	out.Verdict, out.Sentence = withThen(out.Verdict, out.Sentence, out.Shapes, out.Then)
	out.Verdict, out.Sentence = withBeside(out.Verdict, out.Sentence, out.Outage, out.Together)
	if out.Then != nil {
		out.Then.Sentence = figure.Sentence(out.Then.Sentence)
	}
	return out, nil
}

// finalOf returns the final verdict of a mark on what r compares, if r asks what the mark
// itself does: of a service in an environment, all of them by default. It is nil otherwise.
func (j *Judge) finalOf(m *store.Mark, r *compare.Request, of []*labels.Matcher) *api.ServiceVerdict {
	if j == nil || !asksOwn(m, r, of) {
		return nil
	}
	j.mu.RLock()
	defer j.mu.RUnlock()
	k := j.known[m.ID]
	if k == nil || k.brief.State != Final {
		return nil
	}
	service, environment := query.Named(of, series.LabelService), query.Named(of, series.LabelEnvironment)
	i := slices.IndexFunc(k.brief.Services, func(v api.ServiceVerdict) bool { return v.Service == service && v.Environment == environment })
	if i < 0 {
		return nil
	}
	v := k.brief.Services[i]
	return &v
}

// asksOwn reports whether r asks what a mark itself does, of a service in an environment.
func asksOwn(m *store.Mark, r *compare.Request, of []*labels.Matcher) bool {
	own := r.Family == "" || r.Family == series.SpanDuration
	for _, x := range of {
		own = own && x.Type == labels.MatchEqual
	}
	return own && len(r.Matchers) <= len(of) && !r.Live && len(r.Measures) == 0 && r.Per == "" && r.Settle < 0 &&
		(r.Level == 0 || r.Level == compare.DefaultLevel) && (r.Within == 0 || r.Within == compare.DefaultWithin) && (r.Length == 0 || r.Length == defaultWindow) && slices.Equal(r.Gates, gatesOf(m))
}

// young is what a mark whose verdict is not final tells of a service.
type young struct {
	state api.MarkState
	step  int64
	api.ServiceVerdict
}

// youngOf returns what a mark that is young tells, with its figures, if r asks what the mark itself
// does; nil otherwise.
func (j *Judge) youngOf(ctx context.Context, m *store.Mark, r *compare.Request) (*young, error) {
	of := ofServices(r.Matchers)
	if j == nil || !asksOwn(m, r, of) {
		return nil, nil
	}
	v, err := j.Full(ctx, *m)
	if err != nil || v.State == Final || v.State == Waiting {
		return nil, err
	}
	service, environment := query.Named(of, series.LabelService), cmp.Or(query.Named(of, series.LabelEnvironment), m.Environment)
	for _, s := range v.Services {
		if s.Service == service && s.Environment == environment {
			return &young{state: v.State, step: v.Step, ServiceVerdict: s}, nil
		}
	}
	return nil, nil
}

// compareYoung answers a comparison at a mark that is young, of the sides that its verdict is of;
// nil where it has none yet, a provisional one tells no change, or its data is gone.
func (o *Around) compareYoung(ctx context.Context, j *Judge, r compare.Request, m *store.Mark, v *young) (*api.CompareResponse, error) {
	if v == nil || !judge.Moved(v.Verdict) && (v.state == Provisional || v.Verdict == judge.TooLittle) {
		return nil, nil
	}
	if m.Environment != "" && query.Named(r.Matchers, series.LabelEnvironment) == "" {
		r.Matchers = append(slices.Clone(r.Matchers), query.InEnvironment(m.Environment))
	}
	a, b := span{v.Before.Start, v.Before.End}, span{v.After.Start, v.After.End}
	if r.A, r.B, r.Mark = a.window(), b.window(), ""; v.step == 1 {
		r = compare.InSeconds(r, j.o.Seconds, r.A, r.B)
	}
	out, err := compare.Compare(ctx, o.Store, r)
	switch {
	case refused(err) != nil:
		return nil, nil
	case err != nil:
		return nil, err
	}
	mark := m.API()
	out.Mark, out.A.Name, out.B.Name = &mark, "before "+m.Name, "after "+m.Name
	for _, x := range v.Warnings {
		if !slices.Contains(out.Warnings, x) {
			out.Warnings = append(out.Warnings, x)
		}
	}
	out.Together, out.Outage, out.Then = v.Together, v.Outage, v.Then
	out.Verdict, out.Sentence, out.Provisional = v.Verdict, v.Sentence, v.state == Provisional
	for i := range out.Measures {
		if k := slices.IndexFunc(v.Measures, func(x api.CompareMeasure) bool { return x.Name == out.Measures[i].Name }); k >= 0 {
			out.Measures[i] = v.Measures[k]
		}
	}
	return out, nil
}

// ofServices returns the matchers of services and environments.
func ofServices(of []*labels.Matcher) []*labels.Matcher {
	return slices.DeleteFunc(slices.Clone(of), func(m *labels.Matcher) bool {
		return m.Name != series.LabelService && m.Name != series.LabelEnvironment
	})
}

// sameFigures reports whether both are of the same requests: what came after a verdict was
// made is not in it.
func sameFigures(v, now []api.CompareMeasure) bool {
	for i := range v {
		k := slices.IndexFunc(now, func(m api.CompareMeasure) bool { return m.Name == v[i].Name })
		if k >= 0 && !(same(v[i].Raw.A, now[k].Raw.A) && same(v[i].Raw.B, now[k].Raw.B)) {
			return false
		}
	}
	return true
}

// same allows for sums in another order.
func same(x, y api.Float) bool {
	return math.IsNaN(float64(x)) && math.IsNaN(float64(y)) || math.Abs(float64(x-y)) <= 1e-6*math.Abs(float64(x))
}

// leave leaves out another time than settle after the slot of a mark.
func (s *sides) leave(d time.Duration) {
	more := (int64((d+time.Second-1)/time.Second)+slot-1)/slot*slot - settle
	if s.after.start += more; s.cutAfter == "" {
		s.after.end += more
	}
	s.after.end = max(s.after.end, s.after.start+fewest*slot)
}
