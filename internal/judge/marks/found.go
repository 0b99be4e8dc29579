package marks

import (
	"cmp"
	"slices"
	"time"

	"tailscope/api"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// found is what a search for changes found at a mark before the mark's own verdict tells a
// change: an early look has a small part of the error, and finds less. Until it does, whoever
// tells of the mark on this server tells this, so that the event has one story while it is young
// too.
type found struct {
	verdict        judge.Verdict
	headline, lead string
	before, after  api.Range
	measures       []api.CompareMeasure
	first, told    time.Time // when it was first found, and last
}

// foundAt is where something was found: a mark of every service may have several.
type foundAt struct{ mark, service, environment string }

// foundFor is how long what was found is told after it was found last.
const foundFor = 2 * time.Minute

// atMark reports whether a change may be of the moment of a mark.
func atMark(c *api.Change, m *api.Mark) bool {
	return c.Low <= m.Time+api.Float(slot+settle+surelyApart) && m.Time-surelyApart <= c.High
}

// keepFound keeps what was found of a service at a mark whose verdict is not final, and returns
// what is told of it, which may be what was found of a longer time after the mark; nil if its
// own verdict tells what changed.
func (j *Judge) keepFound(at foundAt, f found) *found {
	j.mu.Lock()
	defer j.mu.Unlock()
	now := j.o.Now()
	k := j.known[at.mark]
	if k == nil || k.brief.State == Final || slices.ContainsFunc(k.brief.Services, func(s api.ServiceVerdict) bool {
		return s.Service == at.service && s.Environment == at.environment && judge.Moved(s.Verdict)
	}) {
		return nil
	}
	f.first, f.told = now, now
	if last := j.found[at]; last != nil && now.Sub(last.told) <= foundFor {
		f.first = last.first
		if last.after.End > f.after.End {
			last.told = now
			return last
		}
	}
	for at, of := range j.found {
		if now.Sub(of.told) > foundFor {
			delete(j.found, at)
		}
	}
	j.found[at] = &f
	return &f
}

// foundOfMark returns what is told of the services of a mark, by service and environment.
func (j *Judge) foundOfMark(id string) (places []foundAt, all map[foundAt]found) {
	j.mu.RLock()
	defer j.mu.RUnlock()
	all = map[foundAt]found{}
	for at, f := range j.found {
		if at.mark == id && j.o.Now().Sub(f.told) <= foundFor {
			places, all[at] = append(places, at), *f
		}
	}
	slices.SortFunc(places, func(x, y foundAt) int {
		return cmp.Or(cmp.Compare(x.service, y.service), cmp.Compare(x.environment, y.environment))
	})
	return places, all
}

// withFound returns a verdict of a mark with what was found there, where it tells no change of
// that service itself.
func (j *Judge) withFound(id string, v *api.MarkVerdict) *api.MarkVerdict {
	if v.State == Final {
		return v
	}
	places, all := j.foundOfMark(id)
	out := *v
	out.Services = slices.Clone(v.Services)
	told := false
	for _, at := range places {
		i := slices.IndexFunc(out.Services, func(s api.ServiceVerdict) bool {
			return s.Service == at.service && s.Environment == at.environment
		})
		if i >= 0 && judge.Moved(out.Services[i].Verdict) {
			continue
		}
		of := all[at]
		s := emptyVerdict(at.service, sides{})
		if i >= 0 {
			s.Together, s.Outage, s.Warnings = out.Services[i].Together, out.Services[i].Outage, out.Services[i].Warnings
			out.Services = slices.Delete(out.Services, i, i+1)
		}
		s.Environment, s.Verdict, s.Headline, s.Lead, s.Before, s.After = at.environment, of.verdict, of.headline, of.lead, of.before, of.after
		s.Sentence, s.Measures = figure.Sentence(of.headline), of.measures
		if out.State == Waiting {
			out.First, out.Judged = api.UnixTime(of.first), api.UnixTime(of.told)
		}
		out.State, out.Step = Early, slot
		out.Services, told = append(out.Services, s), true
	}
	if !told {
		return v
	}
	worstFirst(out.Services)
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
	return found{verdict: c.Verdict, headline: c.Headline, lead: c.Lead, before: c.Before, after: c.After, measures: c.Measures}, true
}

// tell puts what was found into a change at its mark.
func (f *found) tell(c *api.Change) {
	setHeadline(c, f.headline)
	c.Lead, c.Verdict, c.Before, c.After, c.Measures = f.lead, f.verdict, f.before, f.after, f.measures
}
