package marks

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge"
	"tailscope/internal/query"
	"tailscope/internal/store"
)

// Until there are slots of ten seconds enough after a mark, it is judged provisionally on
// slots of one second, for gross changes alone: those whose interval lies beyond a margin.
const (
	block         = 1   // seconds of a slot
	fewestBlocks  = 20  // slots that side B needs
	blocksBefore  = 600 // slots of side A at most
	leastBefore   = 120 // and at least
	settleSeconds = 2   // left out after the second of a mark
	firstLook     = 30  // seconds after a mark
	nextSecond    = 5   // seconds between two looks
	// planned is the length of side B, in seconds, at which intervals are tightest.
	planned = 60
	// grossRatio and grossShare are the margins of ratios and of the share of errors.
	grossRatio, grossShare = 1.1, 0.01
	// share of the error that is left to provisional verdicts, as a divisor: their
	// probabilities are multiplied by it.
	provisionalShare = 5
)

// secondsOf returns the sides of mark i for a service in seconds, as far as they have come
// and are complete at now; why says why they cannot be judged.
func (j *Judge) secondsOf(marks []store.Mark, i int, service string, now time.Time) (s sides, why string) {
	at := marks[i].Time.Unix()
	s = sides{before: span{at - blocksBefore*block, at}, after: span{at + 1 + settleSeconds, now.Unix()}}
	since, ok := j.o.Seconds.Since(service)
	if !ok {
		return s, "some of its operations are left out for lack of memory"
	}
	late, ok := j.o.Seconds.Ripe(service)
	if !ok {
		return s, "its requests come too late, or are too few"
	}
	s.before.start, s.after.end = max(s.before.start, since), s.after.end-late
	for k := range marks {
		m := &marks[k]
		if k == i || m.Service != "" && m.Service != service {
			continue
		}
		switch t := m.Time.Unix(); {
		case t > at && t < s.after.end:
			s.after.end, s.cutAfter = t, m.Name
		case t < at && t+1+settleSeconds > s.before.start:
			s.before.start, s.cutBefore = t+1+settleSeconds, m.Name
		}
	}
	switch {
	case s.before.end-s.before.start < leastBefore:
		return s, fmt.Sprintf("too few seconds before it are known, %d", max(0, s.before.end-s.before.start))
	case s.after.end-s.after.start < fewestBlocks*block:
		return s, fmt.Sprintf("too few seconds after it are known, %d", max(0, s.after.end-s.after.start))
	}
	return s, ""
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
	if v.Next = api.Float(now.Unix() + nextSecond); int64(v.Next) > whole.earliest() {
		v.Next = api.Float(whole.earliest())
	}
	services := []string{m.Service}
	if m.Service == "" {
		before := sides{before: span{whole.before.end - blocksBefore*block, whole.before.end}, after: span{whole.before.end, now.Unix()}}
		if services, err = busiest(ctx, j.o.Store, before, now); err != nil {
			return v, true, err
		}
	}
	for _, service := range services {
		s, why := j.secondsOf(marks, i, service, now)
		if why != "" {
			continue
		}
		found, err := j.compareSeconds(ctx, service, s)
		if err != nil {
			return v, true, err
		}
		if found.Verdict != judge.TooLittle {
			v.Services = append(v.Services, found)
		}
	}
	if len(v.Services) == 0 {
		return v, true, nil
	}
	v.State, v.Judged, v.Step = Provisional, api.UnixTime(now), block
	conclude(&v)
	return v, true, nil
}

func (j *Judge) compareSeconds(ctx context.Context, service string, s sides) (api.ServiceVerdict, error) {
	r := compare.Request{
		A: s.before.window(), B: s.after.window(), Measures: measures, Limit: allRows, Live: true,
		Seconds: j.o.Seconds, Step: block, Length: planned * time.Second,
	}
	var err error
	if r.Matchers, err = ofService(service); err != nil {
		return api.ServiceVerdict{}, err
	}
	out, err := compare.Compare(ctx, j.o.Store, r)
	var invalid *query.Error
	if errors.As(err, &invalid) && (invalid.Code == query.CodeInvalid || invalid.Code == query.CodeTooEarly) {
		return tooLittle(service, s, invalid.Message), nil
	}
	if err != nil {
		return api.ServiceVerdict{}, err
	}
	onlyGross(out)
	v := serviceVerdict(service, s, out)
	if !judge.Moved(v.Verdict) && v.Verdict != judge.TooLittle {
		v.Verdict, v.Sentence = judge.NoEvidence, fmt.Sprintf("no evidence of a gross change of %s, from %d s after the mark", service, s.after.end-s.after.start)
	}
	return v, nil
}

// onlyGross takes back the changes whose interval does not lie beyond the margin, and
// those of quantiles with too few requests beyond them, and multiplies probabilities by
// provisionalShare.
func onlyGross(r *api.CompareResponse) {
	whole := api.CompareRow{RequestsA: r.A.Requests, RequestsB: r.B.Requests}
	gross := func(row *api.CompareRow, m *api.CompareMeasure) {
		f := m.Judged()
		low, high, margin := float64(f.Low), float64(f.High), grossShare
		if m.Scale == "ratio" {
			low, high, margin = math.Log(low), math.Log(high), math.Log(grossRatio)
		}
		if !(low > margin || high < -margin) || !compare.Enough(row, m) {
			m.Change = ""
		}
		if m.Adjusted *= provisionalShare; m.Adjusted > 1 {
			m.Adjusted = 1
		}
	}
	for i := range r.Measures {
		gross(&whole, &r.Measures[i])
	}
	for i := range r.Operations {
		row := &r.Operations[i]
		if row.Adjusted *= provisionalShare; row.Adjusted > 1 {
			row.Adjusted = 1
		}
		for k := range row.Measures {
			gross(row, &row.Measures[k])
		}
	}
	if judge.Moved(r.Verdict) && !slices.ContainsFunc(r.Measures, func(m api.CompareMeasure) bool { return m.Change != "" }) {
		r.Verdict = judge.NoEvidence
	}
}
