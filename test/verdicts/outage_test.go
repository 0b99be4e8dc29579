package verdicts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/compare/changes"
	"tailscope/internal/judge"
)

// goingOn is a service that goes on while shop stops: the server was up.
var goingOn = load{service: "other", operation: "GET /x", perSecond: 5, median: 0.1}

// changesOf returns the changes of a service, of all if it is empty.
func (w *world) changesOf(service string, from, to time.Duration) *api.ChangesResponse {
	w.t.Helper()
	r := api.ChangesRequest{Start: unix(epoch.Add(from)), End: unix(epoch.Add(to))}
	if service != "" {
		r.Match = ofService(service).Match
	}
	found, err := w.Changes(w.t.Context(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

// A service that stops is found, asked of it alone or of all, while it is down and once it
// is back.
func TestOutageIsAChange(t *testing.T) {
	w := newWorld(t, 1400)
	shop := crowd("shop", 10)
	w.send(time.Hour, append(shop, goingOn)...)
	w.send(20*time.Minute, goingOn)
	down := 80 * time.Minute
	ofShop := func(when, what string, to time.Duration) {
		t.Helper()
		for _, service := range []string{"shop", ""} {
			var said []string
			for _, c := range w.changesOf(service, 0, to).Changes {
				if c.Service == "other" {
					t.Errorf("%s: a change of other: %s", when, c.Sentence)
				}
				if c.Operation == "" {
					said = append(said, c.Sentence)
				}
				t.Logf("%s, asked of %q: %v %s %s", when, service, c.Found, c.Name, c.Sentence)
			}
			if len(said) != 1 || !strings.HasPrefix(said[0], what) {
				t.Errorf("%s, asked of %q: %q, want one that begins with %q", when, service, said, what)
			}
		}
	}
	ofShop("down", "no requests of shop, before ", down)
	w.send(time.Hour, append(shop, goingOn)...)
	ofShop("back", "no requests of shop for 20 min, then as before", down+time.Hour)
	for _, c := range w.changesOf("shop", 0, down).Changes {
		if c.Found[0] != changes.Rate || float64(c.Time) != float64(epoch.Add(time.Hour).Unix()) {
			t.Errorf("found %v at %v, want the rate at %v", c.Found, c.Time, epoch.Add(time.Hour).Unix())
		}
	}
}

// An outage within a side is named, and the rate of the side is over all of it.
func TestOutageWithinASide(t *testing.T) {
	w := newWorld(t, 1401)
	shop := crowd("shop", 10)
	w.send(time.Hour, append(shop, goingOn)...)
	id := w.mark("deploy", "shop")
	w.send(22*time.Minute, goingOn)
	w.send(65*time.Minute, append(shop, goingOn)...)
	r := w.compare("shop", window{30 * time.Minute, time.Hour}, window{time.Hour, 90 * time.Minute})
	if a, b := float64(r.A.Rate), float64(r.B.Rate); a < 9.5 || a > 10.5 || b < 2.4 || b > 3 {
		t.Errorf("rates %v and %v, want 10 and 2.7", a, b)
	}
	warning := func(of []api.CompareWarning) string {
		for _, w := range of {
			if w.Code == "gaps" {
				return w.Text
			}
		}
		return ""
	}
	if got, want := warning(r.Warnings), "there are no requests on side B, for 22 min from 2026-05-12 11:00 UTC on, while others come: its rate is over all of it"; got != want {
		t.Errorf("warning %q, want %q", got, want)
	}
	if v := w.final(id); v.Verdict != judge.Regression || !strings.HasPrefix(v.Sentence, "An outage of 22 min, from 11:00 UTC on; then no evidence ") {
		t.Errorf("the mark says %s: %s", v.Verdict, v.Sentence)
	}
}

// Requests that stop, or nearly stop, at a mark are a regression, of slots of ten seconds
// and of one. Fewer of them are said, and count where a gate names the rate.
func TestRateOfRequestsIsJudged(t *testing.T) {
	for _, c := range []struct {
		name     string
		left     float64 // share of the requests
		verdict  api.Verdict
		sentence string
	}{
		{"stop", 0, judge.Regression, "The rate of shop went from "},
		{"a tenth", 0.1, judge.Regression, "The rate of shop is 9"},
		{"a third", 1. / 3, judge.NoEvidence, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, 1402)
			shop, then := crowd("shop", 4), []load{goingOn}
			if c.left > 0 {
				then = append(then, with(shop, func(l *load) { l.perSecond *= c.left })...)
			}
			w.send(time.Hour, append(shop, goingOn)...)
			id := w.mark("deploy", "shop")
			w.send(time.Hour+time.Minute, then...)
			is := func(of string, verdict api.Verdict, sentence string) {
				t.Helper()
				if t.Logf("%s: %s: %s", of, verdict, sentence); verdict != c.verdict || !strings.HasPrefix(sentence, c.sentence) {
					t.Errorf("%s: %s: %s, want %s: %s", of, verdict, sentence, c.verdict, c.sentence)
				}
			}
			r := w.compare("shop", window{0, time.Hour}, window{time.Hour, 2 * time.Hour})
			is("comparison", r.Verdict, r.Sentence)
			v := w.final(id)
			is("mark", v.Verdict, v.Sentence)
			for _, x := range []struct {
				measures, allow []string
				want            api.Verdict
			}{
				{nil, []string{"rate=decrease:10%"}, judge.Regression},
				{[]string{"rate"}, []string{"rate=decrease:10%"}, judge.Regression},
			} {
				r, err := w.Compare(t.Context(), api.CompareRequest{Selection: ofService("shop"), A: window{0, time.Hour}.text("/"), B: window{time.Hour, 2 * time.Hour}.text("/"), Measures: x.measures, Allow: x.allow})
				if err != nil {
					t.Fatal(err)
				}
				if r.Verdict != x.want {
					t.Errorf("measures %v, allow %v: %s: %s, want %s", x.measures, x.allow, r.Verdict, r.Sentence, x.want)
				}
			}
			if c.left == 1./3 && !strings.Contains(fmt.Sprint(r.Warnings), "fewer requests a second on side B") {
				t.Errorf("warnings %v", r.Warnings)
			}
		})
	}
}

// Requests that fall to a tenth are told within a minute.
func TestRateThatFallsIsToldWithinAMinute(t *testing.T) {
	w := newWorld(t, 1403)
	w.sendEvery(8*time.Minute, 5*time.Second, crowd("shop", 60)...)
	id := w.mark("deploy", "shop")
	for at := 5 * time.Second; at <= time.Minute; at += 5 * time.Second {
		w.sendEvery(5*time.Second, 5*time.Second, crowd("shop", 6)...)
		if v := w.verdict(id); v.Verdict == judge.Regression {
			t.Logf("after %v: %s", at, v.Sentence)
			return
		}
	}
	t.Errorf("after a minute: %s", w.verdict(id).Sentence)
}

// What became slow or fails about an outage, and stays so, is told as such: what is over does
// not hide what lasts, in its service or in one that has nothing to do with it.
func TestOutageHidesNothing(t *testing.T) {
	shop, billing := crowd("shop", 10), crowd("billing", 5)
	fails := func(l *load) { l.failed = 0.1 }
	for _, c := range []struct {
		name         string
		first        time.Duration // of what lasts, before the outage
		down         time.Duration
		slow, beside []load
		service      string
	}{
		{"slow after it", 0, 7 * time.Minute, with(shop, slow("", "", 1.5)), billing, "shop"},
		{"one operation after it", 0, 20 * time.Minute, with(shop, slow("GET /item", "", 2)), billing, "shop"},
		{"fails a minute before it, and after", time.Minute, 4 * time.Minute, with(shop, fails), billing, "shop"},
		{"slow from its deploy on, which takes it down", 30 * time.Second, 2 * time.Minute, with(shop, slow("", "", 1.5)), billing, "shop"},
		{"another from its start on", 0, 7 * time.Minute, shop, with(billing, slow("", "", 1.6)), "billing"},
		{"another fails shortly before", 30 * time.Second, 7 * time.Minute, shop, with(billing, fails), "billing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			worlds(t, 1, 1, func(w *world) (bool, string) {
				w.send(time.Hour, slices.Concat(shop, billing)...)
				if c.first > 0 {
					w.send(c.first, slices.Concat(c.slow, c.beside)...)
				}
				w.send(c.down, c.beside...)
				w.send(time.Hour, slices.Concat(c.slow, c.beside)...)
				var said []string
				lasts := false
				for _, x := range w.changesOf("", 0, 2*time.Hour+c.down).Changes {
					if x.Under == "" {
						said = append(said, fmt.Sprintf("%s: %s", x.Verdict, x.Sentence))
						lasts = lasts || x.Verdict == judge.Regression && x.Service == c.service && (x.Shape == nil || x.Shape.Kind != judge.Spike)
					}
				}
				return lasts && len(said) == 2, strings.Join(said, "\n")
			})
		})
	}
}
