package verdicts

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/client"
	"tailscope/internal/figure"
	"tailscope/internal/judge"
)

// youngStory fails where what is told of a young mark of shop is not told in the same words of the
// same sides by its page, the list of marks, the list of services, the change that lies at it, a
// comparison at it, and the command line. It reports whether a change was told.
func (w *world) youngStory(at time.Duration, id string, marked api.Float) bool {
	w.t.Helper()
	w.advance(0)
	r, err := w.Changes(w.t.Context(), api.ChangesRequest{Start: unix(epoch), End: unix(w.clock())})
	if err != nil {
		w.t.Fatal(err)
	}
	compared, err := w.Compare(w.t.Context(), api.CompareRequest{Selection: ofService("shop"), Mark: id})
	var early *client.Error
	if err != nil && !(errors.As(err, &early) && early.Code == "too_early") {
		w.t.Fatal(err)
	}
	m, err := w.Mark(w.t.Context(), id)
	if err != nil {
		w.t.Fatal(err)
	}
	v := m.Verdict
	w.t.Logf("%s: %s, %s: %s", at, v.State, v.Verdict, v.Sentence)
	list, err := w.Marks(w.t.Context(), api.MarksRequest{})
	if err != nil {
		w.t.Fatal(err)
	}
	if i := slices.IndexFunc(list.Marks, func(m api.Mark) bool { return m.ID == id }); list.Marks[i].Verdict.Sentence != v.Sentence || list.Marks[i].Verdict.State != v.State || list.Marks[i].Verdict.Verdict != v.Verdict {
		w.t.Errorf("%s: the list of marks says %+v", at, list.Marks[i].Verdict)
	}
	services, err := w.Services(w.t.Context(), api.ServicesRequest{Selection: api.Selection{Start: unix(epoch)}})
	if err != nil {
		w.t.Fatal(err)
	}
	if latest := services.Services[0].LatestMark; latest == nil || latest.Verdict.Sentence != v.Sentence {
		w.t.Errorf("%s: the list of services says %+v", at, latest)
	}
	if _, output := w.tailscope("mark", "show", id); !strings.Contains(output, v.Sentence) {
		w.t.Errorf("%s: tailscope mark show says\n%s", at, output)
	}
	if compared != nil && (compared.Verdict != v.Verdict || compared.Sentence != v.Sentence) {
		w.t.Errorf("%s: a comparison at the mark says %s: %s", at, compared.Verdict, compared.Sentence)
	}
	for _, c := range r.Changes {
		if c.Operation != "" || c.Part != nil {
			continue
		}
		s := v.Services[0]
		if figure.Sentence(c.Headline) != v.Sentence || c.Verdict != v.Verdict || c.Before != s.Before || c.After != s.After || c.Lead != s.Lead || c.ToldBy != id {
			w.t.Errorf("%s: a change says %s: %s (%v, %v)", at, c.Verdict, c.Sentence, c.Before, c.After)
		}
		if c.Time != marked || !strings.Contains(c.Sentence, ", since 2026-05-12 10:30:03 UTC") {
			w.t.Errorf("%s: it is of %v, the mark of %v: %s", at, c.Time.Time(), marked.Time(), c.Sentence)
		}
		if compared == nil || compared.A.Range != c.Before || compared.B.Range != c.After {
			w.t.Errorf("%s: a comparison at the mark has other sides: %+v", at, compared)
		}
	}
	if !judge.Moved(v.Verdict) && strings.Contains(v.Sentence, " % slower") {
		w.t.Errorf("%s: a figure stands beside %s", at, v.Verdict)
	}
	return w.decided(at, r) && judge.Moved(v.Verdict)
}

// decided fails where a change that a mark tells cannot be dismissed as it was answered, and taken
// back as it is then answered, or where its event has another moment.
// It reports whether there is one.
func (w *world) decided(at time.Duration, r *api.ChangesResponse) bool {
	w.t.Helper()
	told := func(c api.Change) bool { return c.ToldBy != "" && c.Operation == "" && c.Under == "" }
	i := slices.IndexFunc(r.Changes, told)
	if i < 0 {
		return false
	}
	c := r.Changes[i]
	for _, e := range r.Events {
		if slices.Contains(e.Changes, c.ID) && (e.Time != c.Time || !strings.Contains(e.Sentence, " at 2026-05-12 10:30:03 UTC")) {
			w.t.Errorf("%s: the change is of %v, its event of %v: %s", at, c.Time.Time(), e.Time.Time(), e.Sentence)
		}
	}
	for _, step := range []struct {
		status string
		shown  bool
	}{{"dismissed", false}, {"new", true}} {
		d := api.ChangeDecision{ID: c.ID, Time: c.Time, Low: c.Low, High: c.High, Service: c.Service, Environment: c.Environment, Status: step.status}
		if _, err := w.DecideChange(w.t.Context(), d); err != nil {
			w.t.Errorf("%s: it cannot be made %s: %v", at, step.status, err)
		}
		for _, status := range []string{"", "all"} {
			got, err := w.Changes(w.t.Context(), api.ChangesRequest{Start: unix(epoch), End: unix(w.clock()), Status: status})
			if err != nil {
				w.t.Fatal(err)
			}
			k := slices.IndexFunc(got.Changes, told)
			if shown := k >= 0; shown != (step.shown || status == "all") {
				w.t.Errorf("%s: %s, asked for %q it is shown: %v", at, step.status, status, shown)
			} else if shown {
				c = got.Changes[k]
				if string(c.Status) != step.status || c.Time != r.Changes[i].Time {
					w.t.Errorf("%s: %s, it is %s of %v", at, step.status, c.Status, c.Time.Time())
				}
			}
		}
	}
	if c.ID != r.Changes[i].ID {
		w.t.Errorf("%s: taken back it is %s, and was %s", at, c.ID, r.Changes[i].ID)
	}
	return true
}

// While an event is young it has one story as well, from the first look at its mark on.
func TestYoungEventHasOneStory(t *testing.T) {
	for _, c := range []struct {
		name              string
		perSecond, factor float64
		told              bool // in each case in the end
	}{
		{"gross", 20, 1.6, true},
		{"seen by a search before the mark's own looks", 8, 1.22, false},
		{"none", 8, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			loads := crowd("shop", c.perSecond)
			w := newWorld(t, 1531)
			w.send(20*time.Minute, loads...)
			w.sendEvery(10*time.Minute, 10*time.Second, loads...)
			w.advance(3 * time.Second)
			id, marked := w.mark("deploy", "shop"), api.UnixTime(w.clock())
			loads = with(loads, slow("", "", c.factor))
			told := false
			for at := 10 * time.Second; at <= 9*time.Minute; at += 10 * time.Second {
				w.sendEvery(10*time.Second, 10*time.Second, loads...)
				if slices.Contains([]int{30, 60, 90, 120, 240, 300, 360, 540}, int(at.Seconds())) {
					told = w.youngStory(at, id, marked)
				}
			}
			if c.told && !told {
				t.Error("no change is told")
			}
		})
	}
}
