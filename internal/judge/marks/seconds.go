package marks

import (
	"context"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// Until there are slots of ten seconds enough after a mark, it is judged provisionally on
// slots of one second (see compare.InSeconds).
const (
	firstLook  = 30 // seconds after a mark
	nextSecond = 5  // seconds between two looks
)

// secondsOf returns the sides of mark i for a service in seconds, as far as they have come
// and are complete at now; why says why they cannot be judged.
func (j *Judge) secondsOf(marks []store.Mark, i int, service string, now time.Time) (s sides, why string) {
	s = sides{together: together(marks, i, service)}
	at := s.first().Time.Unix()
	s.before, s.after = span{at - compare.MostBefore, at}, span{s.last().Time.Unix() + compare.AfterMoment, now.Unix()}
	a, b, cutBefore, cutAfter := compare.CutAtMarks(marks, s.together, service, marks[i].Environment, at, s.before.window(), s.after.window())
	if cutBefore != nil {
		s.cutBefore = theMark(cutBefore)
	}
	if cutAfter != nil {
		s.cutAfter = theMark(cutAfter)
	}
	a, b, why = compare.SecondsOf(j.o.Seconds, service, a, b, now)
	s.before.start, s.after.end = a.Start.Unix(), b.End.Unix()
	return s, why
}

// bySeconds judges mark i on slots of a second, if slots of ten are not enough yet. Its
// state is Waiting if that is impossible.
func (j *Judge) bySeconds(ctx context.Context, marks []store.Mark, i int, now time.Time) (v api.MarkVerdict, ok bool, err error) {
	m := &marks[i]
	whole := sidesOf(marks, i, m.Service, j.o.Window)
	if j.o.Seconds == nil || now.Unix() >= whole.earliest() {
		return v, false, nil
	}
	v = j.waiting(marks, i)
	v.Next = api.Float(min(now.Unix()+nextSecond, whole.earliest()))
	services := []string{m.Service}
	if m.Service == "" {
		before := sides{before: span{whole.before.end - compare.MostBefore, whole.before.end}, after: span{whole.before.end, now.Unix()}}
		if services, err = busiest(ctx, j.o.Store, before, now); err != nil {
			return v, true, err
		}
	}
	reasons := make([]string, 0, len(services)) // of services that are not judged
	for _, service := range services {
		s, why := j.secondsOf(marks, i, service, now)
		if why != "" {
			reasons = append(reasons, why)
			continue
		}
		found, err := j.compareSeconds(ctx, m, service, s, whole.earliest())
		if err != nil {
			return v, true, err
		}
		if found.Verdict != judge.TooLittle {
			v.Services = append(v.Services, found)
		} else {
			reasons = append(reasons, found.Sentence)
		}
	}
	if len(v.Services) == 0 {
		if len(services) == 0 {
			v.Sentence += "; no provisional verdict: no service has requests around it"
		} else {
			v.Sentence += "; no provisional verdict of " + services[0] + ": " + reasons[0]
		}
		return v, true, nil
	}
	v.State, v.Judged, v.Step = Provisional, api.UnixTime(now), 1
	conclude(&v, api.Float(whole.earliest()))
	return v, true, nil
}

// compareSeconds judges mark m on a service in seconds, of which more is known at a moment in Unix
// seconds.
func (j *Judge) compareSeconds(ctx context.Context, m *store.Mark, service string, s sides, more int64) (api.ServiceVerdict, error) {
	r := compare.InSeconds(compare.Request{Measures: measures, Limit: allRows, Gates: gatesOf(m)}, j.o.Seconds, s.before.window(), s.after.window())
	var err error
	if r.Matchers, err = ofService(service); err != nil {
		return api.ServiceVerdict{}, err
	}
	if m.Environment != "" {
		r.Matchers = append(r.Matchers, query.InEnvironment(m.Environment))
	}
	v, requests, err := j.compareSides(ctx, r, service, m.Environment, s)
	if err == nil && !judge.Moved(v.Verdict) && v.Verdict != judge.TooLittle {
		v.Verdict, v.Sentence = judge.NoEvidence, compare.FirstLook(service, requests, s.after.end-s.after.start, more)
	}
	return v, err
}
