package verdicts

import (
	"strings"
	"testing"
	"time"

	"tailscope/api"
)

// Rectangles that hold nothing, one slot, one tenant or nothing but errors are answered, or the
// answer says what to ask instead.
func TestExplainOddQuestions(t *testing.T) {
	w := newWorld(t, 1)
	one := []load{{service: "shop", operation: "GET /cart", tenant: "acme", perSecond: 2, median: 0.1}}
	two := append(crowd("shop", 4), one...)
	w.send(time.Hour, two...)
	w.send(20*time.Minute, with(two, slow("", "", 2))...)
	w.advance(20 * time.Minute)
	single := func(l *load) { l.service = "single" }
	w.send(30*time.Minute, append(with(one, single), with(crowd("broken", 3), func(l *load) { l.service = "broken" })...)...)
	w.send(30*time.Minute, append(with(with(one, single), slow("", "", 3)), with(crowd("broken", 3), func(l *load) { l.failed = 1 })...)...)
	w.send(30*time.Minute, with(crowd("broken", 3), func(l *load) { l.failed = 1 })...)
	w.advance(time.Minute)
	p := func(v float64) *float64 { return &v }
	for _, c := range []struct {
		name, service string
		from, to      time.Duration
		low, high     *float64
		against       string
		want          string // in the sentence, that of errors and notes
	}{
		{"no requests in its time", "shop", 85 * time.Minute, 95 * time.Minute, p(0.3), nil, "", "no requests were measured in the rectangle's time: draw another, or take a filter off"},
		{"none of that long", "shop", 62 * time.Minute, 72 * time.Minute, p(100), nil, "", "the rectangle is empty: it holds none of the requests of its time; draw one where there are some"},
		{"none of that long, rest", "shop", 62 * time.Minute, 72 * time.Minute, p(100), nil, "rest", "there are fewer than 10 requests inside the rectangle: draw another"},
		{"none as short", "shop", 62 * time.Minute, 72 * time.Minute, nil, p(0.0001), "", "the rectangle is empty: it holds none of the requests of its time; draw one where there are some | none of the requests of that time failed | the time before ends at"},
		{"one slot", "shop", 65 * time.Minute, 65*time.Minute + 10*time.Second, p(0.3), nil, "", "too few to tell how much shares vary there"},
		{"one slot, rest", "shop", 65 * time.Minute, 65*time.Minute + 10*time.Second, p(0.3), nil, "rest", "the rectangle's time has 1 slot with requests, "},
		{"one second", "shop", 65 * time.Minute, 65*time.Minute + time.Second, p(0.3), nil, "", "all requests: 24 % of them are inside, "},
		{"at the beginning of data", "shop", 0, 15 * time.Minute, p(0.3), nil, "", "no requests were measured from 2026-05-12 09:45:00 to 10:00:00 UTC, with which the rectangle would be compared: name another stretch before, or ask who is slow"},
		{"half before the data", "shop", -10 * time.Minute, 10 * time.Minute, p(0.3), nil, "", "name another stretch before, or ask who is slow"},
		{"a day ago", "shop", 62 * time.Minute, 72 * time.Minute, p(0.3), nil, "day", "no requests were measured from 2026-05-11 11:02:00 to 11:12:00 UTC, "},
		{"one tenant", "single", 130 * time.Minute, 145 * time.Minute, p(0.2), nil, "", "all requests: 85 % of them are inside, "},
		{"one tenant, rest", "single", 130 * time.Minute, 145 * time.Minute, p(0.2), nil, "rest", "there is nothing to tell apart: every label has one value; take a filter off, or ask who became slow"},
		{"one tenant, nothing new", "single", 115 * time.Minute, 125 * time.Minute, p(0.2), nil, "", "nothing became slower here than it was from 2026-05-12 11:45:00 to 11:55:00 UTC; name another stretch before, or ask who is slow"},
		{"everything fails", "broken", 130 * time.Minute, 145 * time.Minute, p(0.3), nil, "", "; but all requests: 100 % of them fail, 0 % did before (+100 points, "},
		{"everything failed before too", "broken", 162 * time.Minute, 172 * time.Minute, p(0.3), nil, "", "; but all requests: 100 % of them fail, 0 % did before (+100 points, "},
		{"everything is inside", "shop", 62 * time.Minute, 72 * time.Minute, p(0), nil, "", "all requests: 81 % of them are inside, "},
		{"in the future", "shop", 300 * time.Minute, 310 * time.Minute, p(0.3), nil, "", "no requests were measured in the rectangle's time: draw another, or take a filter off"},
	} {
		sel := ofService(c.service)
		sel.Start, sel.End = unix(epoch.Add(c.from-5*time.Minute)), unix(epoch.Add(c.to))
		r, err := w.Explain(t.Context(), api.ExplainRequest{Selection: sel, From: unix(epoch.Add(c.from)), To: sel.End, Low: c.low, High: c.high, Against: c.against})
		if err != nil {
			t.Fatal(err)
		}
		said := []string{r.Sentence}
		if r.Errors != nil {
			said = append(said, r.Errors.Sentence)
		}
		if got := strings.Join(append(said, r.Notes...), " | "); !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", c.name, got)
		} else {
			t.Log(c.name, got)
		}
	}
}
