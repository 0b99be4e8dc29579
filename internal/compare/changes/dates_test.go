package changes

import (
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/store"
)

// A change that a mark tells has the mark's moment where that lies in its interval, with an id by
// which it is decided, and so has its event.
func TestChangesHaveTheMomentOfTheirMark(t *testing.T) {
	const found, marked = 1_700_000_000, 1_700_000_003 // 22:13:20
	marks := []store.Mark{{ID: "m", Time: time.Unix(marked, 0)}}
	change := func(operation string, at, low, high api.Float) api.Change {
		c := api.Change{Service: "shop", Operation: operation, Time: at, Low: low, High: high, Status: New, ToldBy: "m", Headline: "x", Sentence: "x, since 2023-11-14 22:13:20 UTC, between then and then"}
		c.ID = idOf(subjectOf(&c), int64(at))
		return c
	}
	for _, c := range []struct {
		name   string
		change func(*api.Change)
		dated  bool
		want   string // of the sentence
	}{
		{"told by the mark", func(*api.Change) {}, true, "x, since 2023-11-14 22:13:23 UTC, between then and then"},
		{"over", func(c *api.Change) {
			c.Sentence = "x, from 2023-11-14 22:13:20 to 22:14:00 UTC, normal again since"
		}, true, "x, from 2023-11-14 22:13:23 to 22:14:00 UTC, normal again since"},
		{"in slots of a minute", func(c *api.Change) { c.Sentence = "x, since 2023-11-14 22:13 UTC" }, true, "x, since 2023-11-14 22:13 UTC"},
		{"became the mark", func(c *api.Change) { c.Status, c.Mark = Confirmed, "m" }, true, "x, since 2023-11-14 22:13:23 UTC, between then and then"},
		{"told by a mark that is gone", func(c *api.Change) { c.ToldBy = "gone" }, false, ""},
		{"told by none", func(c *api.Change) { c.ToldBy = "" }, false, ""},
		{"surely later", func(c *api.Change) { c.Time, c.Low, c.High = found+10, found+10, found+20 }, false, ""},
		{"surely earlier", func(c *api.Change) { c.Low, c.High = found-10, found }, false, ""},
		{"dismissed", func(c *api.Change) { c.Status = Dismissed }, true, "x, since 2023-11-14 22:13:23 UTC, between then and then"},
	} {
		lead, under := change("", found, found-20, found+20), change("GET /cart", found, found, found)
		under.ToldBy = ""
		c.change(&lead)
		if lead.Time != found {
			lead.ID = idOf(subjectOf(&lead), int64(lead.Time))
		}
		under.Under = lead.ID
		events := []api.ChangeEvent{{Time: lead.Time, Low: lead.Low, High: lead.High, Changes: []string{lead.ID, under.ID}, Sentence: "2 changes of shop at one moment, at 2023-11-14 22:13:20 UTC, between then and then"}}
		out := &api.ChangesResponse{Changes: []api.Change{lead, under}, Events: events}
		dateBy(marks, out)
		i := slices.IndexFunc(out.Changes, func(c api.Change) bool { return c.Operation == "" })
		got, e := out.Changes[i], out.Events[0]
		if !c.dated {
			if got.Time != lead.Time || got.ID != lead.ID || got.Sentence != lead.Sentence || e.Time != lead.Time || e.Sentence != events[0].Sentence {
				t.Errorf("%s: %+v", c.name, got)
			}
			continue
		}
		if got.Time != marked || got.Sentence != c.want || e.Time != marked || !strings.Contains(e.Sentence, ", at 2023-11-14 22:13:23 UTC, between") {
			t.Errorf("%s: %+v, %+v", c.name, got, e)
		}
		if id := out.Changes[1-i].Under; got.ID != e.Changes[0] || got.ID != id || (got.ID == lead.ID) != (lead.Status != New) {
			t.Errorf("%s: it is %s and was %s, of the event %v, under it %s", c.name, got.ID, lead.ID, e.Changes, id)
		}
		if events[0].Changes[0] != lead.ID || events[0].Time != lead.Time {
			t.Errorf("%s: what others were answered is changed: %+v", c.name, events[0])
		}
		if d := decisionOf(&got, Dismissed); lead.Status == New && d.ID != idOf(subjectOfDecision(&d), int64(d.Time)) {
			t.Errorf("%s: it cannot be decided", c.name)
		}
	}
	// The event of a change that is known less well than that of another, which leads by itself, has
	// the moment of the mark only where that may be.
	sharp, told := change("GET /cart", found+30, found+30, found+30), change("", found, found-20, found+40)
	sharp.ToldBy = ""
	out := &api.ChangesResponse{Changes: []api.Change{told, sharp}, Events: []api.ChangeEvent{{Time: sharp.Time, Low: sharp.Low, High: sharp.High, Changes: []string{told.ID, sharp.ID}}}}
	dateBy(marks, out)
	if out.Events[0].Time != sharp.Time || out.Changes[0].Time != marked || out.Events[0].Changes[0] != out.Changes[0].ID {
		t.Errorf("an event that surely was later: %+v", out.Events[0])
	}
	// Two changes of the same do not become one.
	out = &api.ChangesResponse{Changes: []api.Change{change("", found, found-20, found+20), change("", found+10, found-20, found+20)}}
	if dateBy(marks, out); out.Changes[0].ID == out.Changes[1].ID || out.Changes[0].Time != marked || out.Changes[1].Time != found+10 {
		t.Errorf("two changes of the same: %+v", out.Changes)
	}
}
