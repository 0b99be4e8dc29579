package marks

import (
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// found is what a search for changes, or a comparison at a mark, found there before the mark's
// own verdict tells a change: an early look has a small part of the error, and finds less. Until
// it does, whoever tells of the mark tells this, so that the event has one story while it is
// young too.
type found struct {
	service, environment string
	verdict              judge.Verdict
	headline, lead       string
	before, after        api.Range
	measures             []api.CompareMeasure
	first, told          time.Time // when it was first found, and last
}

// foundFor is how long what was found is told after it was found last.
const foundFor = 2 * time.Minute

// atMark reports whether a change may be of the moment of a mark.
func atMark(c *api.Change, m *api.Mark) bool {
	return c.Low <= m.Time+api.Float(slot+settle+surelyApart) && m.Time-surelyApart <= c.High
}

// keepFound keeps what was found of a service at a mark whose verdict is not final, and returns
// what is told of it, which may be what was found of a longer time after the mark; nil if its
// own verdict tells what changed.
func (j *Judge) keepFound(id string, f found) *found {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.o.Now()
	k := j.known[id]
	if k == nil || k.brief.State == Final || slices.ContainsFunc(k.brief.Services, func(s api.ServiceVerdict) bool {
		return s.Service == f.service && s.Environment == f.environment && judge.Moved(s.Verdict)
	}) {
		return nil
	}
	f.first, f.told = now, now
	if last := j.found[id]; last != nil && now.Sub(last.told) <= foundFor {
		f.first = last.first
		if last.service == f.service && last.environment == f.environment && last.after.End > f.after.End {
			last.told = now
			return last
		}
	}
	for id, of := range j.found {
		if now.Sub(of.told) > foundFor {
			delete(j.found, id)
		}
	}
	j.found[id] = &f
	return &f
}

// withFound returns a verdict of a mark with what was found there, where it tells no change of
// that service itself.
func (j *Judge) withFound(id string, v *api.MarkVerdict) *api.MarkVerdict {
	j.mu.RLock()
	f := j.found[id]
	if f == nil || v.State == Final || j.o.Now().Sub(f.told) > foundFor {
		j.mu.RUnlock()
		return v
	}
	of := *f
	j.mu.RUnlock()
	i := slices.IndexFunc(v.Services, func(s api.ServiceVerdict) bool { return s.Service == of.service && s.Environment == of.environment })
	if i >= 0 && judge.Moved(v.Services[i].Verdict) {
		return v
	}
	out := *v
	out.Services = slices.Clone(v.Services)
	s := emptyVerdict(of.service, sides{})
	if i >= 0 {
		s.Together, s.Outage, s.Warnings = out.Services[i].Together, out.Services[i].Outage, out.Services[i].Warnings
		out.Services = slices.Delete(out.Services, i, i+1)
	}
	s.Environment, s.Verdict, s.Headline, s.Lead, s.Before, s.After = of.environment, of.verdict, of.headline, of.lead, of.before, of.after
	s.Sentence, s.Measures = figure.Sentence(of.headline), of.measures
	if out.State == Waiting {
		out.First, out.Judged = api.UnixTime(of.first), api.UnixTime(of.told)
	}
	out.State, out.Step = Early, slot
	out.Services = slices.Insert(out.Services, 0, s)
	out.Verdict, out.Sentence = whole(&out, out.Next)
	out.Sentence = figure.Sentence(out.Sentence)
	return &out
}

// foundOf returns what a change that lasts says of its service at a mark; ok is false of what no
// mark tells.
func foundOf(c *api.Change, m *api.Mark) (f found, ok bool) {
	grave := c.Verdict == judge.Regression || c.Verdict == judge.Improvement || c.Verdict == judge.Mixed
	if !grave || c.Operation != "" || c.Ended > 0 || c.Shape != nil && c.Shape.Kind == judge.Spike || !atMark(c, m) {
		return f, false
	}
	return found{
		service: c.Service, environment: c.Environment, verdict: c.Verdict, headline: c.Headline, lead: c.Lead,
		before: c.Before, after: c.After, measures: c.Measures,
	}, true
}

// tell puts what was found into a change at its mark.
func (f *found) tell(c *api.Change) {
	setHeadline(c, f.headline)
	c.Lead, c.Verdict, c.Before, c.After, c.Measures = f.lead, f.verdict, f.before, f.after, f.measures
}
