package marks

import (
	"slices"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/judge"
	"tailscope/internal/store/storetest"
)

// What a search found at a young mark is told of the mark until it is no longer found, or the mark's own verdict tells what changed.
func TestFoundAtAYoungMark(t *testing.T) {
	const moment = 4000
	since := func(sec int64) api.Float { return api.Float(epoch + moment + sec) }
	st := storetest.NewTwin()
	send(t, st, 3, 8000, moment, operation{service: "shop", name: "GET /cart", median: 0.02, ratio: 2})
	w := newWorld(t, st)
	m := mark("deploy", moment+3, "shop")
	w.put(m)
	w.round(moment + 60)
	change := func(end int64) api.Change {
		return api.Change{
			Service: "shop", Low: since(-70), Time: since(-60), High: since(10), Near: []api.Mark{m.API()}, Verdict: judge.Regression, Lead: "p50",
			Headline: "p50 of shop is 90 % slower", Sentence: "p50 of shop is 90 % slower, since " + since(-60).Time().UTC().Format(time.DateTime) + " UTC, between then and then",
			Before: api.Range{Start: epoch, End: epoch + moment}, After: api.Range{Start: epoch + moment + 10, End: epoch + end}, Measures: []api.CompareMeasure{{Name: "p50"}},
		}
	}
	tell := func(c api.Change) *api.Change {
		t.Helper()
		all := []api.Change{c}
		if err := w.judge.Tell(t.Context(), all); err != nil {
			t.Fatal(err)
		}
		return &all[0]
	}
	for _, other := range []func(*api.Change){
		func(c *api.Change) { c.Operation = "GET /cart" }, func(c *api.Change) { c.Under = "another" }, func(c *api.Change) { c.Verdict = judge.TooLittle },
		func(c *api.Change) { c.Low, c.Time, c.High = since(120), since(130), since(140) }, func(c *api.Change) { c.Ended = 1 },
	} {
		c := change(moment + 60)
		other(&c)
		if got := tell(c); got.ToldBy != "" || w.judge.Brief(m).State != Waiting {
			t.Errorf("%+v is told by %q", got, got.ToldBy)
		}
	}
	for _, end := range []int64{moment + 60, moment + 50} { // the second answer is older
		got := tell(change(end))
		if got.ToldBy != m.ID || got.After.End != epoch+moment+60 || got.Sentence != change(end).Sentence {
			t.Errorf("it is told as %+v", got)
		}
		for _, v := range []*api.MarkVerdict{w.judge.Brief(m), w.judge.Of(m, "shop"), w.full(m)} {
			if v.State != Early || v.Verdict != judge.Regression || v.Sentence != "p50 of shop is 90 % slower" || v.Services[0].After != got.After || v.Services[0].Lead != "p50" {
				t.Errorf("the mark is told as %+v", v)
			}
		}
		if len(w.full(m).Services[0].Measures) != 1 || len(w.judge.Brief(m).Services[0].Measures) != 0 {
			t.Error("the list of marks has figures, or the mark has none")
		}
	}
	w.now = w.now.Add(foundFor + time.Second)
	if v := w.judge.Brief(m); v.State != Waiting {
		t.Errorf("not found any more it is told as %+v", v)
	}
	tell(change(moment + 60))
	w.round(moment + 20 + 3600 + ripe)
	w.round(moment + 20 + 3600 + ripe)
	if v := w.full(m); v.State != Final || v.Services[0].After.End == epoch+moment+60 {
		t.Errorf("a final verdict is told as %+v", v)
	}
	if got := tell(change(moment + 60)); got.ToldBy != m.ID || got.After != w.full(m).Services[0].After {
		t.Errorf("it is not told as the final verdict: %+v", got)
	}
}

// What a search found of several services at a mark of all, or of several environments of one, is
// told of each, the worst first.
func TestFoundOfSeveralServices(t *testing.T) {
	const moment = 4000
	st := storetest.NewTwin()
	send(t, st, 3, moment, moment, operation{service: "shop", name: "GET /cart", median: 0.02})
	w := newWorld(t, st)
	m := mark("deploy", moment+3, "")
	w.put(m)
	w.now = at(moment + 60)
	change := func(service, environment string, v judge.Verdict) api.Change {
		headline := "p50 of " + judge.Where(service, environment, "") + " moved"
		return api.Change{
			Service: service, Environment: environment, Low: api.Float(epoch + moment), High: api.Float(epoch + moment + 10), Near: []api.Mark{m.API()}, Verdict: v, Headline: headline, Sentence: headline + ", since then",
			Before: api.Range{Start: epoch, End: epoch + moment}, After: api.Range{Start: epoch + moment + 10, End: epoch + moment + 60},
		}
	}
	all := []api.Change{change("cart", "", judge.Improvement), change("shop", "staging", judge.Improvement), change("shop", "production", judge.Regression)}
	for range 2 {
		if err := w.judge.Tell(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	v := w.judge.Brief(m)
	if v.State != Early || v.Verdict != judge.Mixed || len(v.Services) != 3 || v.Services[0].Environment != "production" {
		t.Fatalf("the mark is told as %+v", v)
	}
	for _, c := range all {
		of := w.judge.Of(m, c.Service)
		if c.ToldBy != m.ID || !slices.ContainsFunc(v.Services, func(s api.ServiceVerdict) bool {
			return s.Service == c.Service && s.Environment == c.Environment && s.Verdict == c.Verdict && s.After == c.After && s.Headline == c.Headline
		}) || len(of.Services) != 1 {
			t.Errorf("%s is not told of the mark: %+v", c.Headline, v.Services)
		}
	}
}
