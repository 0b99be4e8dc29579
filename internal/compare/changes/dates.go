package changes

import (
	"context"
	"slices"
	"strings"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/store"
)

// DateByMarks gives each change that a mark tells the moment of the mark, where that may be its
// own: where a change is found moves while few slots follow it. Its id follows, so that it can be
// decided as it is answered, and what names it: the changes under it and its event, which has the
// moment of the change that leads it, or is its clearest.
func (f *Finder) DateByMarks(ctx context.Context, out *api.ChangesResponse) error {
	if !slices.ContainsFunc(out.Changes, func(c api.Change) bool { return c.ToldBy != "" }) {
		return nil
	}
	marks, err := store.AllMarks(ctx, f.st)
	if err == nil {
		dateBy(marks, out)
	}
	return err
}

// dateBy is DateByMarks, given the marks.
func dateBy(marks []store.Mark, out *api.ChangesResponse) {
	ids := map[string]string{}
	taken := map[string]bool{}
	for i := range out.Changes {
		taken[out.Changes[i].ID] = true
	}
	dated := map[string]*api.Change{} // by the id that it had
	for i := range out.Changes {
		c := &out.Changes[i]
		k := slices.IndexFunc(marks, func(m store.Mark) bool { return m.ID == c.ToldBy })
		if k < 0 {
			continue
		}
		at, id := api.UnixTime(marks[k].Time), c.ID
		if at < c.Low || at > c.High {
			continue
		}
		if s := subjectOf(c); c.Status == New && id == idOf(s, int64(c.Time)) {
			id = idOf(s, int64(at))
		}
		if id != c.ID && taken[id] { // another change of the same
			continue
		}
		dated[c.ID] = c
		ids[c.ID], taken[id] = id, true
		c.Sentence = c.Headline + redated(strings.TrimPrefix(c.Sentence, c.Headline), c.Time, at)
		c.ID, c.Time = id, at
	}
	if len(dated) == 0 {
		return
	}
	for i := range out.Changes {
		if id, ok := ids[out.Changes[i].Under]; ok {
			out.Changes[i].Under = id
		}
	}
	out.Events = slices.Clone(out.Events) // shared with the cache
	for i := range out.Events {
		e := &out.Events[i]
		e.Changes = slices.Clone(e.Changes)
		at := e.Time
		for j, id := range slices.Backward(e.Changes) {
			c := dated[id]
			if c == nil {
				continue
			}
			e.Changes[j] = ids[id]
			if leads := c.Under == "" || c.Low == e.Low && c.High == e.High && at == e.Time; leads && e.Low <= c.Time && c.Time <= e.High {
				at = c.Time
			}
		}
		e.Sentence, e.Time = redated(e.Sentence, e.Time, at), at
	}
	slices.SortStableFunc(out.Changes, inTime)
}

// redated returns a text whose moment is another.
func redated(text string, was, at api.Float) string {
	for _, layout := range []string{time.DateTime, "2006-01-02 15:04"} {
		for _, word := range []string{judge.Since, "from ", "at "} {
			old := word + was.Time().UTC().Format(layout)
			if strings.Contains(text, old) {
				return strings.Replace(text, old, word+at.Time().UTC().Format(layout), 1)
			}
		}
	}
	return text
}
