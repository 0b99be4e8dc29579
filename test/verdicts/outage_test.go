package verdicts

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
	"tailscope/internal/compare/changes"
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
	ofShop("down", "the rate of shop went from ", down)
	w.send(time.Hour, append(shop, goingOn)...)
	ofShop("back", "the rate of shop was 0/s for 20 min, then as before", down+time.Hour)
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
	w.send(48*time.Minute, append(shop, goingOn)...)
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
	if got, want := warning(w.final(id).Services[0].Warnings), "there are no requests after, for 21.7 min from 2026-05-12 11:00 UTC on, while others come: its rate is over all of it"; got != want {
		t.Errorf("warning of the mark %q, want %q", got, want)
	}
}
