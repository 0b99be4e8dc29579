package marks

import (
	"context"
	"math"
	"slices"
	"time"

	"github.com/prometheus/prometheus/model/labels"

	"tailscope/api"
	"tailscope/internal/compare"
	"tailscope/internal/judge/refresh"
	"tailscope/internal/store"
)

// Run judges what is due until ctx is done.
func (j *Judge) Run(ctx context.Context) {
	refresh.Run(ctx, j.o.Every, j.o.Logger, "judge marks; tried again until it works", j.Round)
}

// Round judges the marks that are due, one after another, until none is or the
// budget is spent. If another server judges them, it reads what that has written. The error is that of the store; a comparison that fails is
// counted, logged once and tried again later.
func (j *Judge) Round(ctx context.Context) error {
	if !j.judging.TryLock() {
		return nil
	}
	defer j.judging.Unlock()
	if did, err := j.o.Once(ctx, j.round); did || err != nil {
		return err
	}
	j.judges = false
	return j.reload(ctx)
}

// round does what Round says. j.judging is held.
func (j *Judge) round(ctx context.Context) error {
	load := j.Load
	if !j.judges { // what another server judged before
		load = j.reload
	}
	if err := load(ctx); err != nil {
		return err
	}
	j.judges = true
	marks, err := store.AllMarks(ctx, j.o.Store)
	if err != nil {
		return err
	}
	if err := j.forget(ctx, marks); err != nil {
		return err
	}
	begin := j.o.Now()
	if err := j.recount(ctx, marks, begin); err != nil {
		return err
	}
	for i := range slices.Backward(marks) { // the newest are waited for
		if err := ctx.Err(); err != nil {
			return err
		}
		now := j.o.Now()
		if !j.due(marks, i, now) {
			continue
		}
		if now.Sub(begin) > j.o.Budget {
			return nil
		}
		if err := j.judge(ctx, marks, i, now); err != nil {
			return err
		}
	}
	return nil
}

// due notes a mark that is new, and says whether there is something to do.
func (j *Judge) due(marks []store.Mark, i int, now time.Time) bool {
	m, beside := &marks[i], beside(marks, i, j.o.Window)
	j.mu.Lock()
	defer j.mu.Unlock()
	k := j.known[m.ID]
	if k == nil {
		k = &known{beside: beside, brief: j.waiting(marks, i)}
		j.known[m.ID] = k
	}
	if now.Before(k.retryAt) {
		return false
	}
	if k.beside != beside {
		switch {
		case k.brief.State == Waiting:
			k.beside, k.brief = beside, j.waiting(marks, i)
		case m.Time.Add(-j.o.Window).Before(now.Add(-j.o.Keep)):
			return false // what it was judged on is no longer kept
		default:
			return true
		}
	}
	return k.grew || k.brief.State != Final && !now.Before(k.brief.Next.Time())
}

// waiting is the verdict of a mark that cannot be judged yet.
func (j *Judge) waiting(marks []store.Mark, i int) api.MarkVerdict {
	s := sidesOf(marks, i, marks[i].Service, j.o.Window)
	v := api.MarkVerdict{
		State: Waiting, Judged: api.Float(math.NaN()), Next: api.Float(s.earliest()), Window: s.longest(),
		Sentence: "Too little time has passed to say what changed", Services: []api.ServiceVerdict{}, Step: slot, First: api.Float(math.NaN()),
	}
	if j.o.Seconds != nil {
		v.Next = min(v.Next, max(api.Float(marks[i].Time.Unix()+firstLook), api.UnixTime(j.o.Now())))
	}
	if now := j.o.Now(); now.Unix() >= s.earliest() {
		// Somebody named it after the fact: what it is judged on may have been
		// sent as recently.
		v.Next, v.Sentence = api.UnixTime(now.Add(ripe*time.Second)), "Judged within a minute"
	}
	return v
}

// judge compares what lies before and after mark i, and keeps what was found.
func (j *Judge) judge(ctx context.Context, marks []store.Mark, i int, now time.Time) error {
	m := &marks[i]
	begin := time.Now()
	var v api.MarkVerdict
	var requests [2]uint64
	var err error
	if s := sidesOf(marks, i, m.Service, j.o.Window); now.Unix() >= s.earliest() {
		requests, err = j.count(ctx, marks, i, now) // before it is judged, so that what comes meanwhile is seen later
	}
	if err == nil {
		v, err = j.compare(ctx, marks, i, now)
	}
	n := j.countedOf(m.ID, &v, requests)
	if v.State != Waiting {
		v.First = j.first(m.ID, now)
	}
	if err == nil && v.State == Final && j.o.Final != nil && !j.isFinal(m.ID) {
		err = j.o.Final(ctx, *m, &v)
	}
	if err == nil && v.State != Waiting {
		err = j.keep(ctx, record{Mark: m.ID, Beside: beside(marks, i, j.o.Window), Verdict: v, counted: n})
	}
	if err != nil && ctx.Err() != nil {
		return ctx.Err()
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	k := j.known[m.ID]
	j.stats.Seconds += time.Since(begin).Seconds()
	if err != nil {
		if k.fails == 0 {
			j.o.Logger.Error("judge a mark; tried again later", "mark", m.Name, "id", m.ID, "error", err)
		}
		j.stats.Failures++
		k.retryAt = now.Add(min(30*time.Second<<min(k.fails, 10), 10*time.Minute))
		k.fails++
		return nil
	}
	switch v.State {
	case Waiting: // seconds say nothing: what is known stays
		if k.brief.State == Waiting {
			k.brief.Sentence = v.Sentence
		}
		k.brief.Next, k.fails, k.beside = v.Next, 0, beside(marks, i, j.o.Window)
		return nil
	case Provisional:
		j.stats.Provisional++
	case Early:
		j.stats.Early++
	case Final:
		j.stats.Final++
	}
	*k = known{beside: beside(marks, i, j.o.Window), brief: brief(v), counted: n, checked: now}
	return nil
}

// isFinal reports whether the verdict of a mark is final already.
func (j *Judge) isFinal(id string) bool {
	j.mu.RLock()
	defer j.mu.RUnlock()
	return j.known[id].brief.State == Final
}

// first returns when a mark was first judged, which is now if it was not.
func (j *Judge) first(id string, now time.Time) api.Float {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if b := &j.known[id].brief; b.State != Waiting {
		return b.First
	}
	return api.UnixTime(now)
}

// lastLook returns when a mark was last judged early, the zero time if it was not.
func (j *Judge) lastLook(id string) time.Time {
	j.mu.RLock()
	defer j.mu.RUnlock()
	if k := j.known[id]; k != nil && k.brief.State == Early {
		return time.UnixMicro(int64(1e6 * float64(k.brief.Judged)))
	}
	return time.Time{}
}

// compare judges mark i on what there is at now.
func (j *Judge) compare(ctx context.Context, marks []store.Mark, i int, now time.Time) (api.MarkVerdict, error) {
	if v, ok, err := j.bySeconds(ctx, marks, i, now); ok || err != nil {
		return v, err
	}
	m := &marks[i]
	whole := sidesOf(marks, i, m.Service, j.o.Window)
	services := []string{m.Service}
	if m.Service == "" {
		var err error
		if services, err = busiest(ctx, j.o.Store, whole, now); err != nil {
			return api.MarkVerdict{}, err
		}
	}
	v := api.MarkVerdict{State: Final, Step: slot, Judged: api.UnixTime(now), Next: api.Float(math.NaN()), Services: []api.ServiceVerdict{}}
	complete := int64(0)
	for _, service := range services {
		s := sidesOf(marks, i, service, j.o.Window)
		complete = max(complete, s.complete())
		v.Window = max(v.Window, s.longest())
		environments, err := environmentsOf(ctx, j.o.Store, m, service, s)
		if err != nil {
			return v, err
		}
		for _, environment := range environments {
			found, until, err := j.compareService(ctx, marks, i, service, environment, s, now)
			if err != nil {
				return v, err
			}
			v.Services, complete = append(v.Services, found), max(complete, until)
		}
	}
	if len(services) == 0 {
		v.Window, complete = whole.longest(), whole.complete()
	}
	if now.Unix() < complete {
		v.State, v.Next = Early, api.Float(min(complete, nextLook(m.Time, now, marks, i, services, j.o.Window)))
	}
	conclude(&v, v.Next)
	return v, nil
}

// compareService judges mark i on a service in an environment, all of them if that is nil. It
// returns when the time after the mark is complete too, in Unix seconds.
func (j *Judge) compareService(ctx context.Context, marks []store.Mark, i int, service string, environment *labels.Matcher, s sides, now time.Time) (_ api.ServiceVerdict, complete int64, _ error) {
	m := &marks[i]
	complete = s.complete()
	r := compare.Request{
		Now: now, Measures: measures, Limit: allRows, Gates: gatesOf(m), Include: []string{compare.IncludeCohorts}, CohortOf: j.o.CohortOf, RowsApart: true,
		Share: shareAt(m.Time, j.lastLook(m.ID), now),
	}
	var err error
	if r.Matchers, err = ofService(service); err != nil {
		return api.ServiceVerdict{}, complete, err
	}
	name := ""
	if environment != nil {
		r.Matchers, name = append(r.Matchers, environment), environment.Value
	}
	if s, err = j.o.sides(ctx, marks, i, service, r.Matchers, s, now); err != nil {
		return api.ServiceVerdict{}, complete, err
	}
	complete = max(complete, s.complete())
	r.Live = now.Unix() < complete // an early verdict is one of several looks at what is still coming in
	r.A, r.B, r.Moment, r.Chosen = s.before.window(), s.after.window(), s.first().Time, s.ending
	v, _, err := j.compareSides(ctx, r, service, name, s)
	if err == nil {
		err = s.judgeThen(ctx, j.o.Store, r, changedAmong(changedOf(v.Measures), v.Operations, v.Tenants, v.Cohorts), now) // of v as well
	}
	return v, complete, err
}

// compareSides judges a service on sides that r has, and returns how many requests are after the
// mark. Where there is nothing to compare it says why.
func (j *Judge) compareSides(ctx context.Context, r compare.Request, service, environment string, s sides) (v api.ServiceVerdict, after uint64, err error) {
	out, err := compare.Compare(ctx, j.o.Store, r)
	switch why := refused(err); {
	case why != nil:
		v = tooLittle(service, s, why.Message)
	case err != nil:
		return v, 0, err
	default:
		v, after = serviceVerdict(service, s, out), out.B.Requests
	}
	v.Environment = environment
	return v, after, nil
}
