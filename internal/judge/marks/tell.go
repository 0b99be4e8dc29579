package marks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"tailscope/api"
	"tailscope/internal/judge"
)

// Tell gives the changes of services that lie at a mark, or became one, what its verdict says:
// the sides, the figures, the verdict and the sentence. One event has one story then, whoever
// tells it. Of a young mark whose own verdict tells no change yet the change is kept, and told of
// the mark as well, see found. A mark at which nothing surely changed says nothing of a change, nor
// does one whose service moved at a moment that surely is another, see sides.near. Of the number of
// requests, which a mark does not judge, the change keeps what it says. When it was stays as well.
func (j *Judge) Tell(ctx context.Context, all []api.Change) error {
	known := map[string]*api.MarkVerdict{}
	for i := range all {
		c := &all[i]
		if c.Family != "" || c.Part != nil || c.OfFew || !strings.HasPrefix(c.Sentence, c.Headline) || slices.Equal(c.Found, []string{judge.Rate}) {
			continue
		}
		for _, id := range marksOf(c) {
			v, read := known[id]
			if !read {
				var err error
				if v, err = j.kept(ctx, id); err != nil {
					return err
				}
				known[id] = v
			}
			if tellChange(v, c) || j.tellFound(id, c) {
				c.ToldBy = id
				break
			}
		}
	}
	return nil
}

// tellFound keeps what a change says of the young mark of an id that lies at it; false if it is
// none, or its own verdict says otherwise.
func (j *Judge) tellFound(id string, c *api.Change) bool {
	i := slices.IndexFunc(c.Near, func(m api.Mark) bool { return m.ID == id })
	if i < 0 || c.Under != "" {
		return false
	}
	f, ok := foundOf(c, &c.Near[i])
	if !ok {
		return false
	}
	told := j.keepFound(foundAt{id, c.Service, c.Environment}, f)
	if told != nil {
		told.tell(c)
	}
	return told != nil
}

// setHeadline has a change say something else of what changed, and the same of when.
func setHeadline(c *api.Change, headline string) {
	c.Sentence = headline + strings.TrimPrefix(c.Sentence, c.Headline)
	c.Headline = headline
}

// marksOf returns the ids of the mark that a change became, and of those that may be its cause.
func marksOf(c *api.Change) (ids []string) {
	if c.Mark != "" {
		ids = append(ids, c.Mark)
	}
	for _, m := range c.Near {
		ids = append(ids, m.ID)
	}
	return ids
}

// tellChange puts into a change what a mark, if it has a verdict, says of its service at its moment;
// false if that is nothing. What follows from another change stays so.
func tellChange(v *api.MarkVerdict, c *api.Change) bool {
	if v == nil {
		return false
	}
	for i := range v.Services {
		of := &v.Services[i]
		if of.Service != c.Service || of.Environment != c.Environment {
			continue
		}
		headline := cmp.Or(of.Headline, of.Sentence)
		if c.Ended > 0 {
			headline = judge.Past(headline)
		}
		if c.Rate != "" {
			headline += "; " + c.Rate
		}
		if c.Shape != nil && c.Shape.Kind == judge.Spike {
			s := spikeAt(of.Shapes, c)
			if s != nil { // its figures are not those of what lasts
				setHeadline(c, headline)
				c.Lead, c.Shape = "", s
			}
			return s != nil
		}
		at := int64(c.Low) <= of.After.Start+surelyApart && int64(c.High) >= of.Before.End-surelyApart
		// Between marks that are judged together lies time in which more than one thing may
		// have happened.
		together := of.After.Start-of.Before.End > surelyApart
		if !at || together || c.Operation != "" || !judge.Moved(of.Verdict) || judge.Opposite(c.Verdict, of.Verdict) {
			return false
		}
		setHeadline(c, headline)
		c.Lead, c.Before, c.After, c.Measures = of.Lead, of.Before, of.After, of.Measures
		if i := slices.IndexFunc(of.Measures, func(m api.CompareMeasure) bool { return m.Name == of.Lead }); i >= 0 {
			c.Name = strings.TrimSpace(fmt.Sprintf("%s of %s %s", of.Lead, judge.Where(c.Service, c.Environment, ""), of.Measures[i].Verdict))
		}
		if c.Under == "" || !judge.Moved(c.Verdict) { // what follows from another change keeps the word that says so
			c.Verdict = of.Verdict
		}
		return true
	}
	return false
}

// spikeAt returns the spike of a mark that a change tells too, of the same operation or of its
// whole service; nil if there is none.
func spikeAt(shapes []api.Shape, c *api.Change) *api.Shape {
	for i := range shapes {
		s := &shapes[i]
		if s.Kind == judge.Spike && s.Side == "" && ofErrors(s) == ofErrors(c.Shape) && c.Shape.Measure != judge.Rate && (c.Operation == "" || c.Operation == s.Operation) && s.Start < c.Shape.End && c.Shape.Start < s.End {
			return s
		}
	}
	return nil
}

func ofErrors(s *api.Shape) bool { return s.Measure == judge.ErrorShare }
